"""The reports that wait for open windows: where they lie, and what is kept of them.

They are in memory until the next commit, and then in a segment.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa

from ldpbeam.schemas.outputs.snapshots import decode_statistic, encode_statistic
from ldpbeam.transforms.joining.kept import can_be_kept, concatenated
from ldpbeam.transforms.segments import Part, read_reports
from ldpbeam.transforms.windows.fold import Fold
from ldpbeam.transforms.windows.groups import GroupStatistics, added_up
from ldpbeam.transforms.windows.piece_keys import GroupKey, PieceKey, Run

#: When a window has this many reports, those that no fold keeps are dropped, and again at twice as many.
#: Reports that are compared with no other are folded then.
HELD = 2**18


class Waits(NamedTuple):
    """What reports share that wait for the same windows.

    Attributes:
        attribute: the attribute.
        run: the starts of the first and the last window that take them.
        compared: whether they are compared with others.
    """

    attribute: str
    run: Run
    compared: bool


@dataclass
class Waiting:
    """Reports that wait for the same windows.

    Attributes:
        rows: how many there are in the parts and in the fresh batches.
        parts: where those lie that are on disk.
        fresh: batches that are not on disk.
        looked: how many rows there were when they were last looked through.
        left_out: how many were left out because no fold keeps them.
        folded: the statistics of reports that are compared with no other and were folded.
        folded_rows: how many those were.
    """

    rows: int = 0
    parts: list[Part] = field(default_factory=list)
    fresh: list[pa.RecordBatch] = field(default_factory=list)
    looked: int = 0
    left_out: int = 0
    folded: GroupStatistics = field(default_factory=GroupStatistics)
    folded_rows: int = 0

    @property
    def reports(self) -> int:
        """How many reports came, whatever has become of them."""
        return self.rows + self.left_out + self.folded_rows


class WaitingReports(dict[Waits, Waiting]):
    """What waits, by what it waits for.

    Args:
        folder: the folder of the segments.
        fold: folds reports that are compared with others.
        alone: folds those that are not.
    """

    def __init__(self, folder: str, fold: Fold, alone: Fold) -> None:
        super().__init__()
        self._folder, self._fold, self._alone = folder, fold, alone

    def batches(self, key: Waits) -> list[pa.RecordBatch]:
        """Reports that wait for the same windows."""
        waiting = self[key]
        return [*read_reports(self._folder, waiting.parts), *waiting.fresh]

    def look_through(self) -> None:
        """Leave out reports of full windows that no fold keeps; fold those that nothing is compared with."""
        for key, waiting in self.items():
            if waiting.rows < max(HELD, 2 * waiting.looked):
                continue
            batches = self.batches(key)
            if not key.compared:
                piece = PieceKey(key.attribute, 0, (key.run[0], key.run[0]))
                folded = [one.statistics for _, one in self._alone.fold(piece, batches)]
                waiting.folded = added_up([*([waiting.folded] if waiting.folded else []), *folded])
                waiting.folded_rows += waiting.rows
                waiting.rows, waiting.parts, waiting.fresh = 0, [], []
                continue
            alike = self._fold.alike(key.attribute)
            few = [can_be_kept(batch, alike) for batch in concatenated(batches)]
            rows = sum(batch.num_rows for batch in few)
            if rows < waiting.rows:
                waiting.left_out += waiting.rows - rows
                waiting.rows, waiting.parts, waiting.fresh = rows, [], few
            waiting.looked = rows

    def live_rows(self) -> Counter[int]:
        """How many reports of each segment wait."""
        live: Counter[int] = Counter()
        for waiting in self.values():
            for part in waiting.parts:
                live[part.segment] += part.rows
        return live

    def take_from(self, segments: Collection[int]) -> None:
        """Let the reports in some segments be written anew: they are fresh, as views of the old files."""
        for waiting in self.values():
            old = [part for part in waiting.parts if part.segment in segments]
            if old:
                waiting.parts = [part for part in waiting.parts if part.segment not in segments]
                waiting.fresh = [*read_reports(self._folder, old), *waiting.fresh]

    def fresh(self) -> list[tuple[Waiting, pa.RecordBatch]]:
        """(what waits, its fresh reports of one schema)."""
        return [
            (waiting, batch)
            for waiting in self.values()
            if waiting.fresh
            for batch in (concatenated(waiting.fresh) if len(waiting.fresh) > 1 else waiting.fresh)
        ]

    def filed(self, fresh: Iterable[tuple[Waiting, pa.RecordBatch]], parts: Iterable[Part]) -> None:
        """The fresh reports lie in some parts of a segment now."""
        for (waiting, _), part in zip(fresh, parts, strict=True):
            waiting.parts.append(part)
            waiting.fresh = []

    def to_json(self) -> list[list[Any]]:
        """All but the reports, which lie in segments; :meth:`restore` reads it."""
        return [
            [key.attribute, *key.run, key.compared, waiting.rows, waiting.looked, waiting.left_out,
             waiting.parts, waiting.folded_rows, _encoded(waiting.folded)]
            for key, waiting in self.items()
        ]  # fmt: skip

    def restore(self, content: Iterable[Sequence[Any]]) -> None:
        """Go on with what :meth:`to_json` gave."""
        for name, first, last, compared, *numbers, parts, folded_rows, folded in content:
            rows, looked, left_out = numbers
            self[Waits(name, (first, last), compared)] = Waiting(
                rows, [Part(*part) for part in parts], [], looked, left_out, _decoded(folded), folded_rows
            )


def _encoded(statistics: GroupStatistics) -> list[Any]:
    return [
        [*key, base64.b64encode(encode_statistic(statistic)).decode()]
        for key, statistic in statistics.items()
    ]


def _decoded(entries: Iterable[Sequence[str]]) -> GroupStatistics:
    return GroupStatistics(
        {GroupKey(name, group): decode_statistic(base64.b64decode(text)) for name, group, text in entries}
    )
