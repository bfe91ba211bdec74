"""A Pub/Sub server on this machine, for the demonstration and the integration tests.

The first of these that there is: the server that ``PUBSUB_EMULATOR_HOST`` names, Google's emulator
(``gcloud`` with its component ``pubsub-emulator``, and Java), the tests' own server. Clients reach any of
them by ``PUBSUB_EMULATOR_HOST``.
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ports import NoServerError, held_port, port_of

PROJECT = "ldp-test"
TESTS = Path(__file__).parents[2] / "tests" / "integration"
PATIENCE = 180.0  # seconds; the emulator is ready after about five


class Server(NamedTuple):
    """A server that answers."""

    address: str  # host:port
    name: str  # what it is, and where it is not the first choice, why


@contextlib.contextmanager
def running_server() -> Iterator[Server]:
    """The first server there is, for as long as the block lasts.

    Raises:
        NoServerError: ``PUBSUB_EMULATOR_HOST`` names a server that does not answer.
    """
    named = os.environ.get("PUBSUB_EMULATOR_HOST")
    if named:
        _check_that_it_answers(named)
        yield Server(named, f"the one at {named}, which PUBSUB_EMULATOR_HOST names")
        return
    with contextlib.ExitStack() as stack:
        try:
            server = Server(stack.enter_context(emulator()), "Google's emulator")
        except NoServerError as why:
            server = Server(stack.enter_context(own_server()), f"the tests' own, because {why}")
        yield server


@contextlib.contextmanager
def emulator() -> Iterator[str]:
    """The address of Google's emulator, started for the block.

    Raises:
        NoServerError: There is no ``gcloud``, or it does not start the emulator.
    """
    gcloud = shutil.which("gcloud")
    if gcloud is None:
        raise NoServerError("there is no gcloud on PATH to start Google's emulator")
    with held_port() as held, tempfile.TemporaryDirectory(prefix="pubsub-emulator-") as folder:
        address = f"localhost:{port_of(held)}"
        log = Path(folder) / "log"
        command = [gcloud, "beta", "emulators", "pubsub", "start", f"--project={PROJECT}"]
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*command, f"--host-port={address}", f"--data-dir={folder}"],
                # Without an input gcloud does not offer to download a missing component: it ends.
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                # Java, which gcloud starts, would outlive it: the whole group is ended.
                start_new_session=True,
            )
        try:
            _wait_until_ready(process, log)
            yield address
        finally:
            # It holds nothing that is worth saving.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@contextlib.contextmanager
def own_server() -> Iterator[str]:
    """The address of the tests' own server, in this process for the block."""
    sys.path.insert(0, str(TESTS))
    try:
        from pubsub_server import PubSubServer
    finally:
        sys.path.remove(str(TESTS))
    with PubSubServer() as server:
        yield server.address


def _wait_until_ready(process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + PATIENCE
    while "Server started, listening on" not in (said := log.read_text(errors="replace")):
        if process.poll() is not None:
            last = ([line.strip() for line in said.splitlines() if line.strip()] or ["nothing"])[-1]
            raise NoServerError(f"gcloud could not start Google's emulator and said: {last}")
        if time.monotonic() > end:
            raise NoServerError(f"Google's emulator was not ready after {PATIENCE:.0f} seconds")
        time.sleep(0.1)


def _check_that_it_answers(address: str) -> None:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=5).close()
    except (OSError, ValueError) as error:
        raise NoServerError(
            f"PUBSUB_EMULATOR_HOST is {address!r}, where nothing answers ({error}): start a server there, "
            "or unset it and one is started"
        ) from None
