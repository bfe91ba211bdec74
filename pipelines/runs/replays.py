"""Runs of a stream that is read again: which run goes on, from which offsets, and what it knows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from apache_beam.io.filesystems import FileSystems

from ldpbeam.folders.output import (
    ACCOUNTING,
    COUNTED,
    INCOMPLETE,
    files_in,
    folder_of,
    named_in_errors,
    write_json,
)
from ldpbeam.study import Study
from ldpbeam.transforms.outputs.accounting import write_accounting
from ldpbeam.transforms.outputs.running import RunningAccounting
from ldpbeam.transforms.sources.journal import (
    RUNS,
    Incomplete,
    Left,
    OpenWindow,
    left_by,
    lowest,
    positions_before,
)
from ldpbeam.transforms.sources.replay import Replay, Step
from ldpbeam.transforms.storage import make_folder, open_raw, read_json, write_bytes
from ldpbeam.windows import FAR, Bounds


@dataclass(frozen=True)
class Continued:
    """A run that an earlier process has begun, and that goes on.

    Attributes:
        run: its name.
        replay: what the earlier process left.
        needs: the lowest offset with a report of a window that has not settled, by window and partition.
        committed: the offset after the last message that the journal has, by partition.
        incomplete: the windows that lacked reports then, but for those that are known: what they need says
            whether they still do. Two are equal whatever these are: the run that goes on writes them anew.
    """

    run: str
    replay: Replay
    needs: Mapping[Bounds, Mapping[int, int]]
    committed: Mapping[int, int]
    incomplete: Incomplete = field(compare=False)

    @property
    def positions(self) -> dict[int, int]:
        """By partition, the offset from which the feed is read again."""
        return lowest(dict(self.replay.counted), self.committed, self.needs)

    def without(self, new: Mapping[int, int]) -> Continued:
        """The run, had it read no message from some offsets on, by partition."""
        counted, taken = (
            tuple((each, min(offset, new.get(each, offset))) for each, offset in offsets)
            for offsets in (self.replay.counted, self.replay.taken)
        )
        return replace(self, replay=replace(self.replay, counted=counted, taken=taken))


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
        runs = sorted(map(folder_of, files_in(FileSystems.join(output, RUNS), f"*/{COUNTED}")))
        if not runs:
            return None
        folder = FileSystems.join(output, RUNS, runs[-1])
        with open_raw(FileSystems.join(folder, COUNTED)) as stream:
            counted = RunningAccounting.of_json(stream.read())
        left = left_by(output, runs[-1]) or Left({}, None, {}, [], stopped=False)
        read = positions_before(output)
        path, incomplete = FileSystems.join(folder, INCOMPLETE), Incomplete()
        if FileSystems.exists(path):
            content = read_json(path)
            incomplete = Incomplete(before=content["before"], lost=content["lost"])
    if counted.ended and not left.stopped:
        return None
    taken = dict(counted.positions)
    for partition, offset in left.positions.items():
        taken[partition] = max(offset, taken.get(partition, 0))
    if any(offset > taken.get(partition, 0) for partition, offset in read.items()):
        return None
    return Continued(
        runs[-1],
        Replay(
            counted=tuple(sorted(counted.positions.items())),
            taken=tuple(sorted(taken.items())),
            steps=tuple((partition, tuple(map(Step.of_json, steps))) for partition, steps in left.steps),
            settled=counted.settled,
            watermark=left.watermark,
        ),
        {
            window: needs
            for window, needs in left.needs.items()
            if counted.settled is None or study.windows.settles(window) > counted.settled
        },
        left.positions,
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
    complete = lowest(dict(run.replay.counted), run.committed, {})
    windows = frozenset(
        OpenWindow(attribute, *window)
        for window, needs in run.needs.items()
        for attribute in study.attributes
        if any(partition in removed and offset < removed[partition][1] for partition, offset in needs.items())
    )
    unread = any(complete.get(partition, 0) < first for partition, (_, first) in removed.items())
    return Incomplete(windows, now if unread else run.incomplete.before, bool(removed) or run.incomplete.lost)


def beginning(left: Continued | None, starts: tuple[tuple[int, int], ...]) -> Replay:
    """What a process knows that begins to read at some offsets, by partition."""
    replay = Replay() if left is None else left.replay
    counted = dict(replay.counted)
    # Retention may have removed messages, so that the first batch begins later.
    counted |= {partition: max(offset, counted.get(partition, offset)) for partition, offset in starts}
    return replace(replay, starts=starts, counted=tuple(sorted(counted.items())))


def forget(output: str, new: Mapping[int, int]) -> None:
    """Let the files of all runs into a folder say that they read no message from some offsets on.

    Args:
        output: the folder.
        new: by partition, the offset from which messages are new.
    """
    if not new:
        return
    for pattern in (f"*/{COUNTED}", "*/journal-*.json"):
        for entry in files_in(FileSystems.join(output, RUNS), pattern):
            content = read_json(entry.path)
            positions, checksums = content.get("positions", ()), content.get("checksums", ())
            content["positions"] = [(each, min(offset, new.get(each, offset))) for each, offset in positions]
            if checksums:
                content["checksums"] = [
                    (each, [checksum for checksum in known if checksum[0] < new.get(each, FAR)])
                    for each, known in checksums
                ]
            write_json(entry.path, content)


def begin(folder: str, replay: Replay) -> None:
    """Write the accounting with which a process begins.

    What an earlier process counted and is not final is counted anew: until then nobody may read it as counts
    of this one.

    Args:
        folder: the run's folder; of what an earlier process has left there, the final counts stay.
        replay: what the process knows.
    """
    path, running = FileSystems.join(folder, COUNTED), RunningAccounting()
    if FileSystems.exists(path):
        with open_raw(path) as stream:
            running = RunningAccounting.of_json(stream.read()).final_only()
    running.positions, running.ended = dict(replay.counted), False
    make_folder(folder)
    write_bytes(path, running.to_json() + b"\n")
    write_accounting(FileSystems.join(folder, ACCOUNTING), running.counts())
