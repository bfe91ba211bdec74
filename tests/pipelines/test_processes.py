"""Estimates computed in processes: the bits, the order and the errors of one process."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.odd_estimators import install
from support.waiting import wait_until
from threadpoolctl import threadpool_limits

from ldpbeam import Estimate, tally
from ldpbeam.answers.child import compute
from ldpbeam.errors import UserError, machine_problem
from ldpbeam.intervals.computing import StatisticIntervals
from ldpbeam.pipelines.estimates import processes
from ldpbeam.pipelines.estimates.processes import compute_all, in_processes, wanted_of
from ldpbeam.schemas.outputs.records import EstimateRecord
from ldpbeam.schemas.outputs.snapshots import Snapshot
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.statistics import Answers
from ldpbeam.study import Study, WantedEstimate

STUDY = parse_study("""\
study: many
attributes:
  x:
    domain: {numeric: [0, 10]}
    buckets: 64
    services: {a: {mechanism: piecewise, epsilon: 2.0}, b: {mechanism: square_wave, epsilon: 1.0}}
    estimates: {both: {estimator: ule}, alone: {estimator: ems, services: [a]}, mean: {estimator: ivw}}
windows: {size: 10s}
""")


def snapshot(people: int, study: Study = STUDY) -> Snapshot:
    """The statistic of so many people at every service."""
    attribute, rng = study.attribute("x"), np.random.default_rng(people)
    values = rng.triangular(0, 3, 10, people)
    answers = [
        Answers(place, np.arange(people), version.mechanism.perturb(values, rng))
        for place, version in enumerate(attribute.versions)
    ]
    return Snapshot("x", (0, 10_000), None, 0, tally(attribute, people, answers))


SNAPSHOTS = [snapshot(400 + people) for people in range(5)]


def asking(*estimators: str) -> Study:
    """The study with an estimate by each of these estimators, which this process need not know."""
    estimates = {name: WantedEstimate(name, ("a", "b")) for name in estimators}
    return replace(STUDY, attributes={"x": replace(STUDY.attributes["x"], estimates=estimates)})


def computed(study: Study, number: int) -> list[EstimateRecord]:
    return in_processes(study, wanted_of(study, SNAPSHOTS), number)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a package of odd estimators, on the path."""
    site = tmp_path_factory.mktemp("site")
    install(site)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(site)
        patch.setenv("ODD_FOLDER", str(tmp_path_factory.mktemp("told")))
        yield site


@pytest.mark.slow
@pytest.mark.parametrize(("number", "together"), [(1, 1), (2, 4)])
def test_the_estimates_and_their_order_are_those_of_one_process(number: int, together: int) -> None:
    here = compute_all(STUDY, SNAPSHOTS, lambda: 15, 1)
    there = in_processes(STUDY, wanted_of(STUDY, SNAPSHOTS), number, together)
    assert there == here


@pytest.fixture(scope="module")
def odd(site: Path) -> tuple[list[EstimateRecord], list[warnings.WarningMessage]]:
    """What odd estimators answered in two processes, and the warnings that came with it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        found = computed(asking("tells", "warns"), 2)
    return found, list(caught)


@pytest.mark.slow
def test_the_first_comes_first_though_others_are_done_before(odd: tuple[list[EstimateRecord], Any]) -> None:
    asked = [(name, 2.0 * (400 + people)) for people in range(5) for name in ("tells", "warns")]
    assert [(solved.name, solved.mean) for solved in odd[0]] == asked


@pytest.mark.slow
def test_estimators_of_other_packages_work_in_processes(odd: tuple[list[EstimateRecord], Any]) -> None:
    places = {solved.details["process"] for solved in odd[0] if solved.name == "tells"}
    assert len(places) == 2
    assert os.getpid() not in places


@pytest.mark.slow
def test_processes_compute_with_one_blas_thread(odd: tuple[list[EstimateRecord], Any]) -> None:
    assert {solved.details["threads"] for solved in odd[0] if solved.name == "tells"} == {1}


@pytest.mark.slow
def test_a_warning_arrives_once(odd: tuple[Any, list[warnings.WarningMessage]]) -> None:
    (warning,) = odd[1]
    assert str(warning.message) == "this is odd"
    assert warning.category is UserWarning
    assert warning.filename.endswith("odd_code.py")


@pytest.mark.slow
def test_a_killed_process_is_one_sentence(site: Path) -> None:
    with pytest.raises(UserError, match=r"worker process was killed \(.*SIGKILL") as error:
        computed(asking("tells", "dies"), 2)
    assert "--processes" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.slow
def test_an_error_of_an_estimator_keeps_its_type_and_its_traceback(site: Path) -> None:
    with pytest.raises(ZeroDivisionError) as error:
        computed(asking("tells", "divides"), 2)
    assert "odd_code.py" in str(error.value.__cause__)
    assert "in divides" in str(error.value.__cause__)


@pytest.mark.slow
def test_too_little_memory_in_a_process_is_said_as_in_this_one(site: Path) -> None:
    with pytest.raises(MemoryError) as error:
        computed(asking("has_no_memory"), 1)
    assert machine_problem(error.value) == machine_problem(MemoryError("for this"))


ALONE = """
import sys
import test_processes as here
interrupted = False
try:
    here.computed(here.asking("sleeps"), 2)
