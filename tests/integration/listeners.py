"""What processes listen on, as the kernel lists it."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

_LISTENS_TCP, _LISTENS_UNIX = "0A", 0x10000


class Listener(NamedTuple):
    """A socket that takes connections: its place is an address and port, or a path."""

    pid: int
    place: str
    loopback: bool
    port: int | None = None


def listeners(pids: Iterable[int]) -> set[Listener]:
    """All that some processes listen on."""
    owners = {inode: pid for pid in pids for inode in _sockets(pid)}
    return {
        Listener(owners[inode], *place)
        for inode, place in (*_tcp("tcp"), *_tcp("tcp6"), *_unix())
        if inode in owners
    }


def _sockets(pid: int) -> Iterator[int]:
    try:
        for link in Path(f"/proc/{pid}/fd").iterdir():
            found = re.fullmatch(r"socket:\[(\d+)\]", str(link.readlink()))
            if found:
                yield int(found[1])
    except OSError:  # it has ended
        return


def _tcp(table: str) -> Iterator[tuple[int, tuple[str, bool, int]]]:
    for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
        _, local, _, state, *_, inode = line.split()[:10]
        if state == _LISTENS_TCP:
            address, port = local.split(":")
            words = [bytes.fromhex(address[at : at + 8])[::-1] for at in range(0, len(address), 8)]
            ip = ipaddress.ip_address(b"".join(words))
            plain = ip.ipv4_mapped or ip if isinstance(ip, ipaddress.IPv6Address) else ip
            yield int(inode), (f"{plain}:{int(port, 16)}", plain.is_loopback, int(port, 16))


def _unix() -> Iterator[tuple[int, tuple[str, bool]]]:
    for line in Path("/proc/net/unix").read_text().splitlines()[1:]:
        parts = line.split()
        if int(parts[3], 16) & _LISTENS_UNIX and len(parts) > 7:
            yield int(parts[6]), (parts[7], True)
