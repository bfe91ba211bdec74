"""Beam's job server on a Unix socket, as a process that ends with its job and with this process."""

from __future__ import annotations

import atexit
import contextlib
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import grpc
from apache_beam.options.pipeline_options import FlinkRunnerOptions, JobServerOptions
from apache_beam.portability.api import beam_job_api_pb2_grpc
from apache_beam.runners.portability.flink_runner import MAGIC_HOST_NAMES
from apache_beam.runners.portability.job_server import JobServer

from ldpbeam.runners.flink import cluster_keys as keys
from ldpbeam.runners.flink.parts import FlinkError
from ldpbeam.runners.flink.settings import ON_LOOPBACK, write_settings
from ldpbeam.runners.sockets import private_folder, target

#: The seconds after which the start fails if the job server does not answer; two seconds are usual.
STARTING_SECONDS = 180.0
#: The seconds after which a job server that was asked to end is killed.
ENDING_SECONDS = 15.0
_UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


class ClosedJobServer(JobServer):
    """A job server of one job, whose files and sockets are in a private folder of this account.

    Args:
        options: the options of the job, which name the cluster and the Java for the job server.
    """

    def __init__(self, options: Any) -> None:
        flink = options.view_as(FlinkRunnerOptions)
        server = options.view_as(JobServerOptions)
        self._master = str(flink.flink_master)
        self._java = [server.job_server_java_launcher, *(server.job_server_jvm_properties or [])]
        self._jar = str(flink.flink_job_server_jar)
        self._lock = threading.Lock()
        self._started: contextlib.ExitStack | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: grpc.Channel | None = None

    def start(self) -> Any:
        """Start the job server, wait until it answers, and return the stub of its job service.

        Raises:
            FlinkError: if Java is missing, the process ends, or it does not answer in time.
        """
        self._started = contextlib.ExitStack()
        folder = self._started.enter_context(private_folder())
        atexit.register(self.stop)
        try:
            self._configure(folder)
            self._run(folder)
            self._wait(folder)
        except BaseException:
            self.stop()
            raise
        self._channel = grpc.insecure_channel(target(folder / "job"), options=_UNLIMITED)
        return beam_job_api_pb2_grpc.JobServiceStub(self._channel)

    def stop(self) -> None:
        """End the job server, and the cluster inside it if there is one; a second call does nothing."""
        with self._lock:
            if self._started is None:
                return
            atexit.unregister(self.stop)
            if self._channel is not None:
                self._channel.close()
            if self._process is not None:
                assert self._process.stdin is not None
                self._process.stdin.close()
                try:
                    self._process.wait(ENDING_SECONDS)
                except subprocess.TimeoutExpired:
                    self._process.kill()
                    self._process.wait()
            self._started.close()
            self._started = None

    def _configure(self, folder: Path) -> None:
        if self._master in MAGIC_HOST_NAMES:
            # The cluster inside the job server listens on its own ports, so it needs its own key.
            settings = {**ON_LOOPBACK, **keys.make(folder / keys.KEYS).settings()}
        else:
            known = keys.keys_at(self._master)
            settings = {} if known is None else known.settings()
        (folder / "tmp").mkdir()
        write_settings(folder / "conf", settings)

    def _run(self, folder: Path) -> None:
        command = [
            *self._java,
            f"-Dldpbeam.sockets={folder}",
            f"-Djava.io.tmpdir={folder / 'tmp'}",
            "-jar", self._jar,
            f"--flink-master={self._master}",
            f"--flink-conf-dir={folder / 'conf'}",
            f"--artifacts-dir={folder / 'artifacts'}",
        ]  # fmt: skip
        with (folder / "said").open("wb") as said:
            try:
                self._process = subprocess.Popen(
                    command,
                    # The job server ends when this pipe closes, which also happens if this process is killed.
                    stdin=subprocess.PIPE,
                    stdout=said,
                    stderr=subprocess.STDOUT,
                    # Ctrl-C must reach only this process, which ends the job first.
                    start_new_session=True,
                )
            except FileNotFoundError:
                raise FlinkError(f"there is no {self._java[0]} on PATH: install Java 11 or 17") from None

    def _wait(self, folder: Path) -> None:
        assert self._process is not None
        patience = time.monotonic() + STARTING_SECONDS
        while not (folder / "job").exists():
            if self._process.poll() is not None:
                lines = (folder / "said").read_text(errors="replace").splitlines()
                raise FlinkError(f"the job server ended: {(lines or ['it said nothing'])[0].strip()}")
            if time.monotonic() > patience:
                raise FlinkError(f"the job server did not answer within {STARTING_SECONDS:.0f} s")
            time.sleep(0.05)
