"""What a running stream says of itself: metrics, whether it goes on and reads, and the port for both."""

from __future__ import annotations

import contextlib
import http.client
import os
import socket
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from ldpbeam.errors import UserError
from ldpbeam.pipelines.operating import metrics, server
from ldpbeam.pipelines.operating.metrics import Watched
from ldpbeam.pipelines.operating.server import Answers, answering, is_loopback
from ldpbeam.pipelines.spool.manifest import Manifest
from ldpbeam.pipelines.spool.place import StreamOutput
from ldpbeam.pipelines.spool.run import Seen
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.transforms.reports import counts
from ldpbeam.transforms.reports.counts import accounting
from ldpbeam.transforms.reports.dead_letters import REASONS
from ldpbeam.transforms.sources.lag import Lag

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


def known(**others: Any) -> Watched:
    """A run of which every number is another one."""
    output: Any = SimpleNamespace(run="20261124T000000Z-1", study=SimpleNamespace(name="rides"))
    run: Any = {
        "manifest": SimpleNamespace(accounting=COUNTED),
        "reached": 1_700_000_000_500,
        "lag": Lag(1_250, 40),
        "windows": SimpleNamespace(windows=range(7)),
        "unsolved": 4,
        "seen": Seen(panes=3, seconds=4.5, longest=2.25, differing=5, tests=30, flagged=2),
    }
    return Watched(output, SimpleNamespace(**run | others))


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
    others = {
        name: scraped[f"ldpbeam_{name}" + "_total" * (name != counts.IN_OPEN_WINDOWS), ()] for name in rest
    }
    return {
        "in": scraped["ldpbeam_reports_read_total", ()],
        **fates,
        **{name: number for name, number in others.items() if number or name == "damaged_files"},
        "dead_letters_by_reason": reasons,
    }


@pytest.mark.parametrize("counted", [COUNTED, accounting([])])
def test_the_accounting_can_be_read_from_the_metrics(counted: dict[str, Any]) -> None:
    text = generate_latest(known(manifest=SimpleNamespace(accounting=counted))).decode()
    assert accounting_in(text) == counted


def test_every_number_has_a_metric_in_base_units(monkeypatch: pytest.MonkeyPatch) -> None:
    assert metrics.memory()[0] > 2**20
    monkeypatch.setattr(metrics, "memory", lambda: (1000, 2000))
    scraped = samples(generate_latest(known()).decode())
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
    names = {name for name, _ in samples(generate_latest(known(reached=None, lag=None)).decode())}
    left = {name for name, _ in samples(generate_latest(known()).decode())} - names
    assert left == {"ldpbeam_lag_seconds", "ldpbeam_lag_messages", "ldpbeam_watermark_timestamp_seconds"}


