"""What a running stream says of itself: metrics, whether it goes on and reads, and the port for both."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from apache_beam.runners.runner import PipelineState
from grpc import RpcError
from prometheus_client.parser import text_string_to_metric_families

from ldpbeam.beam.solve_windows import Solves, solved_here
from ldpbeam.errors import UserError
from ldpbeam.pipelines.operating import server, state
from ldpbeam.pipelines.operating.metrics import exposition
from ldpbeam.pipelines.operating.server import Answers, answering, is_loopback
from ldpbeam.pipelines.operating.state import Memory, State, Watched
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.transforms.reports import counts
from ldpbeam.transforms.reports.counts import accounting
from ldpbeam.transforms.reports.dead_letters import REASONS
from ldpbeam.transforms.sources.lag import Lag
from ldpbeam.transforms.sources.reader import Progress
from ldpbeam.transforms.state.journal import Journal, ask_to_stop
from ldpbeam.transforms.state.records import OpenWindow
from ldpbeam.transforms.windows import timers

HOUR = 3_600_000
#: An accounting of which every number is another one.
COUNTED = accounting(
    [
        *((name, 10 + n) for n, name in enumerate((counts.IN, *counts.FATES, *counts.OCCASIONAL))),
        (counts.REASON + "not_json", 100),
        (counts.REASON + "no_user_id", 101),
        *((counts.DAMAGED + path, 1) for path in "abc"),
    ]
)
KNOWN = State(
    run="20261124T000000Z-1",
    study="rides",
    accounting=COUNTED,
    watermark=1_700_000_000_500,
    lag=Lag(1_250, 40),
    open_windows=7,
    waiting_windows=4,
    tests=30,
    flagged=2,
    solves=Solves(3, 4.5, 2.25),
    differing=5,
    memory=Memory(1000, 2000),
)


def samples(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """The samples of an exposition, by name and labels."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def accounting_in(text: str) -> dict[str, Any]:
    """The accounting that an exposition came from."""
    scraped = samples(text)
    fates = {
        dict(labels)["outcome"]: n for (name, labels), n in scraped.items() if name == "ldpbeam_reports_total"
    }
    reasons = {
        dict(labels)["reason"]: n
        for (name, labels), n in scraped.items()
        if name == "ldpbeam_dead_letters_total"
    }
    rest = ("damaged_files", *counts.OCCASIONAL)
    others = {name: scraped[f"ldpbeam_{name}_total", ()] for name in rest}
    return {
        "in": scraped["ldpbeam_reports_read_total", ()],
        **fates,
        **{name: number for name, number in others.items() if number or name == "damaged_files"},
        "dead_letters_by_reason": reasons,
    }


@pytest.mark.parametrize("counted", [COUNTED, accounting([])])
def test_the_accounting_can_be_read_from_the_metrics(counted: dict[str, Any]) -> None:
    text = exposition(State(**{**vars(KNOWN), "accounting": counted})).decode()
    assert accounting_in(text) == counted


def test_every_number_has_a_metric_in_base_units() -> None:
    scraped = samples(exposition(KNOWN).decode())
    assert scraped["ldpbeam_lag_seconds", ()] == 1.25
    assert scraped["ldpbeam_lag_messages", ()] == 40
    assert scraped["ldpbeam_watermark_timestamp_seconds", ()] == 1_700_000_000.5
    assert scraped["ldpbeam_open_windows", ()] == 7
    assert scraped["ldpbeam_waiting_windows", ()] == 4
    assert scraped["ldpbeam_solve_seconds_count", ()] == 3
    assert scraped["ldpbeam_solve_seconds_sum", ()] == 4.5
    assert scraped["ldpbeam_longest_solve_seconds", ()] == 2.25
    assert scraped["ldpbeam_differing_estimates_total", ()] == 5
    assert scraped["ldpbeam_fit_tests", ()] == 30
    assert scraped["ldpbeam_fit_flagged_tests", ()] == 2
    assert scraped["ldpbeam_resident_memory_bytes", (("process", "command"),)] == 1000
    assert scraped["ldpbeam_resident_memory_bytes", (("process", "engine"),)] == 2000


