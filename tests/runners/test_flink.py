"""What Beam is told for Flink, and what is asked of a cluster; no cluster needed."""

from __future__ import annotations

import http.server
import json
import os
import signal
import ssl
import threading
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from apache_beam.options.pipeline_options import (
    FlinkRunnerOptions,
    PipelineOptions,
    PortableOptions,
)
from support import flink_cluster as cluster
from support.waiting import wait_until

from ldpbeam.command_line.arguments import Parser
from ldpbeam.errors import UserError
from ldpbeam.pipelines.options.shared import add_engine_options
from ldpbeam.runners import flink
from ldpbeam.runners.engines import engine_of
from ldpbeam.runners.flink import cluster_keys as keys
from ldpbeam.runners.flink import parts, processes, settings
from ldpbeam.runners.flink.parts import FlinkError
from ldpbeam.runners.flink.rest import Records, Rest
from ldpbeam.runners.request import engine_request

pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture
def small_job_server() -> Path:
    """In the cache, as if it had been fetched."""
    place = parts._place().job_server
    place.parent.mkdir(parents=True)
    place.touch()
    return place


@pytest.fixture
def own_cluster(rest_server: Any, tmp_path: Path, spawn: Any) -> Callable[..., str]:
    """A cluster of this account as commands find it: its key, its port, and processes that run."""

    def start(slots: tuple[int, ...] = (1, 1), **answer: Any) -> str:
        folder = tmp_path / "own"
        folder.mkdir()
        key = keys.make(folder / keys.KEYS)
        address: str = rest_server({**answers(slots=slots), **answer}, key)
        keys.announce(int(address.rpartition(":")[2]), folder)
        for name in ("jobmanager", *(f"taskmanager-{number}" for number in range(len(slots)))):
            process = spawn(processes.mark(folder, name))
            processes.remember(folder, processes.Process(process.pid, name))
            wait_until(lambda name=name, process=process: name in processes._command_line(process.pid))
        return address

    return start


@pytest.fixture
def rest_server() -> Iterator[Callable[..., str]]:
    """Serves JSON by path; anything else is an error as Flink makes them. With a key, to whoever has it."""
    servers = []

    def serve(answers: Mapping[str, Any], key: keys.Keys | None = None) -> str:
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
        if key is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(key.pem)
            context.load_verify_locations(key.pem)
            context.verify_mode = ssl.CERT_REQUIRED
            server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        servers.append(server)
        return f"localhost:{server.server_port}"

    yield serve
    for server in servers:
        server.shutdown()
        server.server_close()


def answers(version: str = "1.19.3", slots: tuple[int, ...] = (1, 1), **settings: str) -> dict[str, Any]:
    """What a cluster says of itself."""
    return {
        "config": {"flink-version": version},
        "taskmanagers": {"taskmanagers": [{"id": f"t{i}", "slotsNumber": n} for i, n in enumerate(slots)]},
        "jobmanager/config": [{"key": key, "value": value} for key, value in settings.items()],
    }


def test_a_cluster_of_ours_takes_the_small_job_server(own_cluster: Any, small_job_server: Path) -> None:
    address = own_cluster()
    assert flink.open_ports(address) is None
    own = PipelineOptions(flink.options(address)).view_as(FlinkRunnerOptions)
    assert own.flink_job_server_jar == str(small_job_server)
    assert own.flink_version == "1.19"
    assert own.parallelism == 2


def test_another_cluster_takes_beams_own_job_server(rest_server: Any, small_job_server: Path) -> None:
    address = rest_server(answers("1.20.1", (2, 4)))
    assert "let anybody who reaches their ports run programs" in str(flink.open_ports(address))
    found = flink.options(address)
    own = PipelineOptions(found).view_as(FlinkRunnerOptions)
    assert own.flink_job_server_jar is None
    assert own.flink_version == "1.20"
    assert own.parallelism == 6
    # A worker a slot, of the task manager that has most.
    assert PipelineOptions(found).view_as(PortableOptions).sdk_worker_parallelism == "4"


def test_the_parallelism_that_is_named_comes_first(own_cluster: Any, small_job_server: Path) -> None:
    found = flink.options(own_cluster(), parallelism=7)
    assert PipelineOptions(found).view_as(FlinkRunnerOptions).parallelism == 7


def test_a_cluster_of_ours_serves_only_who_has_its_key(own_cluster: Any) -> None:
    address = own_cluster()
    assert Rest(address).version() == "1.19.3"
    unasked = ssl.create_default_context()
    unasked.check_hostname, unasked.verify_mode = False, ssl.CERT_NONE
    with pytest.raises(OSError):
        urllib.request.urlopen(f"https://{address}/config", context=unasked, timeout=20).read()
    key = keys.keys_at(address)
    assert key is not None
    assert key.folder.stat().st_mode & 0o077 == 0
    assert all(path.stat().st_mode & 0o077 == 0 for path in key.folder.iterdir())


