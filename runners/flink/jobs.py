"""Beam's Flink runner, which ends its job server with the job, and a stream's job with its sources.

On Flink the job of a stream goes on when nothing can come any more. Beam has an option that ends it, but with
it the first checkpoint never ends, so nothing that was read is ever acknowledged. So whoever waits for the
job looks whether the watermark has passed all windows everywhere, and cancels it then. A source must not take
it to the end of time: there Beam clears state before Python's timers have read it.
"""

from __future__ import annotations

import contextlib
import logging
import shutil
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import grpc
from apache_beam.options.pipeline_options import FlinkRunnerOptions, GoogleCloudOptions, StandardOptions
from apache_beam.portability import python_urns
from apache_beam.runners.portability.flink_runner import MAGIC_HOST_NAMES, FlinkRunner
from apache_beam.runners.portability.job_server import JobServer
from apache_beam.runners.runner import PipelineResult, PipelineState
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.timestamp import Duration

from ldpbeam.runners.flink.job_server import ClosedJobServer
from ldpbeam.runners.flink.parts import FlinkError, cached
from ldpbeam.runners.flink.rest import Rest
from ldpbeam.runners.sockets import private_folder, target
from ldpbeam.runners.worker_pool import WorkerPool

#: In milliseconds: a watermark after this is that of a stream that is over.
PAST_ALL_WINDOWS = (GlobalWindow().max_timestamp() - Duration(3600)).micros // 1000
#: Seconds between two looks at a job.
LOOKING_SECONDS = 2.0
#: Seconds that no task of a job runs before that is said.
STALLED_SECONDS = 30.0


class ClusterRunner(FlinkRunner):
    """Submits pipelines, and watches over streams on a cluster; the one in ``[local]`` cannot be asked."""

    def __init__(self) -> None:
        super().__init__()
        self._server: JobServer | None = None
        self._undone: list[Callable[[], object]] = []

    def default_job_server(self, options: Any) -> JobServer:
        """Ours on a Unix socket, if its jar is named, else Beam's own; remembered."""
        parts = cached()
        jar = options.view_as(FlinkRunnerOptions).flink_job_server_jar
        ours = parts is not None and jar == str(parts.job_server)
        self._server = ClosedJobServer(options) if ours else super().default_job_server(options)
        return self._server

    def start_and_replace_loopback_environments(
        self, pipeline: Any, options: Any
    ) -> list[Callable[[], object]]:
        """Start workers in this process, on a Unix socket of this account, where a pipeline wants them."""
        environments = pipeline.components.environments.values()
        self._undone = []
        if any(environment.urn == python_urns.EMBEDDED_PYTHON_LOOPBACK for environment in environments):
            folder = private_folder()
            self._undone.append(partial(shutil.rmtree, folder, ignore_errors=True))
            pool = WorkerPool(target(folder / "pool"), options)
            self._undone.insert(0, pool.stop)
            pool.replace_loopback(pipeline)
        return self._undone

    def run_portable_pipeline(self, pipeline: Any, options: Any) -> PipelineResult:
        """Submit a pipeline, under a name of its own if it has none."""
        named = options.view_as(GoogleCloudOptions)
        if named.job_name is None:
            named.job_name = f"ldpbeam-{uuid.uuid4().hex[:8]}"
        master = options.view_as(FlinkRunnerOptions).flink_master
        streaming = options.view_as(StandardOptions).streaming
        try:
            result = super().run_portable_pipeline(pipeline, options)
        except BaseException:
            # Nobody will wait for a job that was not submitted.
            for undo in self._undone:
                undo()
            if self._server is not None:
                self._server.stop()
            raise
        result._message_stream = _until_gone(result._message_stream)
        if master in MAGIC_HOST_NAMES:
            return Result(result, self._server)
        kind = StreamResult if streaming else ClusterResult
        return kind(result, self._server, Rest(master), named.job_name)


def _until_gone(messages: Iterable[Any]) -> Iterator[Any]:
    """What a job server tells, until it has ended; its end is told by the job's state."""
    with contextlib.suppress(grpc.RpcError):
        yield from messages


def _of_threads(failed: threading.ExceptHookArgs) -> None:
    """Say nothing of threads that end because what they were connected to has."""
    if not isinstance(failed.exc_value, grpc.RpcError):
        threading.__excepthook__(failed)


