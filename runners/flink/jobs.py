"""Beam's Flink runner, which ends its job server with the job."""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import grpc
from apache_beam.options.pipeline_options import FlinkRunnerOptions, GoogleCloudOptions
from apache_beam.portability import python_urns
from apache_beam.runners.portability.flink_runner import MAGIC_HOST_NAMES, FlinkRunner
from apache_beam.runners.portability.job_server import JobServer
from apache_beam.runners.runner import PipelineResult, PipelineState

from ldpbeam.runners.flink.job_server import ClosedJobServer
from ldpbeam.runners.flink.parts import FlinkError, cached
from ldpbeam.runners.flink.rest import Rest
from ldpbeam.runners.sockets import private_folder, target
from ldpbeam.runners.worker_pool import WorkerPool

#: Seconds between two checks of a job.
LOOKING_SECONDS = 2.0
#: Seconds without a running task after which a message is printed.
STALLED_SECONDS = 30.0


class ClusterRunner(FlinkRunner):
    """A runner that submits pipelines and watches jobs on a cluster; ``[local]`` cannot be watched."""

    def __init__(self) -> None:
        super().__init__()
        self._server: JobServer | None = None
        self._undone: list[Callable[[], object]] = []

    def default_job_server(self, options: Any) -> JobServer:
        """The job server on a Unix socket if the options name its jar, else Beam's own; it is remembered."""
        parts = cached()
        jar = options.view_as(FlinkRunnerOptions).flink_job_server_jar
        ours = parts is not None and jar == str(parts.job_server)
        self._server = ClosedJobServer(options) if ours else super().default_job_server(options)
        return self._server

    def start_and_replace_loopback_environments(
        self, pipeline: Any, options: Any
    ) -> list[Callable[[], object]]:
        """Start workers in this process, on a private Unix socket, if the pipeline wants ``LOOPBACK``.

        Returns:
            Functions that end the workers and remove the socket's folder.
        """
        environments = pipeline.components.environments.values()
        self._undone = []
        if any(environment.urn == python_urns.EMBEDDED_PYTHON_LOOPBACK for environment in environments):
            started = contextlib.ExitStack()
            self._undone = [started.close]
            pool = WorkerPool(target(started.enter_context(private_folder()) / "pool"), options)
            started.callback(pool.stop)
            pool.replace_loopback(pipeline)
        return self._undone

    def run_portable_pipeline(self, pipeline: Any, options: Any) -> PipelineResult:
        """Submit a pipeline and return its result; a job without a name gets a unique one."""
        named = options.view_as(GoogleCloudOptions)
        if named.job_name is None:
            named.job_name = f"ldpbeam-{uuid.uuid4().hex[:8]}"
        master = options.view_as(FlinkRunnerOptions).flink_master
        try:
            result = super().run_portable_pipeline(pipeline, options)
        except BaseException:
            # The job was not submitted, so nothing else would end the workers and the job server.
            for undo in self._undone:
                undo()
            if self._server is not None:
                self._server.stop()
            raise
        result._message_stream = _until_gone(result._message_stream)
        if master in MAGIC_HOST_NAMES:
            return Result(result, self._server)
        return ClusterResult(result, self._server, Rest(master), named.job_name)


def _until_gone(messages: Iterable[Any]) -> Iterator[Any]:
    """The messages of a job server until it ends, which is no error: the job's state has the outcome."""
    with contextlib.suppress(grpc.RpcError):
        yield from messages


def _of_threads(failed: threading.ExceptHookArgs) -> None:
    """Ignore the error of a thread that ends because its server has ended."""
    if not isinstance(failed.exc_value, grpc.RpcError):
        threading.__excepthook__(failed)


