"""``ldpbeam-worker``: a Python worker that a task manager starts, and that lasts no longer than it.

Beam's contract with such a command: it is told who it is (``--id``) and whom to ask for all else
(``--provision_endpoint``). Beam's own is a program in Go, which installs packages for each worker anew; this
one runs in the virtual environment that it stands in, where whatever the pipeline needs is installed.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time

#: Seconds between two looks whether the task manager is still there.
_LOOKING_SECONDS = 1.0


def main() -> int:
    """Run a worker to its end; gives its exit code."""
    _end_with(os.getppid())
    parser = argparse.ArgumentParser(prog="ldpbeam-worker", description="Started by Flink's task managers.")
    parser.add_argument("--id", required=True, help="the worker's name")
    parser.add_argument("--provision_endpoint", required=True, help="host:port of who knows the rest")
    # What else is told stands in the answer too.
    arguments, _ = parser.parse_known_args()
    # Beam takes seconds to import, in which the parent is watched already.
    os.environ.update(_environment(arguments.id, arguments.provision_endpoint))
    from apache_beam.runners.worker import sdk_worker_main

    sdk_worker_main.main([])
    return 0


def _end_with(parent: int) -> None:
    """End when the parent has.

    The kernel could be asked to do so (``PR_SET_PDEATHSIG``), but would when the *thread* that started this
    process ends; of a task manager that is the thread of a stage, and workers serve several.
    """

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_LOOKING_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _environment(worker: str, endpoint: str) -> dict[str, str]:
    """What Beam's worker wants to find in its environment, asked of the task manager."""
    import grpc
    from apache_beam.portability.api import beam_provision_api_pb2, beam_provision_api_pb2_grpc
    from apache_beam.runners.worker.worker_id_interceptor import WorkerIdInterceptor
    from google.protobuf import json_format, text_format

    with grpc.insecure_channel(endpoint) as channel:
        named = grpc.intercept_channel(channel, WorkerIdInterceptor(worker))
        service = beam_provision_api_pb2_grpc.ProvisionServiceStub(named)
        request = beam_provision_api_pb2.GetProvisionInfoRequest()
        info = service.GetProvisionInfo(request, wait_for_ready=True, timeout=60).info
    found = {
        "WORKER_ID": worker,
        "PIPELINE_OPTIONS": json_format.MessageToJson(info.pipeline_options),
        "LOGGING_API_SERVICE_DESCRIPTOR": text_format.MessageToString(info.logging_endpoint),
        "CONTROL_API_SERVICE_DESCRIPTOR": text_format.MessageToString(info.control_endpoint),
        "RUNNER_CAPABILITIES": " ".join(info.runner_capabilities),
    }
    if info.HasField("status_endpoint"):
        found["STATUS_API_SERVICE_DESCRIPTOR"] = text_format.MessageToString(info.status_endpoint)
    return found


if __name__ == "__main__":
    sys.exit(main())
