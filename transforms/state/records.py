"""What the files of a stream's run say: frozen values, as JSON and from it.

Times are epoch milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from ldpbeam.study import attribute_of
from ldpbeam.transforms.offsets import Checksum
from ldpbeam.windows import FAR, Bounds


class OpenWindow(NamedTuple):
    """An attribute's window, [start, end)."""

    attribute: str
    start: int
    end: int


@dataclass(frozen=True)
class Incomplete:
    """The windows that may lack reports.

    Attributes:
        windows: those that are known.
        before: any window that begins before this time; None for none.
        lost: whether the topic has lost messages that the run needed.
    """

    windows: frozenset[OpenWindow] = frozenset()
    before: int | None = None
    lost: bool = False

    def holds(self, attribute: str, window: Bounds) -> bool:
        """Whether a window of an attribute, or of a part of it, may lack reports."""
        known = OpenWindow(attribute_of(attribute), *window) in self.windows
        return known or (self.before is not None and window[0] < self.before)

    def to_json(self) -> dict[str, Any]:
        """The fields of ``incomplete.json``."""
        return asdict(self) | {"windows": [window._asdict() for window in sorted(self.windows)]}

    @classmethod
    def of_json(cls, content: Mapping[str, Any]) -> Incomplete:
        """What :meth:`to_json` gave."""
        windows = frozenset(OpenWindow(**window) for window in content["windows"])
        return cls(windows, content["before"], content["lost"])


@dataclass(frozen=True)
class JournalRecord:
    """What a reader writes down before its reports are acknowledged: the content of its journal.

    Attributes:
        windows: the windows of reports that were acknowledged, and that may be open.
        stopped_at: the watermark when the run was asked to stop; None if it was not.
        ended_at: the clock when the reader finished; None while it has not.
        positions: by partition, the offset after the last message that was committed; before any, the one at
            which it began. Without positions, the fields below are not written.
        watermark: the last watermark; None before any.
        needs: the lowest offset with a report of a window, by window and partition.
        checksums: by partition, those of messages that were committed, in their order.
        lost_before: windows that begin before this time may lack messages that were removed; None for none.
    """

    windows: frozenset[OpenWindow] = frozenset()
    stopped_at: int | None = None
    ended_at: int | None = None
    positions: Mapping[int, int] = field(default_factory=dict)
    watermark: int | None = None
    needs: Mapping[Bounds, Mapping[int, int]] = field(default_factory=dict)
    checksums: Mapping[int, list[Checksum]] = field(default_factory=dict)
    lost_before: int | None = None

    def to_json(self) -> dict[str, Any]:
        """The fields of ``journal-*.json``."""
        content: dict[str, Any] = {
            "stopped_at": self.stopped_at,
            "ended_at": self.ended_at,
            "windows": sorted(self.windows),
        }
        if self.positions:
            content |= {
                "positions": sorted(self.positions.items()),
                "watermark": self.watermark,
                "needs": [[*window, sorted(needs.items())] for window, needs in sorted(self.needs.items())],
                "checksums": sorted(self.checksums.items()),
                "lost_before": self.lost_before,
            }
        return content

    @classmethod
    def of_json(cls, content: Mapping[str, Any]) -> JournalRecord:
        """What :meth:`to_json` gave."""
        return cls(
            frozenset(OpenWindow(*window) for window in content["windows"]),
            content["stopped_at"],
            content.get("ended_at"),
            dict(content.get("positions", ())),
            content.get("watermark"),
            {(start, end): dict(needs) for start, end, needs in content.get("needs", ())},
            {
                partition: [Checksum(*each) for each in known]
                for partition, known in content.get("checksums", ())
            },
            content.get("lost_before"),
        )


class Step(NamedTuple):
    """The watermark (None before there was one), the clock and the anchors of batches from an offset on."""

    offset: int
    watermark: int | None
    clock: int
    anchors: tuple[int, ...] = ()


class Steps(NamedTuple):
    """The steps of a partition, in the order of their offsets."""

    partition: int
    steps: tuple[Step, ...]

    @classmethod
    def of_json(cls, content: Mapping[str, Any]) -> Steps:
        """What ``_asdict`` gave."""
        steps = ((offset, time, clock, tuple(anchors)) for offset, time, clock, anchors in content["steps"])
        return cls(content["partition"], tuple(Step(*step) for step in steps))


class Claims(NamedTuple):
    """How far the partitions of one reader are. By default it has said nothing yet, and holds up all others.

    Attributes:
        each: the claim of each partition that has one.
        least: the least that a partition counts as; None if no partition claims one.
        waits: whether a partition holds up all others, because nothing is known of it yet.
        idle: for how many milliseconds nothing is known to have arrived.
    """

    each: tuple[int, ...] = ()
    least: int | None = None
    waits: bool = True
    idle: int = 0

    @classmethod
    def of_json(cls, content: Mapping[str, Any]) -> Claims:
        """What ``_asdict`` gave."""
        return cls(**content)._replace(each=tuple(content["each"]))


#: The claims of a reader that was asked to stop: it holds up no other reader.
STOPPED = Claims(waits=False)
#: The claims of a reader that ended because nothing arrived at any reader, so that all of them end. They hold
#: for the whole run, even if the engine goes back to a checkpoint: everything read by then was committed.
ENDED = Claims(waits=False, idle=FAR)
