"""The Prism process of one job, in its own session; it ends with the job and with this process."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import subprocess
import threading
import time
from pathlib import Path
from typing import IO, Any

import grpc
from apache_beam.portability.api import beam_job_api_pb2_grpc
from apache_beam.runners.portability.job_server import JobServer
from apache_beam.utils.subprocess_server import pick_port

from ldpbeam.runners.prism.find import Prism
from ldpbeam.runners.sockets import target

#: The seconds after which starting Prism fails if it does not answer.
START_SECONDS = 120.0
#: The seconds after which a Prism that was asked to end is killed.
ENDING_SECONDS = 10.0
#: Go collects garbage when the memory of Prism has grown by so many percent; its own default is 100.
GARBAGE_PERCENT = 40
_LOG = logging.getLogger("Prism")
_OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


class PrismServer(JobServer):
    """A Prism process that Beam's runner starts and stops as its job server."""

    def __init__(self, prism: Prism, folder: Path) -> None:
        """Make the server without starting it.

        Args:
            prism: the Prism to start.
            folder: a private folder for the socket.
        """
        self._prism = prism
        self._socket = folder / "prism"
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: Any = None

    def start(self) -> Any:
        """Start Prism, and return the stub of its job service.

        Raises:
            OSError: if Prism ends, or does not answer within ``START_SECONDS``.
        """
        command, address = self._command()
        self._process = subprocess.Popen(
            command,
            env={"GOGC": str(GARBAGE_PERCENT), **os.environ},
            # The pipe closes when this process ends for any reason; then Prism ends too.
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            # Ctrl-C must reach only this process, which then ends the job.
            start_new_session=True,
        )
        assert self._process.stdout is not None
        threading.excepthook = _quiet
        threading.Thread(target=_log, args=(self._process.stdout,), daemon=True).start()
        end = time.monotonic() + START_SECONDS
        while self._prism.closed and not self._socket.exists():
            self._check(end)
            time.sleep(0.01)
        self._channel = grpc.insecure_channel(address, options=_OPTIONS)
        ready = grpc.channel_ready_future(self._channel)
        while True:
            with contextlib.suppress(grpc.FutureTimeoutError):
                ready.result(timeout=0.1)
                return beam_job_api_pb2_grpc.JobServiceStub(self._channel)
            self._check(end)

    def _command(self) -> tuple[list[str], str]:
        common = [self._prism.path, "--log_level=error", "--log_kind=text", "--serve_http=false"]
        if self._prism.closed:
            return [*common, f"--job_socket={self._socket}"], target(self._socket)
        port = pick_port(None)[0]
        # setpriv is in util-linux; without it, Prism continues to run if this process is killed.
        setpriv = shutil.which("setpriv")
        ended = [setpriv, "--pdeathsig", "KILL"] if setpriv else []
        return [*ended, *common, f"--job_port={port}"], f"localhost:{port}"

    def _check(self, end: float) -> None:
        assert self._process is not None
        if self._process.poll() is not None:
            raise OSError(f"{self._prism.path} ended at once, with exit code {self._process.returncode}")
        if time.monotonic() > end:
            raise OSError(f"{self._prism.path} did not answer within {START_SECONDS:g} seconds")

    def stop(self) -> None:
        """Tell Prism to end, and wait until it has ended; a second call does nothing."""
        process, self._process = self._process, None
        if self._channel is not None:
            self._channel.close()
        if process is None:
            return
        assert process.stdin is not None
        process.stdin.close()
        if not self._prism.closed:
            process.terminate()
        try:
            process.wait(ENDING_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _quiet(failed: threading.ExceptHookArgs) -> None:
    """Ignore the error of a thread that ends because Prism has: ``wait_until_finish`` reports it."""
    if not isinstance(failed.exc_value, grpc.RpcError):
        threading.__excepthook__(failed)


def _log(lines: IO[bytes]) -> None:
    for line in lines:
        _LOG.error(line.decode(errors="backslashreplace").rstrip())