def test_a_cluster_of_others_needs_to_be_allowed(
    rest_server: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    address = rest_server(answers())
    parser = Parser("ldpbeam estimate", "")
    add_engine_options(parser)
    given = ["--runner", "flink", "--flink-master", address]
    asked = engine_request(parser.parse_args(given))
    with pytest.raises(UserError, match=f"cluster at {address}, .*; give --allow-open"):
        engine_of(asked, tmp_path)
    assert engine_of(replace(asked, allow_open_ports=True), tmp_path).arguments
    assert capsys.readouterr().err.startswith(f"ldpbeam: the cluster at {address}, and Beam's job server")


def test_who_listens_where_a_cluster_was_gets_no_key(own_cluster: Any, tmp_path: Path) -> None:
    address = own_cluster()
    assert processes.end(tmp_path / "own") == 3
    assert keys.keys_at(address) is None
    assert "let anybody who reaches their ports run programs" in str(flink.open_ports(address))


def test_a_cluster_that_lost_a_task_manager_takes_no_jobs(own_cluster: Any, tmp_path: Path) -> None:
    address = own_cluster()
    gone = processes.running(tmp_path / "own")[2]
    os.kill(gone.pid, signal.SIGKILL)
    wait_until(lambda: gone not in processes.running(tmp_path / "own"))
    with pytest.raises(FlinkError, match=r"taskmanager-1 of the cluster ended: make flink-down, then make"):
        flink.options(address)
    with pytest.raises(FlinkError, match=r"running there already, but its taskmanager-1 ended: make flink-d"):
        cluster.Cluster(tmp_path / "own", parts.Parts(tmp_path)).start()


def test_a_job_that_waits_for_slots_is_told_of(own_cluster: Any, tmp_path: Path) -> None:
    overview = {"slots-total": 1, "slots-available": 0, "taskmanagers": 1}
    rest = Rest(own_cluster(overview=overview))
    told = "the job waits for slots: the cluster has 1 in 1 task managers, and 0 of them are free"
    assert rest.shortage() == f"{told}; start another task manager, or run with a smaller --parallelism"
    gone = processes.running(tmp_path / "own")[1]
    os.kill(gone.pid, signal.SIGKILL)
    wait_until(lambda: gone not in processes.running(tmp_path / "own"))
    assert rest.shortage().startswith(f"{told}; taskmanager-0 ended: make flink-down")


def test_workers_in_containers_cannot_reach_a_cluster_of_ours(own_cluster: Any) -> None:
    for master in (own_cluster(), flink.LOCAL):
        with pytest.raises(ValueError, match="cannot reach the Unix sockets"):
            flink.options(master, workers="docker")


def test_a_pool_of_beam_is_open_to_all(own_cluster: Any) -> None:
    assert "worker pool of Beam lets anybody" in str(flink.open_ports(own_cluster(), "pool"))
    assert flink.open_ports(flink.LOCAL) is None


def test_workers_are_processes_of_this_environment(rest_server: Any, tmp_path: Path) -> None:
    own = PipelineOptions(flink.options(rest_server(answers()))).view_as(PortableOptions)
    assert own.environment_type == "PROCESS"
    assert json.loads(own.environment_config) == {"command": str(tmp_path / "bin" / "ldpbeam-worker")}
    # Else each stage of a batch job starts its workers anew; one that was killed is missed while it waits.
    longest = int(str(settings.RESTARTS["max-backoff"]).removesuffix(" s"))
    assert 1000 < int(own.environment_cache_millis) < 1000 * longest


@pytest.mark.parametrize(
    ("workers", "pool", "kind"),
    [("pool", "localhost:50000", "EXTERNAL"), ("docker", None, "DOCKER"), ("loopback", None, "LOOPBACK")],
)
def test_other_workers(rest_server: Any, workers: str, pool: str | None, kind: str) -> None:
    found = flink.options(rest_server(answers()), workers=workers, pool=pool)
    own = PipelineOptions(found).view_as(PortableOptions)
    assert (own.environment_type, own.environment_config) == (kind, pool)


def test_the_local_cluster_is_not_asked(small_job_server: Path) -> None:
    found = PipelineOptions(flink.options(flink.LOCAL))
    own = found.view_as(FlinkRunnerOptions)
    assert (own.flink_master, own.flink_version) == ("[local]", parts.FLINK_MINOR)
    assert own.flink_job_server_jar == str(small_job_server)
    assert own.parallelism == -1
    assert found.view_as(PortableOptions).environment_type == "LOOPBACK"


def test_without_the_small_job_server_it_is_fetched(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    def fetched(say: Callable[[str], None]) -> parts.Parts:
        say("fetching it")
        return parts._place()

    monkeypatch.setattr(flink, "fetch", fetched)
    own = PipelineOptions(flink.options(flink.LOCAL)).view_as(FlinkRunnerOptions)
    assert own.flink_job_server_jar == str(parts._place().job_server)
    assert capsys.readouterr().err == "ldpbeam: fetching it\n"


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"workers": "threads"}, "process, pool, docker, loopback"),
        ({"workers": "pool"}, "address"),
        ({"pool": "localhost:1"}, "address"),
    ],
)
def test_workers_that_cannot_be(rest_server: Any, settings: dict[str, str], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        flink.options(rest_server(answers()), **settings)


def test_a_worker_that_is_not_installed(rest_server: Any, tmp_path: Path) -> None:
    (tmp_path / "bin" / "ldpbeam-worker").unlink()
    with pytest.raises(FlinkError, match="ldpbeam-worker is missing: install"):
        flink.options(rest_server(answers()))


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


def test_records_and_watermarks_by_vertex(rest_server: Any) -> None:
    asked: list[str] = []
    subtasks = [{"metrics": {"read-records": read, "write-records": 1}} for read in (3, 4)]
    rest = Rest(
        rest_server(
            {
                "asked": asked,
                "jobs/overview": {"jobs": [{"jid": "a", "start-time": 1}, {"jid": "b", "start-time": 2}]},
                "jobs/j": {"vertices": [{"id": "v", "name": "Read"}]},
                "jobs/j/vertices/v": {"subtasks": subtasks},
            }
        )
    )
    assert [job["jid"] for job in rest.jobs()] == ["b", "a"]
    assert rest.records("j") == {"Read": [Records(3, 1), Records(4, 1)]}
    rest.cancel("j")
    assert asked == ["/jobs/j?mode=cancel"]
