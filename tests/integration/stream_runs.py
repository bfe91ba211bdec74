"""What the tests of ``ldpbeam stream`` share: runs of it as a person starts them, and what they leave."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fastavro
from support.waiting import PATIENCE, wait_until

from ldpbeam.folders.output import ACCOUNTING, DEAD_LETTERS, FIT_FOLDER, LEDGER_FOLDER, RUN
from ldpbeam.pipelines.runs.locks import LOCK
from ldpbeam.pipelines.simulated.report_files import SentReports
from ldpbeam.pipelines.spool.place import SPOOL
from ldpbeam.schemas.outputs.snapshots import Snapshot, read_snapshots
from ldpbeam.statistics import Statistic
from ldpbeam.transforms.sources.on_record import NAME
from ldpbeam.transforms.storage import half_written

#: Set in the environment of a run, and so of every process that it starts.
MARK = "LDPBEAM_TESTED_RUN"
#: What of an estimate tells panes and runs apart; all else must be the batch run's.
OF_A_PANE = ("pane_index", "pane_timing", "complete", "run")

#: What it prints when it has begun.
BEGUN = re.compile(r"^run (\S+): reading ", re.MULTILINE)
#: Of a statistic: attribute, window, group, how many groups were added up; of an estimate its name too.
Key = tuple[Any, ...]


class Stream:
    """A run of ``ldpbeam stream`` in a process of its own."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path, output: Path, mark: str) -> None:
        self.process = process
        self.log = log
        self.output = output
        self.mark = mark

    @property
    def said(self) -> str:
        """All it has printed so far."""
        return self.log.read_text(errors="replace")

    @property
    def left(self) -> Left:
        """What it has written so far."""
        begun = BEGUN.search(self.said)
        assert begun, self.said
        return Left(self.output, begun[1])

    def wait_until(self, truth: Callable[[], bool]) -> None:
        """Wait for something that comes true while it runs."""

        def look() -> bool:
            true = truth()
            assert true or self.process.poll() is None, f"it has ended:\n{self.said}"
            return true

        wait_until(look, lambda: self.said, every=0.05)

    def wait_until_said(self, pattern: str, times: int = 1) -> None:
        """Wait for lines that have a pattern in them."""
        self.wait_until(lambda: len(re.findall(pattern, self.said, re.MULTILINE)) >= times)

    def wait(self) -> int:
        """Its exit code, once it has ended."""
        try:
            return self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it has not ended:\n{self.said}") from None

    def end(self, number: signal.Signals) -> int:
        """Send it a signal, and wait for the exit code."""
        self.process.send_signal(number)
        return self.wait()

    def processes(self) -> list[int]:
        """Those that it started and that still run, itself among them."""
        return processes_of(self.mark)


def processes_of(mark: str) -> list[int]:
    """The processes that still run and have a mark in their environment."""
    marked = f"{MARK}={mark}".encode()
    return [
        int(entry.name)
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit() and marked in _environment(entry).split(b"\0")
    ]


def _environment(process: Path) -> bytes:
    try:
        return (process / "environ").read_bytes()
    except OSError:  # it has ended, or is somebody else's
        return b""


