"""The journal of a stream: the windows of reports, written to a file before the reports are acknowledged.

Open windows live in the engine's state, which on a local engine is memory. A report that is acknowledged is
never delivered again. So before reports are acknowledged, the journal lists their windows. If the run ends
before such a window has its on-time pane, the next run knows that the window is incomplete.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ldpbeam.transforms.offsets import Checksum, Offsets, thinned
from ldpbeam.transforms.patterns import matching
from ldpbeam.transforms.state.files import JOURNAL, STEPS, STOP, run_folder
from ldpbeam.transforms.state.records import JournalRecord, OpenWindow, Step, Steps
from ldpbeam.transforms.storage import literal
from ldpbeam.windows import Bounds

#: What the journal has as the watermark of a stop if there was no watermark yet.
NEVER = -(2**62)
#: Seconds between two looks whether a run has been asked to stop.
LOOKING_SECONDS = 1.0


class Journal:
    """The journal of one reader of a run.

    Args:
        output: the run's output folder.
        run: the name of the run.
        reader: the place of the run that the reader reads, from 0.
        kept: how long after its end a window stays in the journal, in milliseconds of event time.
    """

    def __init__(self, output: str, run: str, reader: int, kept: int) -> None:
        self.folder = run_folder(output, run)
        self.kept = kept
        self._reader = reader
        # The engine finalizes marks on threads other than the one that stops the run.
        self._lock = threading.Lock()
        # A reader that is made again in the same run continues its journal.
        before = JOURNAL.read(self.folder, reader) or JournalRecord()
        #: What is in the file, but for the needs that are forgotten.
        self._record = replace(before, stopped_at=None, ended_at=None)
        if before != self._record:
            self._write()

    def name(
        self,
        windows: Iterable[OpenWindow],
        watermark: int | None,
        committed: Sequence[Offsets] = (),
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
            record = self._record
            new = {window for window in windows if window.end > passed} - record.windows
            if not new and not committed:
                return
            positions, checksums = dict(record.positions), dict(record.checksums)
            for partition, _, after in committed:
                positions[partition] = max(after, positions.get(partition, 0))
            for partition, of_batch in read:
                checksums[partition] = thinned(sorted({*checksums.get(partition, ()), *of_batch}))
            needs = {window: dict(needed) for window, needed in record.needs.items()}
            for (partition, first, _), opened in taken:
                for window in {(window.start, window.end) for window in opened}:
                    needed = needs.setdefault(window, {})
                    needed[partition] = min(first, needed.get(partition, first))
            self._write(
                windows=frozenset(window for window in record.windows | new if window.end > passed),
                positions=positions,
                watermark=watermark if committed else record.watermark,
                needs=needs,
                checksums=checksums,
            )

    @property
    def last_read(self) -> dict[int, Checksum]:
        """By partition, the checksum of the last message that was committed."""
        return {partition: known[-1] for partition, known in self._record.checksums.items() if known}

    def begin(self, positions: Mapping[int, int]) -> None:
        """Record where partitions begin whose offset is not known yet, for the runs that follow."""
        with self._lock:
            if positions.keys() - self._record.positions.keys():
                self._write(positions={**positions, **self._record.positions})

    def record(self, partition: int, steps: Sequence[Step]) -> None:
        """Record the steps of the arrivals of a partition; they are in a file when this returns.

        The file is of this partition alone: one far window keeps steps of a day, and commits are frequent.
        """
        STEPS.write(self.folder, Steps(partition, tuple(steps)), self._reader, partition)
        # A new partition has no committed offset: its position is where its first batch begins.
        self.begin({partition: steps[0].offset})

    def lose(self, before: int) -> None:
        """Record that windows that begin before a time, in epoch milliseconds, may lack removed messages."""
        with self._lock:
            if self._record.lost_before is None or self._record.lost_before < before:
                self._write(lost_before=before)

    def forget(self, has_settled: Callable[[Bounds], bool], counted: Mapping[int, int]) -> dict[int, int]:
        """Forget the offsets that only settled windows needed.

        Args:
            has_settled: whether a window has settled.
            counted: by partition, the offset up to which what became of batches is counted.

        Returns:
            By partition, the offset from which another process would read again.
        """
        with self._lock:
            needs = {each: needed for each, needed in self._record.needs.items() if not has_settled(each)}
            self._record = replace(self._record, needs=needs)
            return lowest(counted, self._record.positions, needs)

    def stop(self, watermark: int | None) -> None:
        """Record that the run was asked to stop: windows that end after the watermark are incomplete."""
        with self._lock:
            self._write(stopped_at=NEVER if watermark is None else watermark)

    def end(self, clock: int) -> None:
        """Record the clock, in epoch milliseconds, when the reader finished: later windows have not begun."""
        with self._lock:
            self._write(ended_at=clock)

    def _write(self, **changes: Any) -> None:
        record = replace(self._record, **changes)
        JOURNAL.write(self.folder, record, self._reader)
        self._record = record


def ask_to_stop(output: str, run: str) -> None:
    """Ask the readers of a run to stop, on whatever worker they are, by a file in the run's folder."""
    STOP.write(run_folder(output, run), None)


def asked_to_stop(output: str, run: str) -> bool:
    """Whether the readers of a run were asked to stop."""
    return STOP.exists(run_folder(output, run))


def asked_at(output: str, run: str) -> float | None:
    """When the readers of a run were asked to stop, in epoch seconds; None if they were not."""
    path = STOP.path(run_folder(output, run))
    (entry,) = matching(literal(path)) or (None,)
    return None if entry is None else float(entry.last_updated_in_seconds)


def stopped_at(output: str, run: str) -> int | None:
    """The watermark at which a run was asked to stop, the earliest of its readers; None if it was not."""
    return min(_times(output, run, "stopped_at"), default=None)


def ended_at(output: str, run: str) -> int | None:
    """The clock when the last reader of a run finished, in epoch milliseconds; None while none has."""
    return max(_times(output, run, "ended_at"), default=None)


def all_ended(output: str, run: str, readers: int) -> bool:
    """Whether all readers of a run have finished, so many as there are."""
    return len(_times(output, run, "ended_at")) == readers


def lost_before(output: str, run: str) -> int | None:
    """The time of :meth:`Journal.lose`, the latest of a run's readers; None if nothing is lost."""
    return max(_times(output, run, "lost_before"), default=None)


def _times(output: str, run: str, name: str) -> list[int]:
    """A field of the journals of a run's readers that is a time; of those that have one."""
    times = (getattr(record, name) for record in JOURNAL.each(run_folder(output, run)).values())
    return [time for time in times if time is not None]


def named_windows(output: str, run: str) -> set[OpenWindow]:
    """The windows in the journals of all readers of a run."""
    return {window for record in JOURNAL.each(run_folder(output, run)).values() for window in record.windows}


def positions_before(output: str) -> dict[int, int]:
    """By partition, the offset before which the runs into an output folder have read or skipped all."""
    positions: dict[int, int] = {}
    for record in JOURNAL.of_all_runs(output):
        for partition, offset in record.positions.items():
            positions[partition] = max(offset, positions.get(partition, 0))
    return positions


def checksums_before(output: str) -> dict[int, list[Checksum]]:
    """By partition, the checksums of messages that the runs into an output folder have read, in order."""
    checksums: dict[int, set[Checksum]] = {}
    for record in JOURNAL.of_all_runs(output):
        for partition, known in record.checksums.items():
            checksums.setdefault(partition, set()).update(known)
    return {partition: sorted(known) for partition, known in checksums.items()}


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
