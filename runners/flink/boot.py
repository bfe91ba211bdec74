"""``ldpbeam-worker``: a Python worker that a task manager starts, and that ends with the task manager.

Beam starts such a command with the worker's id (``--id``) and the address of a service that has all other
settings (``--provision_endpoint``). Beam's own command is a Go program, which installs packages for each
worker. This one runs in its own virtual environment, which must have all packages that the pipeline needs.
"""

from __future__ import annotations

import argparse
import os
import sys

from ldpbeam.processes import end_with


def main() -> int:
    """Run a worker until it ends, and return the exit code."""
    # The kernel's own signal for that (PR_SET_PDEATHSIG) is sent when the *thread* that started this process
    # ends. In a task manager this is the thread of one stage, but a worker serves several stages.
    end_with(os.getppid())
    parser = argparse.ArgumentParser(prog="ldpbeam-worker", description="Started by Flink's task managers.")
    parser.add_argument("--id", required=True, help="the worker's name")
    parser.add_argument("--provision_endpoint", required=True, help="host:port of the provision service")
    # The provision service gives all other arguments too.
    arguments, _ = parser.parse_known_args()
    # The import of Beam takes seconds, during which the parent is watched already.
    os.environ.update(_environment(arguments.id, arguments.provision_endpoint))
    from apache_beam.runners.worker import sdk_worker_main

    sdk_worker_main.main([])
    return 0


def _environment(worker: str, endpoint: str) -> dict[str, str]:
    """The environment variables that Beam's worker needs, from the task manager's provision service."""
    import grpc
    from apache_beam.portability.api import beam_provision_api_pb2, beam_provision_api_pb2_grpc
    from apache_beam.runners.worker.worker_id_interceptor import WorkerIdInterceptor
    from google.protobuf import json_format, text_format

    with grpc.insecure_channel(endpoint) as channel:
        named = grpc.intercept_channel(channel, WorkerIdInterceptor(worker))
        service = beam_provision_api_pb2_grpc.ProvisionServiceStub(named)
        request = beam_provision_api_pb2.GetProvisionInfoRequest()
        info = service.GetProvisionInfo(request, wait_for_ready=True, timeout=60).info
    variables = {
        "WORKER_ID": worker,
        "PIPELINE_OPTIONS": json_format.MessageToJson(info.pipeline_options),
        "LOGGING_API_SERVICE_DESCRIPTOR": text_format.MessageToString(info.logging_endpoint),
        "CONTROL_API_SERVICE_DESCRIPTOR": text_format.MessageToString(info.control_endpoint),
        "RUNNER_CAPABILITIES": " ".join(info.runner_capabilities),
    }
    if info.HasField("status_endpoint"):
        variables["STATUS_API_SERVICE_DESCRIPTOR"] = text_format.MessageToString(info.status_endpoint)
    return variables


if __name__ == "__main__":
    sys.exit(main())