@contextlib.contextmanager
def streaming(folder: Path, study: str, *options: object) -> Iterator[Stream]:
    """``ldpbeam stream`` into ``folder/output``; at the end of the block nothing of it is left running.

    Args:
        folder: where the study is written too.
        study: its text.
        options: of the command.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path, output = folder / "study.yaml", folder / "output"
    path.write_text(study)
    mark = uuid.uuid4().hex
    log = folder / f"said-{mark}"
    command = [
        sys.executable, "-m", "ldpbeam.command_line.main", "stream", "--study", path, "--output", output,
    ]  # fmt: skip
    with log.open("wb") as said:
        process = subprocess.Popen(
            [*map(str, command), *map(str, options)], stdout=said, stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL, env={**os.environ, MARK: mark},
        )  # fmt: skip
    stream = Stream(process, log, output, mark)
    try:
        yield stream
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        for process_id in stream.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process_id, signal.SIGKILL)
    if BEGUN.search(stream.said):
        assert stream.left.other_files == set()


@dataclass(frozen=True)
class Left:
    """What one run of a stream left in its output folder."""

    output: Path
    run: str

    @property
    def run_folder(self) -> Path:
        """The run's own folder."""
        return self.output / "runs" / self.run

    @property
    def accounting(self) -> dict[str, Any]:
        """Empty before anything was counted."""
        path = self.run_folder / "accounting.json"
        return json.loads(path.read_text()) if path.exists() else {}

    @property
    def snapshots(self) -> dict[Key, Snapshot]:
        snapshots: list[Snapshot] = []
        for path in (self.output / "statistics").glob(f"*.{self.run}.avro"):
            with path.open("rb") as stream:
                snapshots += read_snapshots(stream)
        return {place_of(snapshot): snapshot for snapshot in snapshots}

    @property
    def statistics(self) -> dict[Key, Statistic]:
        return {key: snapshot.statistic for key, snapshot in self.snapshots.items()}

    @property
    def records(self) -> list[dict[str, Any]]:
        """Estimates as they stand in files."""
        paths = sorted((self.output / "estimates").glob(f"*.{self.run}.jsonl"))
        return [json.loads(line) for path in paths for line in path.read_text().splitlines()]

    @property
    def estimates(self) -> dict[Key, dict[str, Any]]:
        return answers(self.records)

    @property
    def dead_letters(self) -> list[dict[str, Any]]:
        letters: list[Any] = []
        for path in (self.run_folder / "dead_letters").glob("*.avro"):
            with path.open("rb") as stream:
                letters += fastavro.reader(stream)
        return letters

    @property
    def other_files(self) -> set[str]:
        """Those in the run's own folder that are not of its state, its lock, an output or half written."""
        folders = (SPOOL, DEAD_LETTERS, FIT_FOLDER, LEDGER_FOLDER)
        known = (RUN, ACCOUNTING, NAME, LOCK, *(f"{folder}/*" for folder in folders))
        written = (path.relative_to(self.run_folder) for path in self.run_folder.rglob("*") if path.is_file())
        whole = (path for path in written if not half_written(path.name))
        return {str(path) for path in whole if not any(map(path.match, known))}

    @property
    def manifest(self) -> dict[str, Any]:
        """The state of its last commit; empty before the first."""
        path = self.run_folder / SPOOL / "manifest.json"
        return json.loads(path.read_bytes().splitlines()[1]) if path.exists() else {}


def place_of(snapshot: Snapshot) -> Key:
    return snapshot.attribute, snapshot.window, snapshot.group, snapshot.other_groups


def statistics_of(snapshots: Sequence[Snapshot]) -> dict[Key, Statistic]:
    """Those of a batch run, as :attr:`Left.statistics`."""
    return {place_of(snapshot): snapshot.statistic for snapshot in snapshots}


def answers(records: Sequence[Mapping[str, Any]]) -> dict[Key, dict[str, Any]]:
    """What estimates say, whichever pane and run they are of."""
    fields = ("attribute", "window_start", "window_end", "group", "other_groups", "name")
    return {
        tuple(record[field] for field in fields): {
            name: value for name, value in record.items() if name not in OF_A_PANE
        }
        for record in records
    }


def closes(accounting: Mapping[str, Any]) -> bool:
    """Whether every report that came in is accounted for."""
    parts = ("used", "duplicates", "late", "out_of_range", "dead_letters", "in_open_windows")
    return accounting["in"] == sum(accounting.get(part, 0) for part in parts)


def run_batch(
    run_estimate: Callable[..., Any],
    write_reports: Callable[..., list[Path]],
    folder: Path,
    study: str,
    sent: Sequence[SentReports],
) -> Any:
    """``ldpbeam estimate`` over files of the same reports; the first two are fixtures."""
    paths = [path for n, part in enumerate(sent) for path in write_reports(folder / str(n), [part])]
    batch = run_estimate(folder, study, paths)
    assert batch.code == 0, batch.err
    return batch
