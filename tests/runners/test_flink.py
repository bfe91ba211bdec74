"""What Beam is given for Flink, what a cluster is asked, and how its job is watched; no cluster needed."""

from __future__ import annotations

import contextlib
import http.server
import json
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from apache_beam.options.pipeline_options import FlinkRunnerOptions, PipelineOptions, PortableOptions
from support.flink_cluster import SETTINGS

from ldpbeam.command_line.catalogue import COMMANDS
from ldpbeam.runners import flink
from ldpbeam.runners.engines import engine_of
from ldpbeam.runners.flink import jobs
from ldpbeam.runners.flink.rest import FlinkError, Rest
from ldpbeam.runners.request import FLINK, EngineRequest, engine_request


@pytest.fixture(autouse=True)
def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed worker."""
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    installed = tmp_path / "bin" / "ldpbeam-worker"
    installed.parent.mkdir()
    installed.touch()
    return installed


@pytest.fixture
def rest_server() -> Iterator[Callable[..., str]]:
    """Serves JSON by path; anything else is an error as Flink makes them."""
    servers = []

    def serve(answers: Mapping[str, Any]) -> str:
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                found = answers.get(self.path.removeprefix("/"))
                problem = {"errors": ["not here\n\tat somewhere"]}
                body = (
                    found
                    if isinstance(found, bytes)
                    else json.dumps(problem if found is None else found).encode()
                )
                self.send_response(404 if found is None else 200)
                self.end_headers()
                self.wfile.write(body)

            def do_PATCH(self) -> None:
                asked.append(self.path)
                self.send_response(202)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        asked: list[str] = answers.get("asked", [])
        server = http.server.ThreadingHTTPServer(("localhost", 0), Handler)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        servers.append(server)
        return f"localhost:{server.server_port}"

    yield serve
    for server in servers:
        server.shutdown()
        server.server_close()


def answers(version: str = "1.19.3", slots: tuple[int, ...] = (1, 1)) -> dict[str, Any]:
    """What a cluster says of itself."""
    return {
        "config": {"flink-version": version},
        "taskmanagers": {"taskmanagers": [{"id": f"t{i}", "slotsNumber": n} for i, n in enumerate(slots)]},
    }


def test_a_cluster_is_asked_for_its_version_and_slots(
    rest_server: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    address = rest_server(answers("1.20.1", (2, 4)))
    engine = engine_of(EngineRequest(FLINK, flink_master=address), tmp_path)
    given = PipelineOptions(list(engine.arguments))
    flink_options = given.view_as(FlinkRunnerOptions)
    assert (flink_options.flink_master, flink_options.flink_version) == (address, "1.20")
    assert flink_options.parallelism == 6
    # A worker a slot, of the task manager that has most.
    assert given.view_as(PortableOptions).sdk_worker_parallelism == "4"
    assert not engine.here
    assert capsys.readouterr().err.startswith("ldpbeam: Beam's job server listens on every interface")


def test_workers_are_processes_of_this_environment(rest_server: Any, worker: Path) -> None:
    found = PipelineOptions(flink.options(rest_server(answers()))).view_as(PortableOptions)
    assert found.environment_type == "PROCESS"
    assert json.loads(found.environment_config) == {"command": str(worker)}
    # Else each stage of a batch job starts its workers anew; one that was killed is missed while it waits.
    pause = int(str(SETTINGS["restart-strategy.fixed-delay.delay"]).removesuffix(" s"))
    assert 1000 < int(found.environment_cache_millis) < 1000 * pause
    worker.unlink()
    with pytest.raises(FlinkError, match="ldpbeam-worker is missing: install"):
        flink.options(rest_server(answers()))


def test_beams_own_options_choose_other_workers_and_fewer_slots(
    rest_server: Any, worker: Path, tmp_path: Path
) -> None:
    worker.unlink()
    given = ["--runner", "flink", "--flink-master", rest_server(answers()), "--parallelism", "1"]
    given += ["--environment_type=EXTERNAL", "--environment_config=localhost:50000"]
    needed = ["--study", "study.yaml", "--input", "in", "--output", "out"]
    options, rest = COMMANDS["estimate"].parser().parse_with_beam([*needed, *given])
    pipeline = engine_of(engine_request(options), tmp_path, given=rest).pipeline(rest)
    found = pipeline.options.view_as(PortableOptions)
    assert (found.environment_type, found.environment_config) == ("EXTERNAL", "localhost:50000")
    assert pipeline.options.view_as(FlinkRunnerOptions).parallelism == 1


def test_a_version_that_beam_does_not_know(rest_server: Any) -> None:
    with pytest.raises(FlinkError, match=r"the cluster is Flink 1\.7, and this Beam is for Flink 1\.19"):
        flink.options(rest_server(answers("1.7.2")))


@pytest.mark.parametrize("master", ["localhost:1", "http://localhost:1", "no port", "localhost:x"])
def test_no_cluster_answers(master: str) -> None:
    with pytest.raises(FlinkError, match="no Flink cluster answers there") as raised:
        flink.options(master)
    assert "\n" not in str(raised.value)


def test_what_answers_is_no_flink(rest_server: Any) -> None:
    with pytest.raises(FlinkError, match=r"404 not here$"):
        flink.options(rest_server({}))
    with pytest.raises(FlinkError, match=r"no Flink cluster answers there \(another program answers"):
        flink.options(rest_server({"config": b"<html>"}))


class Waiting:
    """A job as Beam's own result, for which one waits until it is let go."""

    def __init__(self, then: type[BaseException] | None = None) -> None:
        self.over, self.then, self.cancelled = threading.Event(), then, False

    def wait_until_finish(self, duration: int | None) -> str:
        self.over.wait()
        if self.then:
            raise self.then
        return "DONE"

    def cancel(self) -> None:
        self.cancelled = True


class Server:
    """A job server, and whether it has ended."""

    ended = False

    def stop(self) -> None:
        self.ended = True


def job_of(cluster: dict[str, Any], state: str = "RUNNING", **tasks: int) -> None:
    """Let a cluster list a job of the name ``ours``, beside others that it must not be taken for."""
    job = {"jid": "a", "name": "ours", "state": state, "start-time": 2, "tasks": tasks}
    others = [{**job, "jid": "b", "name": "other"}, {**job, "jid": "c", "state": "FAILED"}]
    cluster["jobs/overview"] = {"jobs": [*others, job]}


def test_ctrl_c_cancels_the_job_on_the_cluster_and_no_other(rest_server: Any) -> None:
    asked: list[str] = []
    cluster: dict[str, Any] = {"asked": asked}
    job_of(cluster, "RESTARTING")
    result, server = Waiting(KeyboardInterrupt), Server()
    result.over.set()
    with pytest.raises(KeyboardInterrupt):
        jobs.ClusterResult(result, Rest(rest_server(cluster)), "ours", server).wait_until_finish()
    assert asked == ["/jobs/a?mode=cancel"]
    assert result.cancelled and server.ended


@pytest.mark.parametrize("fails", [None, RuntimeError])
def test_a_job_server_ends_with_its_job(fails: type[BaseException] | None) -> None:
    # Else Beam would end it after its folder, which is in that of the run, has been deleted.
    result, server = Waiting(fails), Server()
    result.over.set()
    waiting = jobs.ClusterResult(result, Rest("localhost:1"), "ours", server)
    with pytest.raises(fails) if fails else contextlib.nullcontext():
        assert waiting.wait_until_finish() == "DONE"
    assert server.ended
