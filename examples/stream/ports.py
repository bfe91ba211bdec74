"""A port for a server that is about to start, and the error if the server cannot be had."""

import socket


class NoServerError(Exception):
    """A server, or what it needs, cannot be had or does not start; one line that says why."""


def held_port() -> socket.socket:
    """A socket that keeps a port of loopback free for a server, until the socket is closed.

    A Java server binds its port seconds after it was given the number. Meanwhile any connection on the
    machine may get that port for its own end, unless a socket is bound to it. The server can bind it all the
    same: this socket does not listen, and both set ``SO_REUSEADDR``.
    """
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    return held


def port_of(held: socket.socket) -> int:
    """The number of the port."""
    return int(held.getsockname()[1])
