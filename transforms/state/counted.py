"""The running accounting of a stream that may be read again: what is final, and what is to be recounted.

A process that is killed loses the engine's state, and with it the windows that were open. The next one reads
their messages again. So that each report counts once, counts have origins:

- What becomes of a report outside of windows (read, late, out of range, a dead letter) is a count of its
  *batch*. The counts of a batch are complete when every report that was read has become something, and dead
  letters are in files. Those of complete batches, one after the other, are final up to an offset of each
  partition. A batch that is read again before that offset is not counted.
- What becomes of it in a window (used, a duplicate) is a count of the *window*. It is final when the window
  has settled; before that, the next process counts the window anew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ldpbeam.transforms.reports.counts import (
    DEAD_LETTERS,
    ENDED_WINDOWS,
    ENTERED,
    IN,
    LATE,
    LETTERS_WRITTEN,
    OUT_OF_RANGE,
    without_origin,
)
from ldpbeam.windows import Bounds, Windows


@dataclass
class RunningAccounting:
    """The counts of a run so far.

    Attributes:
        final: the counts that are final, by name.
        positions: by partition, the offset up to which the counts of batches are final.
        batches: by partition, (first, after) of a batch and its counts, which are not final.
        open: the counts of windows that have not settled.
        settled: the event time up to which windows have settled; None at first.
        ended: whether the stream has ended, and all its panes are written and published.
    """

    final: Counter[str] = field(default_factory=Counter)
    positions: dict[int, int] = field(default_factory=dict)
    batches: dict[int, dict[int, tuple[int, Counter[str]]]] = field(default_factory=dict)
    open: dict[Bounds, Counter[str]] = field(default_factory=dict)
    settled: int | None = None
    ended: bool = False

    def add(self, counts: Mapping[str, int]) -> None:
        """Add counts, whose names have their origins."""
        touched = set()
        for name, reports in counts.items():
            bare, origin = without_origin(name)
            kind, *numbers = origin.split("/")
            if kind == "batch":
                partition, first, after = map(int, numbers)
                of_partition = self.batches.setdefault(partition, {})
                of_partition.setdefault(first, (after, Counter()))[1][bare] += reports
                touched.add(partition)
            elif kind == "window":
                start, end = map(int, numbers)
                self.open.setdefault((start, end), Counter())[bare] += reports
            else:
                self.final[bare] += reports
        for partition in touched:
            self._advance(partition)

    def _advance(self, partition: int) -> None:
        """Make the counts of complete batches final, from the position of the partition on."""
        batches = self.batches[partition]
        position = self.positions.setdefault(partition, 0)
        while position in batches and _complete(batches[position][1]):
            after, counts = batches.pop(position)
            self.final.update(counts)
            self.positions[partition] = position = after
        if not batches:
            del self.batches[partition]

    def settle(self, windows: Windows, time: int) -> None:
        """Make the counts final of windows that have settled at an event time.

        Windows that a stop left without estimates are estimated by the next process: neither they nor those
        that settle after them do so in this one.
        """
        for window, counts in self.open.items():
            if counts[ENDED_WINDOWS]:
                time = min(time, windows.settles(window) - 1)
        self.settled = time if self.settled is None else max(self.settled, time)
        for window in [window for window in self.open if windows.settles(window) <= time]:
            self.final.update(self.open.pop(window))

    def counts(self) -> Iterator[tuple[str, int]]:
        """All counts by their bare names, final or not."""
        yield from self.final.items()
        for batches in self.batches.values():
            for _, counts in batches.values():
                yield from counts.items()
        for counts in self.open.values():
            yield from counts.items()

    def to_json(self) -> dict[str, Any]:
        """Everything, as :meth:`of_json` reads it."""
        return {
            "settled": self.settled,
            "ended": self.ended,
            "positions": sorted(self.positions.items()),
            "final": self.final,
            "batches": [
                [partition, first, after, counts]
                for partition, batches in sorted(self.batches.items())
                for first, (after, counts) in sorted(batches.items())
            ],
            "open": [[*window, counts] for window, counts in sorted(self.open.items())],
        }

    @classmethod
    def of_json(cls, content: Mapping[str, Any]) -> RunningAccounting:
        """What :meth:`to_json` gave."""
        batches: dict[int, dict[int, tuple[int, Counter[str]]]] = {}
        for partition, first, after, counts in content["batches"]:
            batches.setdefault(partition, {})[first] = (after, Counter(counts))
        return cls(
            Counter(content["final"]),
            dict(content["positions"]),
            batches,
            {(start, end): Counter(counts) for start, end, counts in content["open"]},
            content["settled"],
            content.get("ended", False),
        )

    def final_only(self) -> RunningAccounting:
        """What the next process begins with: it counts all else anew."""
        return RunningAccounting(self.final, self.positions, settled=self.settled, ended=self.ended)


def _complete(counts: Counter[str]) -> bool:
    """Whether every report of a batch has become something, and its dead letters are in files."""
    known = counts[ENTERED] + counts[LATE] + counts[OUT_OF_RANGE] + counts[DEAD_LETTERS]
    return IN in counts and counts[IN] == known and counts[DEAD_LETTERS] == counts[LETTERS_WRITTEN]