def test_what_is_not_known_has_no_metric() -> None:
    unknown = dict.fromkeys(("watermark", "lag", "open_windows", "waiting_windows", "solves", "differing"))
    names = {name for name, _ in samples(exposition(State(**{**vars(KNOWN), **unknown})).decode())}
    left = {name for name, _ in samples(exposition(KNOWN).decode())} - names
    assert left == {
        "ldpbeam_differing_estimates_total",
        "ldpbeam_lag_seconds",
        "ldpbeam_lag_messages",
        "ldpbeam_watermark_timestamp_seconds",
        "ldpbeam_open_windows",
        "ldpbeam_waiting_windows",
        "ldpbeam_solve_seconds_count",
        "ldpbeam_solve_seconds_sum",
        "ldpbeam_longest_solve_seconds",
    }


def test_the_values_of_labels_are_names_of_the_code_and_the_run() -> None:
    labels = {label for _, labels in samples(exposition(KNOWN).decode()) for label in labels}
    values = {value for name, value in labels if name not in ("run", "study", "version")}
    assert {name for name, _ in labels} == {"run", "study", "version", "outcome", "reason", "process"}
    assert values <= {*counts.FATES, *REASONS, "not_json", "command", "engine"}


class Handle:
    """An engine's handle of a run."""

    def __init__(self) -> None:
        self.said: str | Exception = PipelineState.RUNNING

    @property
    def state(self) -> str:
        if isinstance(self.said, Exception):
            raise self.said
        return self.said


@pytest.fixture
def handle() -> Handle:
    return Handle()


@pytest.fixture
def watched(
    tmp_path: Path, small_text: str, handle: Handle, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Watched]:
    """A run that reads, with a watermark at hour 10 and 5 seconds of lag."""
    study = parse_study(small_text + "windows: {size: 1h, allowed_lateness: 30m}\n")
    output = str(tmp_path)
    (tmp_path / "runs" / "r").mkdir(parents=True)
    job: Any = SimpleNamespace(
        study=study,
        output=output,
        run="r",
        folder=f"{output}/runs/r",
        of_run=lambda name: f"{output}/runs/r/{name}",
    )
    monkeypatch.setattr(state, "elapsed", lambda: 1_000_000)
    monkeypatch.setattr(state.reader, "progress", lambda run: Progress(10 * HOUR, 0, Lag(5_000), 999_000))
    yield Watched(job, True, handle)
    solved_here.pop((output, "r"), None)


def test_a_state_is_that_of_the_files_and_the_readers(watched: Watched, tmp_path: Path) -> None:
    run = tmp_path / "runs" / "r"
    (run / "accounting.json").write_text(json.dumps(COUNTED))
    solved_here[str(tmp_path), "r"] = Solves().and_one(2.0).and_one(0.5)
    now = watched.state()
    assert (now.run, now.study, now.accounting) == ("r", watched.job.study.name, COUNTED)
    assert (now.watermark, now.lag) == (10 * HOUR, Lag(5_000))
    assert now.solves == Solves(2, 2.5, 2.0)
    assert now.memory.command > 2**20
    assert (now.tests, now.flagged, now.open_windows) == (0, 0, 0)


