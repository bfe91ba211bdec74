"""Beam's Flink runner, which ends its job server with the job, and a stream's job with its sources.

On Flink the job of a stream goes on when nothing can come any more. Beam has an option that ends it, but with
it the first checkpoint never ends, so nothing that was read is ever acknowledged. So whoever waits for the
job looks whether the watermark has passed all windows everywhere, and cancels it then. A source must not take
it to the end of time: there Beam clears state before Python's timers have read it.
"""

from __future__ import annotations

import logging
import threading
import uuid
from typing import Any

import grpc
from apache_beam.options.pipeline_options import FlinkRunnerOptions, GoogleCloudOptions, StandardOptions
from apache_beam.runners.portability.flink_runner import MAGIC_HOST_NAMES, FlinkRunner
from apache_beam.runners.portability.job_server import JobServer
from apache_beam.runners.runner import PipelineResult, PipelineState
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.timestamp import Duration

from ldpbeam.runners.flink.parts import FlinkError
from ldpbeam.runners.flink.rest import Rest

#: In milliseconds: a watermark after this is that of a stream that is over.
PAST_ALL_WINDOWS = (GlobalWindow().max_timestamp() - Duration(3600)).micros // 1000
#: Seconds between two looks whether a stream has ended.
LOOKING_SECONDS = 2.0


class ClusterRunner(FlinkRunner):
    """Submits pipelines, and watches over streams on a cluster; the one in ``[local]`` cannot be asked."""

    def __init__(self) -> None:
        super().__init__()
        self._server: JobServer | None = None

    def default_job_server(self, options: Any) -> JobServer:
        """Beam's own, remembered."""
        self._server = super().default_job_server(options)
        return self._server

    def run_portable_pipeline(self, pipeline: Any, options: Any) -> PipelineResult:
        """Submit a pipeline, under a name of its own if it has none."""
        named = options.view_as(GoogleCloudOptions)
        if named.job_name is None:
            named.job_name = f"ldpbeam-{uuid.uuid4().hex[:8]}"
        master = options.view_as(FlinkRunnerOptions).flink_master
        streaming = options.view_as(StandardOptions).streaming
        result = super().run_portable_pipeline(pipeline, options)
        if streaming and master not in MAGIC_HOST_NAMES:
            return StreamResult(result, self._server, Rest(master), named.job_name)
        return Result(result, self._server)


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
            return self._wait(duration)
        finally:
            if PipelineState.is_terminal(self.state):
                self._end_server()

    def _wait(self, duration: int | None) -> str:
        self._result.wait_until_finish(duration)
        return self.state

    def cancel(self) -> None:
        """End the job at once."""
        self._result.cancel()

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


class StreamResult(Result):
    """Of a stream, which is done when all that its sources had is.

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
        self._drained = False
        self._over = threading.Event()

    def _wait(self, duration: int | None) -> str:
        self._over.clear()
        threading.Thread(target=self._watch, daemon=True).start()
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
            self._over.set()

    def _is_news(self, record: logging.LogRecord) -> bool:
        """Not that the job was cancelled by this class, which Beam tells as an error."""
        return not (self._drained and "JobCancellationException" in record.getMessage())

    def _watch(self) -> None:
        checkpoints: int | None = None
        while not self._over.wait(LOOKING_SECONDS):
            try:
                job = self._job()
                if job is None or not drained(self._rest, job):
                    continue
                found = self._rest.checkpoints(job)
                if checkpoints is None:
                    checkpoints = found["counts"]["total"]
                    continue
                completed = found["latest"]["completed"]
                # One that began later has waited for all bundles, and so for all that they write.
                if completed is not None and completed["id"] > checkpoints:
                    self._drained = True
                    self._rest.cancel(job)
                    return
            except FlinkError:
                # The job manager may be away for a while.
                continue

    def _job(self) -> str | None:
        jobs = [job for job in self._rest.jobs() if job["name"] == self._name and job["state"] == "RUNNING"]
        return jobs[0]["jid"] if jobs else None


def drained(rest: Rest, job: str) -> bool:
    """Whether nothing can reach any vertex of a job any more."""
    watermarks = [mark for marks in rest.watermarks(job).values() for mark in marks]
    return bool(watermarks) and min(watermarks) > PAST_ALL_WINDOWS
