"""Beam's Flink runner, which cancels its job on the cluster."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterable, Iterator
from typing import Any

import grpc
from apache_beam.options.pipeline_options import FlinkRunnerOptions, GoogleCloudOptions
from apache_beam.runners.portability.flink_runner import FlinkRunner
from apache_beam.runners.portability.job_server import JobServer
from apache_beam.runners.runner import PipelineResult, PipelineState

from ldpbeam.runners.flink.rest import FlinkError, Rest


class ClusterRunner(FlinkRunner):
    """A runner that submits pipelines to a cluster; its job server ends with its job."""

    def __init__(self) -> None:
        super().__init__()
        self._server: JobServer | None = None

    def default_job_server(self, options: Any) -> JobServer:
        """Beam's job server, which is remembered, to be ended."""
        self._server = super().default_job_server(options)
        return self._server

    def run_portable_pipeline(self, pipeline: Any, options: Any) -> PipelineResult:
        """Submit a pipeline and return its result; a job without a name gets a unique one."""
        named = options.view_as(GoogleCloudOptions)
        if named.job_name is None:
            named.job_name = f"ldpbeam-{uuid.uuid4().hex[:8]}"
        rest = Rest(options.view_as(FlinkRunnerOptions).flink_master)
        try:
            result = super().run_portable_pipeline(pipeline, options)
        except BaseException:
            # The job was not submitted, so nothing else would end it.
            _end(self._server)
            raise
        result._message_stream = _until_gone(result._message_stream)
        return ClusterResult(result, rest, named.job_name, self._server)


def _end(server: JobServer | None) -> None:
    if server is not None:
        server.stop()


def _until_gone(messages: Iterable[Any]) -> Iterator[Any]:
    """The messages of a job server until it ends, which is no error: the job's state has the outcome."""
    with contextlib.suppress(grpc.RpcError):
        yield from messages


class ClusterResult(PipelineResult):
    """The result of a job on a cluster, which is cancelled there.

    Args:
        result: Beam's own result.
        rest: the cluster's REST API.
        name: the job's name.
        server: the job server that this process started; None if it was running before.
    """

    def __init__(self, result: Any, rest: Rest, name: str, server: JobServer | None = None) -> None:
        super().__init__(PipelineState.RUNNING)
        self._result = result
        self._rest = rest
        self._name = name
        self._server = server

    def wait_until_finish(self, duration: int | None = None) -> str:
        """Wait until the job has ended, or ``duration`` milliseconds have passed, and return the state.

        Raises:
            RuntimeError: if the job failed or was cancelled.
        """
        try:
            self._state = str(self._result.wait_until_finish(duration))
        except (KeyboardInterrupt, SystemExit):
            self.cancel()
            raise
        except BaseException:
            _end(self._server)
            raise
        if PipelineState.is_terminal(self._state):
            _end(self._server)
        return self._state

    def cancel(self) -> None:
        """Cancel the job on the cluster; the job server alone would only forget it."""
        with contextlib.suppress(FlinkError):
            job = self._job()
            if job is not None:
                self._rest.cancel(job["jid"])
        # The job server may have ended already.
        with contextlib.suppress(grpc.RpcError, ValueError):
            self._result.cancel()
        _end(self._server)

    def _job(self) -> dict[str, Any] | None:
        """The job as the cluster lists it, while it runs or restarts; None otherwise."""
        alive = ("CREATED", "RUNNING", "FAILING", "RESTARTING")
        jobs = [job for job in self._rest.jobs() if job["name"] == self._name and job["state"] in alive]
        return jobs[0] if jobs else None