def test_the_values_of_labels_are_names_of_the_code_and_the_run() -> None:
    labels = {label for _, labels in samples(generate_latest(known()).decode()) for label in labels}
    values = {value for name, value in labels if name not in ("run", "study", "version")}
    assert {name for name, _ in labels} == {"run", "study", "version", "outcome", "reason", "process"}
    assert values <= {*counts.FATES, *REASONS, "not_json", "command", "engine"}


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A run that reads, with a watermark at hour 10, 5 seconds of lag and no pane that waits."""
    monkeypatch.setattr(metrics, "elapsed", lambda: 1_000_000)
    return SimpleNamespace(
        manifest=Manifest("", counts={counts.IN: 12, counts.USED: 3}, in_open_windows=9),
        reached=10 * HOUR,
        lag=Lag(5_000),
        windows=SimpleNamespace(windows=dict.fromkeys(range(4))),
        unsolved=0,
        seen=Seen(panes=2),
        turned_at=999_000,
        stopping=False,
    )


@pytest.fixture
def watched(run: Any, small_text: str) -> Watched:
    study = parse_study(small_text + "windows: {size: 1h, allowed_lateness: 30m}\n")
    return Watched(StreamOutput(study, "out", "r"), run)


def test_panes_that_wait_are_told_and_are_no_reason_to_start_again(watched: Watched, run: Any) -> None:
    answers = Answers()
    answers.watched = watched
    run.unsolved = metrics.FEW
    assert (answers.to("/healthz").body, answers.to("/readyz").body) == (b"ok\n", b"ok\n")
    run.unsolved = metrics.FEW + 1
    well = answers.to("/healthz")
    said = f"{run.unsolved} panes wait to be solved\n".encode()
    assert (well.status, well.body) == (200, b"ok: " + said)
    assert (answers.to("/readyz").status, answers.to("/readyz").body) == (503, said)


@pytest.mark.parametrize("still", [1_000, metrics.STUCK - 1, metrics.STUCK])
def test_a_run_goes_on_and_reads_or_a_sentence_says_why_not(still: int, watched: Watched, run: Any) -> None:
    run.turned_at = 1_000_000 - still
    problem = "the loop has made no progress for 600 seconds" if still == metrics.STUCK else None
    assert watched.stuck() == watched.unready() == problem


def test_a_run_that_was_asked_to_stop_is_not_ready(watched: Watched, run: Any) -> None:
    run.stopping = True
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


def test_before_a_run_has_begun_it_is_well_and_not_ready(port: tuple[Answers, int]) -> None:
    assert get(port[1], "/healthz") == (200, "ok\n")
    assert get(port[1], "/readyz") == (503, "the run has not begun\n")
    assert get(port[1], "/metrics") == (503, "the run has not begun\n")
    assert get(port[1], "/secrets?x=1")[0] == 404


def test_three_paths_answer_for_a_run(port: tuple[Answers, int], watched: Watched, run: Any) -> None:
    port[0].watched = watched
    assert get(port[1], "/healthz") == get(port[1], "/readyz") == (200, "ok\n")
    status, text = get(port[1], "/metrics?some=thing")
    assert (status, accounting_in(text)) == (200, run.manifest.accounting)
    run.turned_at = 1_000_000 - metrics.STUCK
    stuck = (503, "the loop has made no progress for 600 seconds\n")
    assert get(port[1], "/healthz") == get(port[1], "/readyz") == stuck


def test_many_who_scrape_at_once_cost_one_look_at_the_run(
    port: tuple[Answers, int], watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "FRESH_SECONDS", 3600.0)
    looks: list[int] = []
    monkeypatch.setattr(metrics, "memory", lambda: (looks.append(1), (1, 1))[1])
    port[0].watched = watched
    answers: list[tuple[int, str]] = []
    scrapes = [
        threading.Thread(target=lambda: answers.append(get(port[1], "/metrics")))
        for _ in range(server.CONNECTIONS)
    ]
    for scrape in scrapes:
        scrape.start()
    for scrape in scrapes:
        scrape.join()
    assert len(answers) == server.CONNECTIONS
    assert len(set(answers)) == len(looks) == 1


@pytest.mark.parametrize("sent", [b"GET /healthz HT", b"GET /healthz HTTP/1.0\r\nHost: "])
def test_who_sends_half_a_request_is_cut_off(
    sent: bytes, port: tuple[Answers, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server._Handler, "timeout", 0.2)
    with socket.create_connection(("127.0.0.1", port[1]), timeout=60) as half:
        half.sendall(sent)
        # No answer, and an end that does not wait for the rest of the request.
        assert half.recv(100) == b""


#: What connections that hold places send: nothing, half a line, a line without the headers.
HELD = (b"", b"GET /heal", b"GET /healthz HTTP/1.0\r\nHost: ")


@pytest.mark.parametrize("sent", HELD)
def test_every_probe_is_answered_while_connections_hold_all_places(
    sent: bytes, port: tuple[Answers, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server._Handler, "timeout", 3600.0)
    with contextlib.ExitStack() as stack:
        for _ in range(40):
            held = stack.enter_context(socket.create_connection(("127.0.0.1", port[1]), timeout=60))
            held.sendall(sent)
        for _ in range(19):
            assert get(port[1], "/healthz") == (200, "ok\n")
    _until(lambda: _answered(port[1]))


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