class Result(PipelineResult):
    """Of a job on Flink; when it has ended, its job server has.

    Args:
        result: Beam's own.
        server: what submitted the job and knows its state; None if it was there before.
    """

    def __init__(self, result: Any, server: JobServer | None) -> None:
        super().__init__(PipelineState.RUNNING)
        self._state: str
        self._result = result
        self._server = server

    @property
    def state(self) -> str:
        """As Beam calls it."""
        if not PipelineState.is_terminal(self._state):
            self._state = self._result.state
        return self._state

    def wait_until_finish(self, duration: int | None = None) -> str:
        """Wait until the job has ended, or so many milliseconds have passed; gives the state.

        Raises:
            RuntimeError: if it failed, or was cancelled.
        """
        try:
            state = self._wait(duration)
        except (KeyboardInterrupt, SystemExit):
            # Nobody waits for the job any more, nor for what its workers here say of its end.
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
        """End the job at once, and its job server."""
        try:
            # The job server may have ended before.
            with contextlib.suppress(grpc.RpcError, ValueError):
                self._result.cancel()
        finally:
            if not PipelineState.is_terminal(self._state):
                self._state = PipelineState.CANCELLED
            self._end_server()

    def metrics(self) -> Any:
        """Beam's own."""
        return self._result.metrics()

    def _end_server(self) -> None:
        if self._server is not None:
            try:
                # Beam's result keeps what it was told once.
                self._result.metrics()
            except (grpc.RpcError, ValueError):
                logging.getLogger(__name__).warning("the job has no metrics", exc_info=True)
            self._server.stop()
            self._server = None


class ClusterResult(Result):
    """Of a job on a cluster, which is looked at while somebody waits: a job that waits for slots says so.

    Args:
        result: Beam's own.
        server: likewise.
        rest: the cluster.
        name: the job's.
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
        """End the job at once, and its job server."""
        # Without this the job goes on: to its job server a cancelled job is one that it forgets.
        with contextlib.suppress(FlinkError):
            job = self._job()
            if job is not None:
                self._rest.cancel(job["jid"])
        super().cancel()

    def _watch(self) -> None:
        while not self._over.wait(LOOKING_SECONDS):
            # The job manager may be away for a while.
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
        """The job as the cluster lists it, while it runs or begins anew."""
        alive = ("CREATED", "RUNNING", "FAILING", "RESTARTING")
        jobs = [job for job in self._rest.jobs() if job["name"] == self._name and job["state"] in alive]
        return jobs[0] if jobs else None


class StreamResult(ClusterResult):
    """Of a stream, which is done when all that its sources had is."""

    def __init__(self, result: Any, server: JobServer | None, rest: Rest, name: str) -> None:
        super().__init__(result, server, rest, name)
        self._drained = False
        self._checkpoints: int | None = None

    def _wait(self, duration: int | None) -> str:
        root = logging.getLogger()
        root.addFilter(self._is_news)
        try:
            return super()._wait(duration)
        except RuntimeError:
            # Beam raises for a job that was cancelled, whoever did it.
            if not self._drained:
                raise
            self._state = PipelineState.DONE
            return self._state
        finally:
            root.removeFilter(self._is_news)

    def _is_news(self, record: logging.LogRecord) -> bool:
        """Not that the job was cancelled by this class, which Beam tells as an error."""
        return not (self._drained and "JobCancellationException" in record.getMessage())

    def _look(self, job: dict[str, Any]) -> None:
        super()._look(job)
        if self._drained or job["state"] != "RUNNING" or not drained(self._rest, job["jid"]):
            return
        found = self._rest.checkpoints(job["jid"])
        if self._checkpoints is None:
            self._checkpoints = found["counts"]["total"]
            return
        completed = found["latest"]["completed"]
        # One that began later has waited for all bundles, and so for all that they write.
        if completed is not None and completed["id"] > self._checkpoints:
            self._drained = True
            self._rest.cancel(job["jid"])


def drained(rest: Rest, job: str) -> bool:
    """Whether nothing can reach any vertex of a job any more."""
    watermarks = [mark for marks in rest.watermarks(job).values() for mark in marks]
    return bool(watermarks) and min(watermarks) > PAST_ALL_WINDOWS
