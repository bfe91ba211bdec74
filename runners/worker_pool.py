"""Workers in this process (``LOOPBACK``), started for one job only.

Beam's own pool listens on every interface and starts a worker for every request, so that another user's job
could run its code in this process. This pool listens at a given address. It starts a worker only for an
engine that knows the pool's secret, which is in the environment of its job.
"""

from __future__ import annotations

import contextlib
import hmac
import secrets
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
from apache_beam.options.pipeline_options import DebugOptions, PipelineOptions
from apache_beam.portability import python_urns
from apache_beam.portability.api import beam_fn_api_pb2, beam_fn_api_pb2_grpc
from apache_beam.runners.worker import sdk_worker, sdk_worker_main
from apache_beam.transforms.environments import ExternalEnvironment
from apache_beam.utils.sentinel import Sentinel

#: The name of the parameter of a job's environment that has the secret.
SECRET = "ldpbeam_pool"
#: The seconds that :meth:`WorkerPool.stop` waits for each worker to end.
ENDING_SECONDS = 10.0


class _Worker(sdk_worker.SdkHarness):
    """A worker that reports the error of a bundle to the engine only; Beam's also prints the traceback."""

    def _execute(self, task: Callable[[], Any], request: Any) -> None:
        def answered() -> Any:
            try:
                return task()
            except BaseException:  # as in Beam's worker: the engine reports every error of a bundle
                return beam_fn_api_pb2.InstructionResponse(
                    instruction_id=request.instruction_id, error=traceback.format_exc()
                )

        super()._execute(answered, request)


class WorkerPool(beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolServicer):
    """A gRPC server that runs the workers of one job as threads of this process."""

    def __init__(self, address: str, options: PipelineOptions) -> None:
        """Start the server.

        Args:
            address: the gRPC address to listen at: a Unix socket, or a port of loopback (0 for a free one).
            options: the options of the job.

        Raises:
            OSError: if the server cannot listen there.
        """
        experiments = options.view_as(DebugOptions).experiments or []
        self._sizes = {
            "state_cache_size": sdk_worker_main._get_state_cache_size_bytes(options=options),
            "data_buffer_time_limit_ms": sdk_worker_main._get_data_buffer_time_limit_ms(experiments),
        }
        self._secret = secrets.token_hex(32)
        self._workers: dict[str, tuple[sdk_worker.SdkHarness, threading.Thread]] = {}
        self._server = grpc.server(ThreadPoolExecutor(4, "ldpbeam-workers"))
        beam_fn_api_pb2_grpc.add_BeamFnExternalWorkerPoolServicer_to_server(self, self._server)
        try:
            port = self._server.add_insecure_port(address)
        except RuntimeError as error:
            raise OSError(f"{address}: {error}") from None
        self.address = f"{address.rpartition(':')[0]}:{port}" if address.endswith(":0") else address
        self._server.start()

    def StartWorker(self, request: Any, context: Any) -> Any:  # noqa: N802 (gRPC's name)
        """Start a worker if the request has the pool's secret; an engine calls this."""
        given = request.params.get(SECRET, "")
        if not hmac.compare_digest(given.encode(), self._secret.encode()):
            return beam_fn_api_pb2.StartWorkerResponse(error="this pool runs the workers of its own job only")
        try:
            worker = _Worker(request.control_endpoint.url, worker_id=request.worker_id, **self._sizes)
        except grpc.FutureTimeoutError:
            return beam_fn_api_pb2.StartWorkerResponse(
                error="the engine that asked for a worker is not there"
            )
        thread = threading.Thread(
            target=_run, args=(worker,), name=f"worker-{request.worker_id}", daemon=True
        )
        self._workers[request.worker_id] = worker, thread
        thread.start()
        return beam_fn_api_pb2.StartWorkerResponse()

    def StopWorker(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Tell a worker to end; only the job's engine knows the worker's name."""
        # Only stop() waits for the worker, because its open calls would fail together with the engine.
        if request.worker_id in self._workers:
            self._workers[request.worker_id][0]._responses.put(Sentinel.sentinel)
        return beam_fn_api_pb2.StopWorkerResponse()

    def replace_loopback(self, pipeline: Any) -> None:
        """Replace the ``LOOPBACK`` environments of a pipeline's proto by this pool."""
        pool = ExternalEnvironment(self.address, params={SECRET: self._secret})
        urn, payload = pool.to_runner_api_parameter(None)
        for environment in pipeline.components.environments.values():
            if environment.urn == python_urns.EMBEDDED_PYTHON_LOOPBACK:
                environment.urn, environment.payload = urn, payload.SerializeToString()

    def stop(self) -> None:
        """End all workers and the server; a second call does nothing."""
        self._server.stop(None).wait()
        ending = list(self._workers.values())
        self._workers.clear()
        for worker, _ in ending:
            worker._responses.put(Sentinel.sentinel)
        for _, thread in ending:
            thread.join(ENDING_SECONDS)


def _run(worker: sdk_worker.SdkHarness) -> None:
    # If the engine has ended, the process that waits for the job reports it.
    with contextlib.suppress(grpc.RpcError):
        worker.run()