def test_a_window_is_open_until_its_lateness_has_passed(watched: Watched, tmp_path: Path) -> None:
    journal = Journal(str(tmp_path), "r", 0, 100 * HOUR)
    # The watermark is at hour 10: that of hour 9 to 10 is late, that of 8.5 to 9.5 has expired this moment.
    starts = (7 * HOUR, 8 * HOUR + HOUR // 2, 9 * HOUR, 10 * HOUR, 11 * HOUR)
    journal.name([OpenWindow("x", start, start + HOUR) for start in starts], None)
    assert watched.state().open_windows == 3


def test_windows_that_wait_for_the_engine_are_told_and_are_no_reason_to_start_again(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A window of two shards is one; a window that has not ended does not wait."""
    clock = [100.0]
    monkeypatch.setattr(timers.time, "monotonic", lambda: clock[0])
    stop = timers.Stop("", "r")
    monkeypatch.setattr(timers, "_set", {})
    answers = Answers()
    answers.watched = watched
    for state_of_window in (0, 1):
        timers.timer_is_set(stop, "x", (9 * HOUR, 10 * HOUR), state_of_window)
    timers.timer_is_set(stop, "x", (10 * HOUR, 11 * HOUR), 0)
    assert (answers.to("/healthz").body, answers.to("/readyz").body) == (b"ok\n", b"ok\n")
    clock[0] += timers.PATIENCE_SECONDS
    well = answers.to("/healthz")
    assert (well.status, well.body) == (200, b"ok: 1 window waits for the engine\n")
    assert (answers.to("/readyz").status, watched.state().waiting_windows) == (503, 1)
    for state_of_window in (0, 1):
        timers.timer_fired(stop, "x", (9 * HOUR, 10 * HOUR), state_of_window)
    assert (answers.to("/readyz").status, watched.state().waiting_windows) == (200, 0)


def test_tests_of_fit_are_added_up_over_windows_and_files_that_change_are_read_again(
    watched: Watched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    read_json = state.read_json
    monkeypatch.setattr(state, "read_json", lambda path: (read.append(Path(path).name), read_json(path))[1])
    folder = tmp_path / "runs" / "r" / "fit"
    folder.mkdir()

    def write(name: str, *flags: bool) -> None:
        (folder / name).write_text(json.dumps({"tests": [{"flagged": flag} for flag in flags]}))

    write("a.json", True, False)
    write("b.json", False)
    assert (watched.state().tests, watched.state().flagged) == (3, 1)
    write("b.json", False, True)
    assert (watched.state().tests, watched.state().flagged) == (4, 2)
    assert sorted(read) == ["a.json", "b.json", "b.json"]


@pytest.mark.parametrize(
    ("said", "since", "stuck", "unready"),
    [
        (PipelineState.RUNNING, 1_000, None, None),
        (PipelineState.RUNNING, state.STUCK - 1, None, None),
        (PipelineState.RUNNING, state.STUCK, *["the engine has asked for no reports for 600 seconds"] * 2),
        (PipelineState.RUNNING, None, None, "the engine has not begun to read"),
        (PipelineState.FAILED, 1_000, *["the engine has ended: FAILED"] * 2),
        (RpcError(), 1_000, *["the engine does not answer"] * 2),
    ],
)
def test_a_run_goes_on_and_reads_or_a_sentence_says_why_not(
    said: Any,
    since: int | None,
    stuck: str | None,
    unready: str | None,
    watched: Watched,
    handle: Handle,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    handle.said = said
    asked = None if since is None else 1_000_000 - since
    monkeypatch.setattr(state.reader, "progress", lambda run: Progress(None, 0, None, asked))
    assert (watched.stuck(), watched.unready()) == (stuck, unready)


def test_a_run_that_was_asked_to_stop_is_not_ready_and_however_long_it_takes_not_stuck(
    watched: Watched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask_to_stop(str(tmp_path), "r")
    monkeypatch.setattr(state, "elapsed", lambda: 10**9)
    assert (watched.stuck(), watched.unready()) == (None, "the run was asked to stop")


@pytest.fixture
def port() -> Iterator[tuple[Answers, int]]:
    """Answers, and the port on which they are given."""
    with answering("127.0.0.1", 0) as (answers, url):
        yield answers, int(url.rpartition(":")[2])


def get(port: int, path: str) -> tuple[int, str]:
    """The status and the body of an answer."""
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def test_before_the_engine_has_started_a_run_is_well_and_not_ready(port: tuple[Answers, int]) -> None:
    assert get(port[1], "/healthz") == (200, "ok\n")
    assert get(port[1], "/readyz") == (503, "the engine has not started\n")
    assert get(port[1], "/metrics") == (503, "the engine has not started\n")
    assert get(port[1], "/secrets?x=1")[0] == 404


def test_three_paths_answer_for_a_run(
    port: tuple[Answers, int], watched: Watched, handle: Handle, tmp_path: Path
) -> None:
    (tmp_path / "runs" / "r" / "accounting.json").write_text(json.dumps(COUNTED))
    port[0].watched = watched
    assert get(port[1], "/healthz") == get(port[1], "/readyz") == (200, "ok\n")
    status, text = get(port[1], "/metrics?some=thing")
    assert (status, accounting_in(text)) == (200, COUNTED)
    handle.said = PipelineState.FAILED
    assert get(port[1], "/healthz") == get(port[1], "/readyz") == (503, "the engine has ended: FAILED\n")


def test_files_that_cannot_be_read_are_a_sentence_without_their_names(
    port: tuple[Answers, int], watched: Watched, tmp_path: Path
) -> None:
    (tmp_path / "runs" / "r" / "accounting.json").write_text("{")
    port[0].watched = watched
    assert get(port[1], "/metrics") == (503, "the files of the run cannot be read\n")


def test_many_who_scrape_at_once_cost_one_look_at_the_run(
    port: tuple[Answers, int], watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "FRESH_SECONDS", 3600.0)
    looks: list[int] = []
    state_of = watched.state
    monkeypatch.setattr(watched, "state", lambda: (looks.append(1), state_of())[1])
    port[0].watched = watched
    answers: list[tuple[int, str]] = []
    scrapes = [
        threading.Thread(target=lambda: answers.append(get(port[1], "/metrics")))
        for _ in range(server.CONNECTIONS // 2)
    ]
    for scrape in scrapes:
        scrape.start()
    for scrape in scrapes:
        scrape.join()
    assert len(answers) == server.CONNECTIONS // 2
    assert len(set(answers)) == len(looks) == 1


@pytest.mark.parametrize(("line", "rest"), [(0.2, 3600.0), (3600.0, 0.2)])
def test_who_sends_half_a_request_is_cut_off_and_others_are_answered(
    line: float, rest: float, port: tuple[Answers, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "LINE_SECONDS", line)
    monkeypatch.setattr(server, "SECONDS", rest)
    with socket.create_connection(("127.0.0.1", port[1]), timeout=60) as half:
        half.sendall(b"GET /healthz HT" if line < rest else b"GET /healthz HTTP/1.0\r\nHost: ")
        # No answer, and an end that does not wait for the rest of the request.
        assert half.recv(100) == b""


#: What connections that hold places send: nothing, half a line, a line without the headers.
HELD = (b"", b"GET /heal", b"GET /healthz HTTP/1.0\r\nHost: ")


@pytest.mark.parametrize("sent", HELD)
def test_every_probe_is_answered_while_connections_hold_all_places(
    sent: bytes, port: tuple[Answers, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "LINE_SECONDS", 3600.0)
    monkeypatch.setattr(server, "SECONDS", 3600.0)
    with contextlib.ExitStack() as stack:
        for _ in range(40):
            held = stack.enter_context(socket.create_connection(("127.0.0.1", port[1]), timeout=60))
            held.sendall(sent)
        for _ in range(19):
            assert get(port[1], "/healthz") == (200, "ok\n")
    _until(lambda: _answered(port[1]))


def test_a_probe_has_a_place_while_scrapes_wait_for_the_state(
    port: tuple[Answers, int], watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    looking, go_on = threading.Event(), threading.Event()
    state_of = watched.state
    monkeypatch.setattr(watched, "state", lambda: (looking.set(), go_on.wait(), state_of())[2])
    port[0].watched = watched
    answers: list[int] = []
    scrapes = [
        threading.Thread(target=lambda: answers.append(get(port[1], "/metrics")[0]))
        for _ in range(server.CONNECTIONS // 2 + 1)
    ]
    for scrape in scrapes:
        scrape.start()
    looking.wait()
    _until(lambda: answers == [503])
    assert get(port[1], "/healthz") == (200, "ok\n")
    go_on.set()
    for scrape in scrapes:
        scrape.join()
    assert sorted(answers) == [200] * (server.CONNECTIONS // 2) + [503]


def test_a_machine_without_more_threads_takes_no_place_for_good(
    port: tuple[Answers, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError("can't start new thread")
        start(thread)

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        for _ in range(server.CONNECTIONS + 1):
            with socket.create_connection(("127.0.0.1", port[1]), timeout=60) as connection:
                assert connection.recv(100) == b""
    _until(lambda: _answered(port[1]))


def _answered(port: int) -> bool:
    try:
        return get(port, "/healthz") == (200, "ok\n")
    except (OSError, http.client.HTTPException):
        return False


def _until(truth: Callable[[], bool]) -> None:
    while not truth():
        pass  # pytest-timeout ends it


def test_only_loopback_addresses_are_for_this_machine_alone() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "127.8.0.1", "::1", "localhost")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "10.0.0.1", "example.org", "")))


@pytest.mark.parametrize("host", ["nowhere.invalid", "192.0.2.1", "a" * 70 + ".invalid", "\ud800"])
def test_an_address_that_is_not_of_this_machine_is_one_sentence(host: str) -> None:
    with pytest.raises(UserError, match=r"^--metrics-port 0: "), answering(host, 0):
        pass


def test_a_port_that_is_taken_is_one_sentence(port: tuple[Answers, int]) -> None:
    taken = rf"^--metrics-port {port[1]}: 127.0.0.1: {os.strerror(98)}$"
    with pytest.raises(UserError, match=taken), answering("127.0.0.1", port[1]):
        pass
