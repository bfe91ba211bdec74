"""What the tests of the stream and of the commands share: a study, runs of commands, and their outputs."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings
from support.studies import SMALL

from ldpbeam.answers.people import People
from ldpbeam.command_line.main import main
from ldpbeam.pipelines.simulated import perturb, report_files
from ldpbeam.schemas.outputs.snapshots import Snapshot, read_snapshots
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.study import Study

#: The tests that ``make fast`` leaves out, and how long they took when that was recorded (make durations).
SLOW, SLOW_SECONDS = Path(__file__).parent / "slow.txt", 0.3
#: The fixtures that start an engine, a server or a browser: ``make fast`` leaves their tests out, too.
STARTED = {"chromium", "flink_cluster", "kafka", "own_kafka", "pubsub"}
#: In the names of the files whose tests run on Flink.
FLINK = "flink"
# Whether a test passes is not for the machine's load to decide, nor for a seed.
settings.register_profile(
    "ldpbeam", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("ldpbeam")
# The study of issue 3, as it stands.
COMMUTE = """\
study: commute
attributes:
  minutes:
    domain: {numeric: [0, 180]}        # or {categories: [car, bus, bike]} or {categories: 222}
    buckets: 256
    services:
      maps:   {mechanism: square_wave, epsilon: 1.0}
      taxi:   {mechanism: piecewise, epsilon: 0.5}
      survey: {mechanism: stochastic_rounding, epsilon: 0.8}
    estimates:
      together: {estimator: ule}
      maps_only: {estimator: ems, services: [maps]}
      mean: {estimator: ivw}
