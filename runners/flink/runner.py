"""Beam's Flink runner, whose streams end when their sources have.

On Flink a stream's job goes on when nothing can come any more. Beam has an option that ends it, but with it
the first checkpoint never does, so nothing that was read is ever acknowledged. So whoever waits for the job
looks whether the watermark has reached the end of time everywhere, and cancels it then.
"""

from __future__ import annotations

import logging
import threading
import uuid
from typing import Any

from apache_beam.options.pipeline_options import FlinkRunnerOptions, GoogleCloudOptions, StandardOptions
from apache_beam.runners.portability.flink_runner import MAGIC_HOST_NAMES, FlinkRunner
from apache_beam.runners.runner import PipelineResult, PipelineState

from ldpbeam.runners.flink.parts import FlinkError
from ldpbeam.runners.flink.rest import Rest

#: Beam's end of time in milliseconds; Flink's is later.
_END = 9_223_372_036_854_775
#: Seconds between two looks whether a stream has ended.
_LOOKING_SECONDS = 2.0


class ClusterRunner(FlinkRunner):
    """Submits, and watches over streams on a cluster; the one that ``[local]`` brings cannot be asked."""

    def run_portable_pipeline(self, pipeline: Any, options: Any) -> PipelineResult:
        """Submit a pipeline under a name of its own."""
        named = options.view_as(GoogleCloudOptions)
        if named.job_name is None:
            named.job_name = f"ldpbeam-{uuid.uuid4().hex[:8]}"
        master = options.view_as(FlinkRunnerOptions).flink_master
        streaming = options.view_as(StandardOptions).streaming
        result = super().run_portable_pipeline(pipeline, options)
        if not streaming or master in MAGIC_HOST_NAMES:
            return result
        return StreamResult(result, Rest(master), named.job_name)


class StreamResult(PipelineResult):
    """The result of a stream, which is done when all it read is.

    Args:
        result: Beam's own.
        rest: the cluster.
        name: the job's.
    """

    def __init__(self, result: Any, rest: Rest, name: str) -> None:
        super().__init__(PipelineState.RUNNING)
        self._result = result
        self._rest = rest
        self._name = name
        self._drained = threading.Event()
        self._over = threading.Event()

    @property
    def state(self) -> str:
        """As Beam calls it."""
        return PipelineState.DONE if self._drained.is_set() else str(self._result.state)

    def wait_until_finish(self, duration: int | None = None) -> str:
        """Wait until the stream has ended, or was cancelled, or so many milliseconds have passed."""
        threading.Thread(target=self._watch, daemon=True).start()
        root = logging.getLogger()
        root.addFilter(self._says_news)
        try:
            return str(self._result.wait_until_finish(duration))
        except RuntimeError:
            # Beam raises for a job that was cancelled, whoever did it.
            if not self._drained.is_set():
                raise
            return str(PipelineState.DONE)
        finally:
            self._over.set()
            root.removeFilter(self._says_news)

    def _says_news(self, record: logging.LogRecord) -> bool:
        """Not that the job was cancelled here, which Beam tells as an error."""
        return not (self._drained.is_set() and "JobCancellationException" in record.getMessage())

    def cancel(self) -> None:
        """End the job at once."""
        self._result.cancel()

    def metrics(self) -> Any:
        """Beam's own."""
        return self._result.metrics()

    def _watch(self) -> None:
        checkpoints: int | None = None
        while not self._over.wait(_LOOKING_SECONDS):
            try:
                job = self._job()
                if job is None or not drained(self._rest, job):
                    continue
                counts = self._rest.checkpoints(job)
                if checkpoints is None:
                    checkpoints = counts["counts"]["total"]
                # A checkpoint that began later has waited for all bundles, and so for all that they write.
                elif (counts["latest"]["completed"] or {"id": 0})["id"] > checkpoints:
                    self._drained.set()
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
    return bool(watermarks) and min(watermarks) >= _END
