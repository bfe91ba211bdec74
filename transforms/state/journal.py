"""The journal of a stream: the windows of reports, written to a file before the reports are acknowledged.

Open windows live in the engine's state, which on a local engine is memory. A report that is acknowledged is
never delivered again. So before reports are acknowledged, the journal lists their windows. If the run ends
before such a window has its on-time pane, the next run knows that the window is incomplete.
"""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from apache_beam.io.filesystems import FileSystems
from apache_beam.utils.timestamp import Timestamp

from ldpbeam.study import attribute_of
from ldpbeam.transforms.patterns import matching
from ldpbeam.transforms.sources.feeds import Offsets
from ldpbeam.transforms.sources.kafka_checksums import Checksum, thinned
from ldpbeam.transforms.sources.watermark import timestamp
from ldpbeam.transforms.storage import literal, make_folder, read_json, replacing, write_bytes
from ldpbeam.windows import Bounds

#: The folder in the output folder that holds one folder per run.
RUNS = "runs"
#: The file in a run's folder that asks the run to stop.
STOP = "stop.json"
#: The watermark at which a run was stopped that had none.
NEVER = -(2**62)
#: Seconds between two looks whether a run has been asked to stop.
LOOKING_SECONDS = 1.0


class OpenWindow(NamedTuple):
    """An attribute's window, [start, end) in epoch milliseconds."""

    attribute: str
    start: int
    end: int


@dataclass(frozen=True)
class Incomplete:
    """The windows that may lack reports.

    Attributes:
        windows: those that are known.
        before: any window that begins before this time, in epoch milliseconds; None for none.
        lost: whether the topic has lost messages that the run needed.
    """

    windows: frozenset[OpenWindow] = frozenset()
    before: int | None = None
    lost: bool = False

    def holds(self, attribute: str, window: Bounds) -> bool:
        """Whether a window of an attribute, or of a part of it, may lack reports."""
        known = OpenWindow(attribute_of(attribute), *window) in self.windows
        return known or (self.before is not None and window[0] < self.before)


