"""What another account of this machine tries on a run: python stranger.py JOBS POOL FOLDER.

JOBS and POOL are where the engine takes jobs and where the pool starts workers, as gRPC names them. It says
in JSON what came of it: ``connected`` (what kept it from reaching the two), ``listed`` (how many jobs it was
shown), ``worker`` (whether the pool started a worker of its own), ``ran`` (whether its job ended well). Its
job writes the user id of the process that runs it into FOLDER.
"""

import json
import os
import queue
import socket
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import unquote

import apache_beam as beam
import grpc
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import (
    beam_fn_api_pb2,
    beam_fn_api_pb2_grpc,
    beam_job_api_pb2,
    beam_job_api_pb2_grpc,
    endpoints_pb2,
)
from apache_beam.runners.portability.portable_runner import PortableRunner

NOBODY = 65534
SECONDS = 60


def connected(target: str) -> str:
    """Empty if a connection can be made, else why not."""
    path = unquote(target.removeprefix("unix://"))
    host, _, port = target.rpartition(":")
    try:
        if target.startswith("unix:"):
            with socket.socket(socket.AF_UNIX) as own:
                own.connect(path)
        else:
            socket.create_connection((host, int(port)), SECONDS).close()
    except OSError as error:
        return type(error).__name__
    return ""


def listed(jobs: str) -> int | None:
    """How many jobs the engine tells of."""
    with grpc.insecure_channel(jobs) as channel:
        stub = beam_job_api_pb2_grpc.JobServiceStub(channel)
        try:
            found = stub.GetJobs(beam_job_api_pb2.GetJobsRequest(), timeout=SECONDS)
        except grpc.RpcError:
            return None
    return len(found.job_info)


class Control(beam_fn_api_pb2_grpc.BeamFnControlServicer):
    """A runner of the stranger's own, which waits for workers."""

    def __init__(self) -> None:
        self.came = threading.Event()

    def Control(self, requests, context):  # noqa: N802
        self.came.set()
        yield from iter(queue.Queue().get, None)


def worker(pool: str) -> bool:
    """Whether the pool starts a worker for the stranger's own runner."""
    server, control = grpc.server(ThreadPoolExecutor(4)), Control()
    beam_fn_api_pb2_grpc.add_BeamFnControlServicer_to_server(control, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    where = endpoints_pb2.ApiServiceDescriptor(url=f"127.0.0.1:{port}")
    request = beam_fn_api_pb2.StartWorkerRequest(worker_id="stranger", control_endpoint=where)
    with grpc.insecure_channel(pool) as channel:
        stub = beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolStub(channel)
        try:
            refused = stub.StartWorker(request, timeout=SECONDS).error
        except grpc.RpcError as error:
            refused = str(error)
    return not refused and control.came.wait(SECONDS)


def ran(jobs: str, pool: str, folder: str) -> bool:
    """Whether a job of the stranger's runs in the run's own workers."""

    def own(_: int) -> int:
        import os
        from pathlib import Path

        (Path(folder) / "ran").write_text(str(os.getuid()))
        return 0

    options = [f"--job_endpoint={jobs}", "--environment_type=EXTERNAL", f"--environment_config={pool}"]
    options += [f"--job_server_timeout={SECONDS}"]
    try:
        with beam.Pipeline(runner=PortableRunner(), options=PipelineOptions(options)) as pipeline:
            _ = pipeline | beam.Create([0]) | beam.Map(own)
    except Exception:
        return False
    return True


def main() -> None:
    """Try everything, and say what came of it."""
    jobs, pool, folder = sys.argv[1:]
    # What is imported on the way may lie where only this account can read it.
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        _ = pipeline | beam.Create([0]) | beam.Map(str)
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    os.environ["HOME"] = tempfile.gettempdir()
    reached = {"jobs": connected(jobs), "pool": connected(pool)}
    found = {"uid": os.getuid(), "connected": reached, "listed": None, "worker": False, "ran": False}
    if not reached["pool"]:
        found["worker"] = worker(pool)
    if not reached["jobs"]:
        found["listed"] = listed(jobs)
        found["ran"] = ran(jobs, pool, folder)
    print(json.dumps(found), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
