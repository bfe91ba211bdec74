"""The pool of workers in this process: whose workers it starts, and where it listens."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability import python_urns
from apache_beam.portability.api import (
    beam_fn_api_pb2,
    beam_fn_api_pb2_grpc,
    beam_runner_api_pb2,
    endpoints_pb2,
)

from ldpbeam.runners.sockets import LONGEST_PATH, private_folder, target
from ldpbeam.runners.worker_pool import SECRET, WorkerPool


@pytest.fixture
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerPool]:
    with private_folder() as folder:
        started = WorkerPool(target(folder / "workers"), PipelineOptions([]))
        yield started
        started.stop()


def ask(pool: WorkerPool, secret: str | None) -> str:
    """The error with which a worker is refused."""
    descriptor = endpoints_pb2.ApiServiceDescriptor(url="localhost:1")
    request = beam_fn_api_pb2.StartWorkerRequest(
        worker_id="w", control_endpoint=descriptor, params={} if secret is None else {SECRET: secret}
    )
    with grpc.insecure_channel(pool.address) as channel:
        return (
            beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolStub(channel).StartWorker(request, timeout=30).error
        )


@pytest.mark.parametrize("secret", [None, "", "guessed", "ü"])
def test_who_does_not_know_the_secret_gets_no_worker(pool: WorkerPool, secret: str | None) -> None:
    assert ask(pool, secret) == "this pool runs the workers of its own job only"


def test_the_environment_of_its_own_job_has_the_secret(pool: WorkerPool) -> None:
    environments = {
        "loopback": beam_runner_api_pb2.Environment(urn=python_urns.EMBEDDED_PYTHON_LOOPBACK),
        "other": beam_runner_api_pb2.Environment(urn="beam:env:docker:v1", payload=b"image"),
    }
    pipeline = beam_runner_api_pb2.Pipeline(
        components=beam_runner_api_pb2.Components(environments=environments)
    )
    pool.replace_loopback(pipeline)
    changed = pipeline.components.environments
    assert changed["other"] == environments["other"]
    assert changed["loopback"].urn == "beam:env:external:v1"
    payload = beam_runner_api_pb2.ExternalPayload.FromString(changed["loopback"].payload)
    assert payload.endpoint.url == pool.address
    assert len(payload.params[SECRET]) == 64


def test_the_secret_of_another_job_opens_nothing(pool: WorkerPool) -> None:
    with private_folder() as folder:
        other = WorkerPool(target(folder / "workers"), PipelineOptions([]))
        try:
            assert ask(pool, other._secret) == "this pool runs the workers of its own job only"
        finally:
            other.stop()


def test_a_port_of_loopback_is_named_when_it_is_chosen() -> None:
    pool = WorkerPool("127.0.0.1:0", PipelineOptions([]))
    try:
        assert pool.address.startswith("127.0.0.1:") and int(pool.address.rpartition(":")[2]) > 0
        assert ask(pool, None) == "this pool runs the workers of its own job only"
    finally:
        pool.stop()


def test_sockets_lie_where_only_their_owner_may_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = tmp_path / ("d" * 120)
    deep.mkdir()
    monkeypatch.setenv("TMPDIR", str(deep))
    with private_folder() as folder:
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert len(str(folder / "workers")) < LONGEST_PATH
        assert not list(deep.iterdir())
    assert not folder.exists()
    assert target(Path("/a b/%")) == "unix:///a%20b/%25"