class Journal:
    """The journal of one reader of a run.

    Args:
        output: the run's output folder.
        run: the name of the run.
        reader: the place of the run that the reader reads, from 0.
        kept: how long after its end a window stays in the journal, in milliseconds of event time.
    """

    def __init__(self, output: str, run: str, reader: int, kept: int) -> None:
        self.folder = FileSystems.join(output, RUNS, run)
        self.path = FileSystems.join(self.folder, f"journal-{reader}.json")
        self.kept = kept
        self._reader = reader
        # The engine finalizes marks on threads other than the one that stops the run.
        self._lock = threading.Lock()
        self._stopped_at: int | None = None
        self._ended_at: int | None = None
        # A reader that is made again in the same run continues its journal.
        entry = _entry(self.path) if FileSystems.exists(self.path) else {"windows": []}
        self._windows = {OpenWindow(*window) for window in entry["windows"]}
        self._positions = _positions(entry)
        self._watermark: int | None = entry.get("watermark")
        self._needs = _needs(entry)
        self._checksums = _checksums(entry)
        self._lost_before: int | None = entry.get("lost_before")
        if entry.get("stopped_at") is not None or entry.get("ended_at") is not None:
            self._write(self._windows)

    def name(
        self,
        windows: Iterable[OpenWindow],
        watermark: int | None,
        committed: Iterable[Offsets] = (),
        taken: Iterable[tuple[Offsets, Iterable[OpenWindow]]] = (),
        read: Iterable[tuple[int, Sequence[Checksum]]] = (),
    ) -> None:
        """Add open windows to the journal; they are in the file when this returns.

        Args:
            windows: windows of reports that are about to be acknowledged.
            watermark: in epoch milliseconds, None before any; windows that ended ``kept`` before it leave the
                journal.
            committed: where batches of a feed with offsets stand that are about to be acknowledged.
            taken: where all batches stand that are not acknowledged, and the windows of their reports: an
                engine may commit a batch before one that was taken earlier.
            read: the partition of each batch that is about to be acknowledged, and checksums of its messages.
        """
        passed = -(2**62) if watermark is None else watermark - self.kept
        with self._lock:
            new = {window for window in windows if window.end > passed} - self._windows
            moved = False
            for partition, checksums in read:
                known = self._checksums.get(partition, ())
                self._checksums[partition] = thinned(sorted({*known, *checksums}))
            for partition, _, after in committed:
                moved = True
                self._positions[partition] = max(after, self._positions.get(partition, 0))
            for (partition, first, _), opened in taken:
                for window in {(window.start, window.end) for window in opened}:
                    needed = self._needs.setdefault(window, {})
                    needed[partition] = min(first, needed.get(partition, first))
            if moved:
                self._watermark = watermark
            if new or moved:
                self._write({window for window in self._windows | new if window.end > passed})

    @property
    def last_read(self) -> dict[int, Checksum]:
        """By partition, the checksum of the last message that was committed."""
        return {partition: checksums[-1] for partition, checksums in self._checksums.items() if checksums}

    def begin(self, positions: Mapping[int, int]) -> None:
        """Record where partitions begin whose offset is not known yet, for the runs that follow."""
        with self._lock:
            if positions.keys() - self._positions.keys():
                self._positions = {**positions, **self._positions}
                self._write(self._windows)

    def record(self, partition: int, steps: Sequence[Any]) -> None:
        """Record the steps of the arrivals of a partition; they are in a file when this returns.

        The file is of this partition alone: one far window keeps steps of a day, and commits are frequent.
        """
        make_folder(self.folder)
        with replacing(FileSystems.join(self.folder, f"steps-{self._reader}-{partition}.json")) as stream:
            stream.write(json.dumps({"partition": partition, "steps": steps}).encode() + b"\n")
        with self._lock:
            if partition not in self._positions:
                # A new partition has no committed offset: its position is where its first batch begins.
                self._positions[partition] = steps[0].offset
                self._write(self._windows)

    def lose(self, before: int) -> None:
        """Record that windows that begin before a time, in epoch milliseconds, may lack removed messages."""
        with self._lock:
            if self._lost_before is None or self._lost_before < before:
                self._lost_before = before
                self._write(self._windows)

    def forget(self, has_settled: Callable[[Bounds], bool], counted: Mapping[int, int]) -> dict[int, int]:
        """Forget the offsets that only settled windows needed.

        Args:
            has_settled: whether a window has settled.
            counted: by partition, the offset up to which what became of batches is counted.

        Returns:
            By partition, the offset from which another process would read again.
        """
        with self._lock:
            self._needs = {window: needs for window, needs in self._needs.items() if not has_settled(window)}
            return lowest(counted, self._positions, self._needs)

    def stop(self, watermark: int | None) -> None:
        """Record that the run was asked to stop: windows that end after the watermark are incomplete."""
        with self._lock:
            self._stopped_at = NEVER if watermark is None else watermark
            self._write(self._windows)

    def end(self, clock: int) -> None:
        """Record the clock, in epoch milliseconds, when the reader finished: later windows have not begun."""
        with self._lock:
            self._ended_at = clock
            self._write(self._windows)

    def _write(self, windows: set[OpenWindow]) -> None:
        make_folder(self.folder)
        with replacing(self.path) as stream:
            entry: dict[str, Any] = {
                "stopped_at": self._stopped_at,
                "ended_at": self._ended_at,
                "windows": sorted(windows),
            }
            if self._positions:
                entry |= {
                    "positions": sorted(self._positions.items()),
                    "watermark": self._watermark,
                    "needs": [
                        [*window, sorted(needs.items())] for window, needs in sorted(self._needs.items())
                    ],
                    "checksums": sorted(self._checksums.items()),
                    "lost_before": self._lost_before,
                }
            stream.write(json.dumps(entry).encode() + b"\n")
        self._windows = windows


def ask_to_stop(output: str, run: str) -> None:
    """Ask the readers of a run to stop, on whatever worker they are, by a file in the run's folder."""
    folder = FileSystems.join(output, RUNS, run)
    make_folder(folder)
    write_bytes(FileSystems.join(folder, STOP), b"{}\n")


def asked_to_stop(output: str, run: str) -> bool:
    """Whether the readers of a run were asked to stop."""
    asked: bool = FileSystems.exists(FileSystems.join(output, RUNS, run, STOP))
    return asked


def asked_at(output: str, run: str) -> float | None:
    """When the readers of a run were asked to stop, in epoch seconds; None if they were not."""
    path = FileSystems.join(output, RUNS, run, STOP)
    return float(FileSystems.last_updated(path)) if FileSystems.exists(path) else None


def stopped_at(output: str, run: str) -> int | None:
    """The watermark at which a run was asked to stop, the earliest of its readers; None if it was not."""
    times = [entry["stopped_at"] for entry in _entries(FileSystems.join(output, RUNS, run))]
    return min((time for time in times if time is not None), default=None)