windows: {size: 1h, allowed_lateness: 10m}     # leave out: one window over everything
"""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record-durations", action="store_true", help=f"write {SLOW.name} anew")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the recorded tests as slow, and run those of engines and servers first, of Flink before all.

    Those take longest, and no process should be left with them at the end.
    """
    slow = set(SLOW.read_text().splitlines())
    for item in items:
        if _function(item.nodeid) in slow or STARTED.intersection(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.slow)
    items.sort(key=lambda item: (_group(item.nodeid) != FLINK, "integration" not in item.path.parts))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """A file of tests stays in one process, and so do all files of Flink, which share a cluster."""
    from xdist.scheduler import LoadFileScheduling

    class ByGroup(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return _group(nodeid)

    return ByGroup(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Print a failure when it happens, so that a run that somebody ends has said what failed."""
    if report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        crash = getattr(report.longrepr, "reprcrash", None)
        why = crash.message if crash else report.longreprtext.rstrip()
        print(f"\n{report.nodeid} failed ({report.when}): {why}", flush=True)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Record which tests are slow: all parameters of a function, and its fixtures, count together."""
    if not config.getoption("--record-durations"):
        return
    taken: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                taken[_function(report.nodeid)] += report.duration
    slow = sorted(name for name, seconds in taken.items() if seconds > SLOW_SECONDS)
    SLOW.write_text("".join(f"{name}\n" for name in slow))
    fast = sum(seconds for seconds in taken.values() if seconds <= SLOW_SECONDS)
    terminalreporter.write_line(f"{len(slow)} slow tests are recorded; the others take {fast:.0f} s in all")


def _function(test: str) -> str:
    return test.partition("[")[0]


def _group(test: str) -> str:
    file = test.partition("::")[0]
    return FLINK if FLINK in Path(file).name else file


class Ran(NamedTuple):
    """A command that has ended: its exit code and what it said."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Run:
    """A run of ``ldpbeam estimate`` and what it left in its output folder."""

    code: int
    out: str
    err: str
    path: Path

    @property
    def run_folder(self) -> Path:
        """Where the accounting, ledger and dead letters are; of a scheduled run the first of its folder's."""
        return next(iter(sorted(self.path.glob("runs/*Z-*Z"))), self.path)

    def json(self, name: str) -> Any:
        return json.loads((self.run_folder / name).read_text())

    @property
    def accounting(self) -> dict[str, Any]:
        return self.json("accounting.json")

    @property
    def estimates(self) -> list[dict[str, Any]]:
        """The lines of ``estimates.jsonl``, or of all windows' files, without the run's name."""
        files = (
            [self.path / "estimates.jsonl"]
            if self.run_folder == self.path
            else self.path.glob("estimates/*.jsonl")
        )
        lines = [line for path in sorted(files) for line in path.read_text().splitlines()]
        return [{k: v for k, v in json.loads(line).items() if k != "run"} for line in lines]

    @property
    def snapshots(self) -> list[Snapshot]:
        snapshots = []
        for path in sorted((self.path / "statistics").glob("*.avro")):
            with path.open("rb") as stream:
                snapshots += list(read_snapshots(stream))
        return snapshots

    @property
    def dead_letters(self) -> list[dict[str, Any]]:
        """In the order of file, position and row."""
        letters: list[Any] = []
        for path in (self.run_folder / "dead_letters").glob("*.avro"):
            with path.open("rb") as stream:
                letters += list(fastavro.reader(stream))
        return sorted(letters, key=lambda d: (d["file"], d["position"] or 0, d["row"] or 0))


def _command(*arguments: object) -> Ran:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([str(argument) for argument in arguments])
    return Ran(code, out.getvalue(), err.getvalue())


def _run_estimate(folder: Path, study: str, inputs: Sequence[Path | str], *options: object) -> Run:
    folder.mkdir(parents=True, exist_ok=True)
    path, output = folder / "study.yaml", folder / "output"
    path.write_text(study)
    # Estimates that take a second on a busy machine would start processes. test_processes has those.
    here = () if "--processes" in options else ("--processes", 1)
    ran = _command("estimate", "--study", path, "--output", output, "--input", *inputs, *options, *here)
    return Run(*ran, output)


def _write_lines(path: Path, records: Sequence[Mapping[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def _make_people(path: Path, values: Sequence[Any], **columns: Sequence[Any]) -> Path:
    """A CSV file of people: ``value`` and any other columns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = zip(values, *columns.values(), strict=True)
    lines = [",".join(map(str, row)) for row in rows]
    path.write_text("\n".join([",".join(("value", *columns)), *lines]) + "\n")
    return path


def _simulate(
    study: Study,
    name: str,
    values: Sequence[Any] | np.ndarray,
    *,
    seed: int = 0,
    users: Sequence[str] | None = None,
    times: Sequence[int] | None = None,
    groups: Sequence[str] | None = None,
    services: Sequence[str] | None = None,
    versions: Mapping[str, str] | None = None,
    start: int = 0,
    spread: int = 1,
) -> list[report_files.SentReports]:
    """What clients of those values send, a service each; the same for the same seed."""
    attribute = study.attribute(name)
    people = People(
        values=np.asarray(values), users=None if users is None else pa.array(users),
        times=None if times is None else np.asarray(times, dtype=np.int64),
        groups=None if groups is None else pa.array(groups), skipped=0, clipped=0,
    )  # fmt: skip
    return list(
        perturb.simulate(
            study, attribute, people, services=services or attribute.services, versions=versions or {},
            start=start, spread=spread, seed=seed,
        )
    )  # fmt: skip


def _write_reports(folder: Path, sent: Sequence[report_files.SentReports], kind: str = "avro") -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    return [path for part in sent for path in report_files.write_reports(folder, part, kind)]


@pytest.fixture(scope="session")
def commute_text() -> str:
    """The study file of issue 3."""
    return COMMUTE


@pytest.fixture(scope="session")
def commute() -> Study:
    """The study of issue 3."""
    return parse_study(COMMUTE)


@pytest.fixture(scope="session")
def small_text() -> str:
    """A study file of two services, without windows."""
    return SMALL


@pytest.fixture(scope="session")
def command() -> Callable[..., Ran]:
    """Runs ``ldpbeam`` in this process."""
    return _command


@pytest.fixture(scope="session")
def run_estimate() -> Callable[..., Run]:
    """Runs ``ldpbeam estimate``: (folder, study text, inputs, options)."""
    return _run_estimate


@pytest.fixture(scope="session")
def write_lines() -> Callable[..., Path]:
    """Writes records as JSON lines: (path, records)."""
    return _write_lines


@pytest.fixture(scope="session")
def make_people() -> Callable[..., Path]:
    """Writes a CSV file of people: (path, values, further columns)."""
    return _make_people


@pytest.fixture(scope="session")
def simulate() -> Callable[..., list[report_files.SentReports]]:
    """What clients send: (study, attribute, values, seed and columns)."""
    return _simulate


@pytest.fixture(scope="session")
def write_reports() -> Callable[..., list[Path]]:
    """Writes what clients sent: (folder, sent, format)."""
    return _write_reports


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The output folder of each kind of run."""
    from support.output_folders import every_folder

    return every_folder(tmp_path_factory.mktemp("runs"), _command, _run_estimate, _write_lines)


@pytest.fixture
def copied(folders: dict[str, Path], tmp_path: Path) -> Callable[[str], Path]:
    """A copy of one of these folders, which a test may spoil."""
    return lambda kind: Path(shutil.copytree(folders[kind], tmp_path / kind))
