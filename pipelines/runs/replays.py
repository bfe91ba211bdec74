"""Runs of a stream that is read again: which run goes on, from which offsets, and what it knows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ldpbeam.folders.output import named_in_errors
from ldpbeam.study import Study
from ldpbeam.transforms.reports.counts import accounting
from ldpbeam.transforms.sources.replay import Replay
from ldpbeam.transforms.state.counted import RunningAccounting
from ldpbeam.transforms.state.files import ACCOUNTING, COUNTED, INCOMPLETE, JOURNAL, STEPS, run_folder
from ldpbeam.transforms.state.journal import lowest, positions_before
from ldpbeam.transforms.state.records import Incomplete, JournalRecord, OpenWindow
from ldpbeam.windows import FAR, Bounds


@dataclass(frozen=True)
class Continued:
    """A run that an earlier process has begun, and that goes on.

    Attributes:
        run: its name.
        replay: what the earlier process left.
        needs: the lowest offset with a report of a window that has not settled, by window and partition.
        committed: the offset after the last message that the journal has, by partition.
        incomplete: the windows that lacked reports then. Two are equal whatever these are: the run that goes
            on writes them anew.
    """

    run: str
    replay: Replay
    needs: Mapping[Bounds, Mapping[int, int]]
    committed: Mapping[int, int]
    incomplete: Incomplete = field(compare=False)

    @property
    def positions(self) -> dict[int, int]:
        """By partition, the offset from which the feed is read again."""
        return lowest(self.replay.counted, self.committed, self.needs)

    def without(self, new: Mapping[int, int]) -> Continued:
        """The run, had it read no message from some offsets on, by partition."""
        counted, taken = _before(self.replay.counted, new), _before(self.replay.taken, new)
        return replace(self, replay=replace(self.replay, counted=counted, taken=taken))


def _before(offsets: Mapping[int, int], new: Mapping[int, int]) -> dict[int, int]:
    """Offsets by partition, which are at most those from which messages are new."""
    return {partition: min(offset, new.get(partition, offset)) for partition, offset in offsets.items()}


def continued(study: Study, output: str) -> Continued | None:
    """The last run into a folder, unless it has ended by itself and published all of its windows.

    What another run has read since, on Flink, is counted there: then no run goes on.

    Args:
        study: the study of the runs.
        output: the folder that the runs share.

    Raises:
        UserError: if a file is damaged.
    """
    assert study.windows is not None
    with named_in_errors(output):
        runs = COUNTED.runs(output)
        if not runs:
            return None
        folder = run_folder(output, runs[-1])
        counted = COUNTED.read(folder) or RunningAccounting()
        journal = next(iter(JOURNAL.each(folder).values()), JournalRecord())
        steps = dict(STEPS.each(folder).values())
        read = positions_before(output)
        incomplete = INCOMPLETE.read(folder) or Incomplete()
    if counted.ended and journal.stopped_at is None:
        return None
    taken = dict(counted.positions)
    for partition, offset in journal.positions.items():
        taken[partition] = max(offset, taken.get(partition, 0))
    if any(offset > taken.get(partition, 0) for partition, offset in read.items()):
        return None
    return Continued(
        runs[-1],
        Replay(
            counted=counted.positions,
            taken=taken,
            steps=steps,
            settled=counted.settled,
            watermark=journal.watermark,
        ),
        {
            window: needs
            for window, needs in journal.needs.items()
            if counted.settled is None or study.windows.settles(window) > counted.settled
        },
        journal.positions,
        incomplete,
    )


def lost_to(
    run: Continued | None, study: Study, removed: Mapping[int, tuple[int, int]], now: int
) -> Incomplete:
    """The windows that may lack reports because messages are gone, now or in an earlier process.

    Args:
        run: the run that goes on; None if a new one begins where earlier runs ended.
        study: its study.
        removed: by partition, (the first offset that may lack its message, the first that does not).
        now: the clock, in epoch milliseconds.
    """
    if run is None:
        return Incomplete(before=now if removed else None, lost=bool(removed))
    complete = lowest(run.replay.counted, run.committed, {})
    windows = frozenset(
        OpenWindow(attribute, *window)
        for window, needs in run.needs.items()
        for attribute in study.attributes
        if any(partition in removed and offset < removed[partition][1] for partition, offset in needs.items())
    )
    unread = any(complete.get(partition, 0) < first for partition, (_, first) in removed.items())
    return Incomplete(windows, now if unread else run.incomplete.before, bool(removed) or run.incomplete.lost)


def beginning(earlier: Continued | None, starts: tuple[tuple[int, int], ...]) -> Replay:
    """What a process knows that begins to read at some offsets, by partition."""
    replay = Replay() if earlier is None else earlier.replay
    # Retention may have removed messages, so that the first batch begins later.
    later = {each: max(offset, replay.counted.get(each, offset)) for each, offset in starts}
    return replace(replay, starts=dict(starts), counted={**replay.counted, **later})


def forget(output: str, new: Mapping[int, int]) -> None:
    """Let the files of all runs into a folder say that they read no message from some offsets on.

    Args:
        output: the folder.
        new: by partition, the offset from which messages are new.
    """
    if not new:
        return

    def of_journal(record: JournalRecord) -> JournalRecord:
        checksums = {
            each: [checksum for checksum in known if checksum.offset < new.get(each, FAR)]
            for each, known in record.checksums.items()
        }
        return replace(record, positions=_before(record.positions, new), checksums=checksums)

    COUNTED.change(output, lambda counted: replace(counted, positions=_before(counted.positions, new)))
    JOURNAL.change(output, of_journal)


def begin(folder: str, replay: Replay) -> None:
    """Write the accounting with which a process begins.

    What an earlier process counted and is not final is counted anew: until then nobody may read it as counts
    of this one.

    Args:
        folder: the run's folder; of what an earlier process has left there, the final counts stay.
        replay: what the process knows.
    """
    running = (COUNTED.read(folder) or RunningAccounting()).final_only()
    running.positions, running.ended = dict(replay.counted), False
    COUNTED.write(folder, running)
    ACCOUNTING.write(folder, accounting(running.counts()))