class Stop:
    """The stop of a run with one reader, as the timers of its windows see it.

    Args:
        output: the run's output folder.
        run: the name of the run.
    """

    def __init__(self, output: str, run: str) -> None:
        self.output = output
        self.run = run
        self._looked = -math.inf
        self._watermark: Timestamp | None = None

    def is_before(self, timer: Timestamp) -> bool:
        """Whether the run has stopped, and a timer lies after the watermark that it had reached.

        Only the end of the source fires such a timer, so no report is on its way then. The answer may be no
        for a second after the stop, since files are looked for once a second.
        """
        if self._watermark is None and time.monotonic() - self._looked >= LOOKING_SECONDS:
            self._looked = time.monotonic()
            stopped = stopped_at(self.output, self.run) if asked_to_stop(self.output, self.run) else None
            self._watermark = None if stopped is None else timestamp(stopped)
        return self._watermark is not None and timer > self._watermark


def ended_at(output: str, run: str) -> int | None:
    """The clock when the last reader of a run finished, in epoch milliseconds; None while none has."""
    return _latest(output, run, "ended_at")


def lost_before(output: str, run: str) -> int | None:
    """The time of :meth:`Journal.lose`, the latest of a run's readers; None if nothing is lost."""
    return _latest(output, run, "lost_before")


def _latest(output: str, run: str, name: str) -> int | None:
    """The latest time of a name in the journals of a run's readers; None if none has one."""
    times = [entry.get(name) for entry in _entries(FileSystems.join(output, RUNS, run))]
    return max((time for time in times if time is not None), default=None)


def named_windows(output: str, run: str) -> set[OpenWindow]:
    """The windows in the journals of all readers of a run."""
    return {
        OpenWindow(*window)
        for entry in _entries(FileSystems.join(output, RUNS, run))
        for window in entry["windows"]
    }


def positions_before(output: str) -> dict[int, int]:
    """By partition, the offset before which the runs into an output folder have read or skipped all."""
    positions: dict[int, int] = {}
    pattern = FileSystems.join(literal(output), RUNS, "*", "journal-*.json")
    for entry in matching(pattern):
        for partition, offset in _positions(_entry(entry.path)).items():
            positions[partition] = max(offset, positions.get(partition, 0))
    return positions


def checksums_before(output: str) -> dict[int, list[Checksum]]:
    """By partition, the checksums of messages that the runs into an output folder have read, in order."""
    checksums: dict[int, set[Checksum]] = {}
    for entry in matching(FileSystems.join(literal(output), RUNS, "*", "journal-*.json")):
        for partition, of_partition in _checksums(_entry(entry.path)).items():
            checksums.setdefault(partition, set()).update(of_partition)
    return {partition: sorted(of_partition) for partition, of_partition in checksums.items()}


class Left(NamedTuple):
    """What the reader of a run with offsets left in its journal.

    Attributes:
        positions: by partition, the offset after the last message that was committed; before any, the one at
            which it began.
        watermark: the last watermark.
        needs: the lowest offset with a report of a window, by window and partition.
        steps: the steps of each partition.
        stopped: whether the run was asked to stop.
    """

    positions: dict[int, int]
    watermark: int | None
    needs: dict[Bounds, dict[int, int]]
    steps: list[Any]
    stopped: bool


def left_by(output: str, run: str) -> Left | None:
    """What the only reader of a run left in its journal; None if it left none."""
    for entry in _entries(FileSystems.join(output, RUNS, run)):
        return Left(
            _positions(entry),
            entry.get("watermark"),
            _needs(entry),
            sorted(
                (of_partition["partition"], of_partition["steps"])
                for of_partition in _entries(FileSystems.join(output, RUNS, run), "steps")
            ),
            entry["stopped_at"] is not None,
        )
    return None


def lowest(
    counted: Mapping[int, int], committed: Mapping[int, int], needs: Mapping[Bounds, Mapping[int, int]]
) -> dict[int, int]:
    """By partition, the lowest of three offsets: what is counted, what is committed, what windows need.

    Counts may be in their file before the journal names the windows of their batches.
    """
    offsets = {each: min(offset, committed.get(each, offset)) for each, offset in counted.items()}
    for needed in needs.values():
        for partition, offset in needed.items():
            offsets[partition] = min(offset, offsets.get(partition, offset))
    return offsets


def _needs(entry: dict[str, Any]) -> dict[Bounds, dict[int, int]]:
    return {(start, end): dict(needs) for start, end, needs in entry.get("needs", ())}


def _positions(entry: dict[str, Any]) -> dict[int, int]:
    return dict(entry.get("positions", ()))


def _checksums(entry: dict[str, Any]) -> dict[int, list[Checksum]]:
    return {partition: [Checksum(*each) for each in known] for partition, known in entry.get("checksums", ())}


def _entries(folder: str, kind: str = "journal") -> Iterator[dict[str, Any]]:
    pattern = FileSystems.join(literal(folder), f"{kind}-*.json")
    for entry in matching(pattern):
        yield _entry(entry.path)


def _entry(path: str) -> dict[str, Any]:
    entry: dict[str, Any] = read_json(path)
    return entry
