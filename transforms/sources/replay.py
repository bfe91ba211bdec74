"""What an earlier process did, so that reading a feed again treats each report the same.

Whether a report is late or out of range depends on the watermark, the clock and the anchors when its batch
was taken. So these are written to the journal as *steps*, which hold from an offset of a partition on. They
change only when a window expires, an anchor moves, or a minute is over; in between, batches have those of the
step.
"""

from __future__ import annotations

import bisect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ldpbeam.transforms.offsets import Offsets
from ldpbeam.transforms.reports.batches import Arrival, pairs_of_times
from ldpbeam.transforms.reports.counts import of_batch
from ldpbeam.transforms.state.records import Step
from ldpbeam.windows import Windows

#: A new step begins when the clock is this many milliseconds past that of the last step.
CLOCK = 60_000


@dataclass(frozen=True)
class Replay:
    """What an earlier process of the run left; nothing, if there was none.

    Attributes:
        starts: by partition, the offset at which this process begins.
        counted: by partition, the offset up to which what became of batches outside of windows is counted.
        taken: by partition, the offset up to which batches were committed, at least ``counted``.
        steps: by partition, its steps in order.
        settled: the event time up to which windows have settled; None if no window has.
        watermark: the last watermark.
    """

    starts: Mapping[int, int] = field(default_factory=dict)
    counted: Mapping[int, int] = field(default_factory=dict)
    taken: Mapping[int, int] = field(default_factory=dict)
    steps: Mapping[int, Sequence[Step]] = field(default_factory=dict)
    settled: int | None = None
    watermark: int | None = None

    @property
    def cuts(self) -> dict[int, tuple[int, ...]]:
        """By partition, the offsets in ascending order at which one batch ends and another begins."""
        cuts = {partition: {offset} for partition, offset in self.taken.items()}
        for partition, offset in self.counted.items():
            cuts.setdefault(partition, set()).add(offset)
        for partition, steps in self.steps.items():
            cuts.setdefault(partition, set()).update(step.offset for step in steps)
        return {partition: tuple(sorted(offsets)) for partition, offsets in cuts.items()}


class Arrivals:
    """How the batches of a feed came, now and in an earlier process.

    Args:
        replay: what that process left.
        windows: the windows of the study.
        disorder: how many milliseconds out of order reports arrive at most.
    """

    def __init__(self, replay: Replay, windows: Windows, disorder: int = 0) -> None:
        self._windows = windows
        self._disorder = disorder
        self._settled = replay.settled
        self._starts = replay.starts
        self._counted = replay.counted
        self._taken = replay.taken
        #: The steps of this process and of the one before, by partition.
        self.steps = {
            partition: [step for step in steps if step.offset < self._taken.get(partition, 0)]
            for partition, steps in replay.steps.items()
        }

    def of(
        self, offsets: Offsets, watermark: int | None, now: int, anchors: tuple[int, ...] = ()
    ) -> tuple[int | None, Arrival]:
        """(the watermark of a batch, its arrival).

        Offsets may have no message: those of transactions, and of what was compacted. So a batch is judged by
        its last message.

        Args:
            offsets: where the batch stands; none of its messages are on both sides of a cut.
            watermark: the watermark at present, for batches that are taken for the first time.
            now: the clock.
            anchors: as :meth:`ldpbeam.windows.Windows.near` has them, likewise.
        """
        partition, first, after = offsets
        steps = self.steps.setdefault(partition, [])
        counted, taken = self._counted.get(partition, 0), self._taken.get(partition, 0)
        # The counts of batches join without gaps.
        origin = of_batch(partition, first if after <= counted else max(first, counted), after)
        if after <= taken:
            index = bisect.bisect_left(steps, after, key=lambda step: step.offset) - 1
            step = steps[index] if index >= 0 else Step(first, None, now)
            return step.watermark, Arrival(
                origin, step.clock, self._near(step), self._settled, after <= counted
            )
        if not steps or self._is_over(steps[-1], watermark, now, anchors):
            steps.append(Step(max(first, taken), watermark, now, anchors))
        return steps[-1].watermark, Arrival(origin, steps[-1].clock, self._near(steps[-1]))

    def _near(self, step: Step) -> list[tuple[int, int]] | None:
        """The event times near the anchors of a step; None if it has none."""
        return pairs_of_times(self._windows.near(step.anchors, self._disorder))

    def reads_again(self, positions: Mapping[int, int]) -> bool:
        """Whether a partition, read up to these offsets, has not come to where the earlier process was."""
        at = {**self._starts, **positions}
        return any(at.get(partition, 0) < offset for partition, offset in self._taken.items())

    def forget(self, needed: Mapping[int, int]) -> None:
        """Forget the steps before the offsets from which partitions would be read again."""
        for partition, steps in self.steps.items():
            offset = needed.get(partition, 0)
            del steps[: max(0, bisect.bisect_right(steps, offset, key=lambda step: step.offset) - 1)]

    def _is_over(self, step: Step, watermark: int | None, now: int, anchors: tuple[int, ...]) -> bool:
        return (
            anchors != step.anchors
            or now - step.clock >= CLOCK
            or now < step.clock
            or self._expired(step.watermark) != self._expired(watermark)
        )

    def _expired(self, watermark: int | None) -> int | None:
        """A number that changes when the watermark passes the time at which a window expires."""
        if watermark is None:
            return None
        return self._windows.steps.number(watermark - self._windows.allowed_lateness)