except KeyboardInterrupt:
    interrupted = True
sys.exit(130 if interrupted else 0)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 130), (signal.SIGKILL, -9)])
def test_processes_end_when_their_parent_is_killed(
    number: signal.Signals, code: int, site: Path, tmp_path: Path
) -> None:
    path = os.pathsep.join(map(str, (site, Path(__file__).parent, Path(__file__).parents[1])))
    environment = {**os.environ, "PYTHONPATH": path, "ODD_FOLDER": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-c", ALONE], env=environment, stderr=subprocess.PIPE, text=True
    ) as parent:
        wait_until(lambda: len(asleep(tmp_path)) == 2 or parent.poll() is not None)
        children = asleep(tmp_path)
        parent.send_signal(number)
        assert parent.stderr is not None
        # The stream ends when no process holds it any more.
        said = parent.stderr.read()
    assert parent.returncode == code
    assert "Traceback" not in said
    wait_until(lambda: not any(map(is_alive, children)))


def test_processes_do_not_hear_ctrl_c() -> None:
    # In a process of its own, as what multiprocessing starts once has not started there.
    program = """
import contextlib, signal
from ldpbeam.processes import results_of
with contextlib.closing(results_of(signal.pthread_sigmask, signal.SIG_BLOCK, [()], 1)) as results:
    print([mask for _, mask in results] == [{signal.SIGINT}])
print(signal.pthread_sigmask(signal.SIG_BLOCK, ()))
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines() == ["True", "set()"]


def asleep(folder: Path) -> list[int]:
    return [int(path.name.partition("-")[2]) for path in folder.glob("asleep-*")]


def is_alive(process: int) -> bool:
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, 0)
        return True
    return False


class Clock:
    """A clock by which every estimate takes so many seconds."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.now = seconds, 0.0

    def process_time(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("seconds", "snapshots", "number", "here", "together"),
    [
        (0.125, 2, 2, 6, None),  # all done before starting is worth it
        (0.125, 100, 2, 8, 8),  # a second has passed, and more will; a second of work is sent at once
        (0.125, 5, 2, 15, None),  # less is left than starting takes
        (5.0, 2, 2, 1, 1),  # the first takes long
        (5.0, 100, 1, 300, None),  # one process is this one
        (1 / 128, 100, 2, 128, 10),  # each process gets at least eight messages
    ],
)
def test_processes_start_when_the_rest_is_worth_it(
    seconds: float,
    snapshots: int,
    number: int,
    here: int,
    together: int | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock(seconds)
    there: list[Any] = []

    def compute(*_: Any, **__: Any) -> Any:
        clock.now += clock.seconds
        return Estimate("ems", ("a",), 1, 1)

    def elsewhere(_: Study, wanted: Iterator[Any], __: int, sent_together: int, before: Any, ___: Any) -> Any:
        assert sent_together == together
        there.extend(wanted)
        return [*before, *there]

    monkeypatch.setattr(processes, "time", clock)
    monkeypatch.setattr(processes.child, "compute", compute)
    monkeypatch.setattr(processes, "in_processes", elsewhere)
    total = 3 * snapshots
    found = compute_all(STUDY, itertools.repeat(SNAPSHOTS[0], snapshots), lambda: total, number)
    assert len(found) == total
    assert len(found) - len(there) == here


def test_an_estimate_has_the_same_bits_with_any_number_of_blas_threads() -> None:
    study = parse_study("""\
study: wide
attributes:
  x:
    domain: {numeric: [0, 10]}
    buckets: 256
    services:
      a: {mechanism: piecewise, epsilon: 2.0}
      b: {mechanism: square_wave, epsilon: 1.0}
      c: {mechanism: stochastic_rounding, epsilon: 1.0}
    estimates: {both: {estimator: ule}}
""")
    attribute, statistic = study.attribute("x"), snapshot(3000, study).statistic
    wanted = study.attributes["x"].estimates["both"]
    bits = set()
    for number in (1, 2, 3):
        with threadpool_limits(number, "blas"):
            distribution = compute(StatisticIntervals(attribute, statistic), wanted).distribution
            assert distribution is not None
            bits.add(distribution.tobytes())
    assert len(bits) == 1


def test_progress_counts_every_estimate_and_names_long_ones() -> None:
    counted: list[int] = []
    long: list[str] = []

    def show(done: int | None, of: int | None = None, now: str | None = None) -> None:
        assert (done is None) != (now is None) and of is None
        counted.extend([] if done is None else [done])
        long.extend([] if now is None else [now])

    compute_all(STUDY, SNAPSHOTS, lambda: 15, 1, show)
    assert counted == list(range(1, 16))
    assert any(text.startswith("x.both: iteration 50, log-likelihood -") for text in long)