class Result(PipelineResult):
    """The result of a job on Flink; its job server ends with the job.

    Args:
        result: Beam's own result.
        server: the job server that this process started; None if it was running before.
    """

    def __init__(self, result: Any, server: JobServer | None) -> None:
        super().__init__(PipelineState.RUNNING)
        self._state: str
        self._result = result
        self._server = server

    @property
    def state(self) -> str:
        """The state of the job, one of Beam's ``PipelineState``."""
        if not PipelineState.is_terminal(self._state):
            self._state = self._result.state
        return self._state

    def wait_until_finish(self, duration: int | None = None) -> str:
        """Wait until the job has ended, or ``duration`` milliseconds have passed, and return the state.

        Raises:
            RuntimeError: if the job failed or was cancelled.
        """
        try:
            state = self._wait(duration)
        except (KeyboardInterrupt, SystemExit):
            # The user does not wait for the job any more; errors of its workers here are not of interest.
            logging.getLogger("apache_beam.runners.worker").setLevel(logging.CRITICAL + 1)
            threading.excepthook = _of_threads
            self.cancel()
            raise
        except BaseException:
            self._end_server()
            raise
        if PipelineState.is_terminal(state):
            self._end_server()
        return state

    def _wait(self, duration: int | None) -> str:
        self._result.wait_until_finish(duration)
        return self.state

    def cancel(self) -> None:
        """Cancel the job, and end its job server."""
        try:
            # The job server may have ended already.
            with contextlib.suppress(grpc.RpcError, ValueError):
                self._result.cancel()
        finally:
            if not PipelineState.is_terminal(self._state):
                self._state = PipelineState.CANCELLED
            self._end_server()

    def metrics(self) -> Any:
        """The job's metrics, as Beam's own result gives them."""
        return self._result.metrics()

    def _end_server(self) -> None:
        if self._server is not None:
            try:
                # Beam's result keeps the metrics after the first request.
                self._result.metrics()
            except (grpc.RpcError, ValueError):
                logging.getLogger(__name__).warning("the job has no metrics", exc_info=True)
            self._server.stop()
            self._server = None


class ClusterResult(Result):
    """The result of a job on a cluster; while it waits, it prints a message if the job has no slots.

    Args:
        result: Beam's own result.
        server: the job server that this process started; None if it was running before.
        rest: the cluster's REST API.
        name: the job's name.
    """

    def __init__(self, result: Any, server: JobServer | None, rest: Rest, name: str) -> None:
        super().__init__(result, server)
        self._rest = rest
        self._name = name
        self._over = threading.Event()
        self._stalled_since: float | None = None
        self._told = False

    def _wait(self, duration: int | None) -> str:
        self._over.clear()
        threading.Thread(target=self._watch, daemon=True).start()
        try:
            return super()._wait(duration)
        finally:
            self._over.set()

    def cancel(self) -> None:
        """Cancel the job on the cluster, and end its job server."""
        # The cluster must cancel the job too: the job server only forgets a cancelled job, which goes on.
        with contextlib.suppress(FlinkError):
            job = self._job()
            if job is not None:
                self._rest.cancel(job["jid"])
        super().cancel()

    def _watch(self) -> None:
        while not self._over.wait(LOOKING_SECONDS):
            # The job manager may be unreachable for a while.
            with contextlib.suppress(FlinkError):
                job = self._job()
                if job is not None:
                    self._look(job)

    def _look(self, job: dict[str, Any]) -> None:
        tasks = job.get("tasks", {})
        busy = sum(tasks.get(state, 0) for state in ("running", "deploying", "initializing"))
        if busy or not tasks.get("scheduled"):
            self._stalled_since, self._told = None, False
            return
        self._stalled_since = self._stalled_since or time.monotonic()
        if not self._told and time.monotonic() - self._stalled_since >= STALLED_SECONDS:
            print(f"ldpbeam: {self._rest.shortage()}", file=sys.stderr)
            self._told = True

    def _job(self) -> dict[str, Any] | None:
        """The job as the cluster lists it, while it runs or restarts; None otherwise."""
        alive = ("CREATED", "RUNNING", "FAILING", "RESTARTING")
        jobs = [job for job in self._rest.jobs() if job["name"] == self._name and job["state"] in alive]
        return jobs[0] if jobs else None
