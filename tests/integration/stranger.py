"""What another account of this machine tries where somebody's engine listens; a program of its own.

It is told in JSON on its standard input: ``ports`` and ``sockets`` where processes listen, ``folders`` of
theirs, a ``command`` and a ``jar`` that leave a mark where they are run. It becomes the ``account`` it is
told, tries everything, and prints in JSON what worked.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import ssl
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import apache_beam as beam
import grpc
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import (
    beam_artifact_api_pb2,
    beam_artifact_api_pb2_grpc,
    beam_fn_api_pb2,
    beam_fn_api_pb2_grpc,
    beam_job_api_pb2,
    beam_job_api_pb2_grpc,
    beam_provision_api_pb2,
    beam_provision_api_pb2_grpc,
)
from apache_beam.runners.portability.portable_runner import PortableRunner

#: Seconds until an answer.
PATIENCE = 5.0
#: As engines name workers.
WORKERS = [f"{factory}-{number}" for factory in range(1, 5) for number in range(1, 5)]
#: What gRPC says of whoever does not speak it, or not with us.
UNREACHED = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.UNIMPLEMENTED)


def become(account: int) -> None:
    """Give up the rights of root, for good."""
    os.setgroups([])
    os.setresgid(account, account, account)
    os.setresuid(account, account, account)


def answers(call: Callable[[], Any]) -> bool:
    """Whether a gRPC call reaches a service that has it."""
    try:
        call()
    except grpc.RpcError as error:
        # One that waits for us to say more has let us in.
        return error.code() not in UNREACHED
    return True


def takes_jobs(channel: grpc.Channel, target: str, command: str | None) -> bool:
    """Whether a job server takes a job, whose workers are a command; without one, whether it listens."""
    jobs = beam_job_api_pb2_grpc.JobServiceStub(channel)
    request = beam_job_api_pb2.DescribePipelineOptionsRequest()
    if not answers(lambda: jobs.DescribePipelineOptions(request, timeout=PATIENCE)):
        return False
    if command is None:
        return True
    options = [
        f"--job_endpoint={target}",
        "--environment_type=PROCESS",
        f"--environment_config={json.dumps({'command': command})}",
        "--job_server_timeout=60",
    ]
    pipeline = beam.Pipeline(runner=PortableRunner(), options=PipelineOptions(options))
    _ = pipeline | beam.Create([1]) | beam.Map(str)
    try:
        result = pipeline.run()
    except Exception as error:  # whatever it says: the job was not taken
        print(f"{target}: {error!r}", file=sys.stderr)
        return False
    # The command is no worker, so the job fails in the end; it has run by then.
    waiting = threading.Thread(target=lambda: _quietly(result.wait_until_finish), daemon=True)
    waiting.start()
    waiting.join(60)
    return True


def _quietly(wait: Callable[[], Any]) -> None:
    with contextlib.suppress(Exception):
        wait()


def takes_artifacts(channel: grpc.Channel) -> bool:
    """Whether someone hands out files of a job."""
    files = beam_artifact_api_pb2_grpc.ArtifactRetrievalServiceStub(channel)
    request = beam_artifact_api_pb2.GetArtifactRequest()
    return answers(lambda: next(files.GetArtifact(request, timeout=PATIENCE), None))


def tells_of_jobs(channel: grpc.Channel) -> list[str]:
    """The options of a job, as its workers are told them."""
    service = beam_provision_api_pb2_grpc.ProvisionServiceStub(channel)
    request = beam_provision_api_pb2.GetProvisionInfoRequest()
    told = []
    for worker in WORKERS:
        with contextlib.suppress(grpc.RpcError):
            found = service.GetProvisionInfo(request, timeout=PATIENCE, metadata=[("worker_id", worker)])
            told += list(found.info.pipeline_options)
    return told


def takes_workers(channel: grpc.Channel) -> bool:
    """Whether someone gives us the work of a job."""
    control = beam_fn_api_pb2_grpc.BeamFnControlStub(channel)
    more = threading.Event()

    def said() -> Any:
        more.wait(PATIENCE)
        yield from ()

    metadata = [("worker_id", "stranger")]
    return answers(lambda: next(control.Control(said(), timeout=PATIENCE, metadata=metadata), None))


def lends_workers(channel: grpc.Channel) -> bool:
    """Whether a pool starts a worker for us, which would run what we say."""
    pool = beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolStub(channel)
    request = beam_fn_api_pb2.StartWorkerRequest(worker_id="stranger")
    request.control_endpoint.url = "localhost:1"
    try:
        return not pool.StartWorker(request, timeout=PATIENCE).error
    except grpc.RpcError as error:
        return error.code() not in UNREACHED


def runs_jars(port: int, jar: bytes) -> bool:
    """Whether a REST API takes a jar and runs it."""
    anybody = ssl.create_default_context()
    anybody.check_hostname, anybody.verify_mode = False, ssl.CERT_NONE
    line = "stranger"
    head = f'--{line}\r\nContent-Disposition: form-data; name="jarfile"; filename="a.jar"\r\n'
    body = (
        f"{head}Content-Type: application/java-archive\r\n\r\n".encode()
        + jar
        + f"\r\n--{line}--\r\n".encode()
    )
    for scheme in ("http", "https"):
        url = f"{scheme}://localhost:{port}"
        multipart = {"Content-Type": f"multipart/form-data; boundary={line}"}
        upload = urllib.request.Request(f"{url}/jars/upload", body, multipart)
        try:
            with urllib.request.urlopen(upload, timeout=PATIENCE, context=anybody) as answer:
                name = json.load(answer)["filename"].rpartition("/")[2]
            run = urllib.request.Request(
                f"{url}/jars/{name}/run", b"{}", {"Content-Type": "application/json"}
            )
            # Our program starts no job of Flink's, which is an error; it has run by then.
            with contextlib.suppress(urllib.error.HTTPError):
                urllib.request.urlopen(run, timeout=60, context=anybody).close()
            return True
        except (OSError, ValueError, http.client.HTTPException):
            continue
    return False


def readable(folder: str) -> list[str]:
    """The files of a folder that we can read."""
    found = []
    for place, _, names in os.walk(folder):
        found += [str(Path(place, name)) for name in names if os.access(Path(place, name), os.R_OK)]
    return found


def main() -> None:
    told = json.load(sys.stdin)
    jar = Path(told["jar"]).read_bytes()
    become(told["account"])
    targets = [f"localhost:{port}" for port in told["ports"]] + [f"unix:{path}" for path in told["sockets"]]

    def knock(target: str) -> dict[str, Any]:
        channel = grpc.insecure_channel(target)
        try:
            # Who does not speak gRPC without a key is never ready.
            grpc.channel_ready_future(channel).result(PATIENCE)
        except grpc.FutureTimeoutError:
            return {}
        return {
            "jobs": takes_jobs(channel, target, told["command"]),
            "artifacts": takes_artifacts(channel),
            "options": tells_of_jobs(channel),
            "work": takes_workers(channel),
            "lent": lends_workers(channel),
        }

    worked: dict[str, list[Any]] = {"jobs": [], "artifacts": [], "options": [], "work": [], "lent": []}
    with ThreadPoolExecutor(64) as threads:
        for target, found in zip(targets, threads.map(knock, targets), strict=True):
            for kind, what in found.items():
                worked[kind] += [f"{target}: {what}"] if what else []
        jars = threads.map(lambda port: runs_jars(port, jar), told["ports"])
        worked["jars"] = [port for port, ran in zip(told["ports"], jars, strict=True) if ran]
    worked["files"] = [path for folder in told["folders"] for path in readable(folder)]
    json.dump(worked, sys.stdout)
    sys.stdout.flush()
    # Channels of jobs that go on.
    os._exit(0)


if __name__ == "__main__":
    main()
