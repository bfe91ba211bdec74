"""The open windows of a run: when they fire, and when they are forgotten.

The life of a report: it is cut by window (:meth:`OpenWindows.add`), waits in memory until the next commit and
then in a segment, is folded each time that one of its windows fires (:meth:`OpenWindows.fire`), and is
deleted when its last window has settled (:meth:`OpenWindows.forget`). A pane is folded from all reports of
its window each time, so that it says what a batch run over these reports says.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from ldpbeam.pipelines.spool.waiting_reports import Waiting, WaitingReports, Waits
from ldpbeam.schemas.outputs.snapshots import EARLY, LATE, ON_TIME, Snapshot
from ldpbeam.study import Study
from ldpbeam.transforms.candidates import names_of, with_names
from ldpbeam.transforms.joining.kept import in_parts
from ldpbeam.transforms.reports.counts import (
    BEYOND_MOST,
    DUPLICATES,
    IN_WINDOWS,
    OUT_OF_RANGE,
    TOO_FAR,
    USED,
)
from ldpbeam.transforms.windows.cut import Pieces, together
from ldpbeam.transforms.windows.fold import Fold, JoinedFold, counted
from ldpbeam.transforms.windows.groups import GroupStatistics, added_up, by_window, snapshots
from ldpbeam.transforms.windows.piece_keys import PieceKey
from ldpbeam.windows import Bounds

#: The most windows that are open; beyond that, those with the fewest reports are dropped.
MOST_OPEN = 100_000
#: Windows within this many periods of the watermark are never dropped.
NEAR = 1_000
#: The share of the windows that is kept when some are dropped.
LEFT = 0.9
#: A window with this share of the reports of the largest that is due fires after it, whatever their order.
SMALL = 1 / 16


class Tallied(NamedTuple):
    """What became of the reports of a window, by its last pane; the fields are those of ``Folded``."""

    used: int = 0
    duplicates: int = 0
    in_window: int = 0
    beyond_most: int = 0


@dataclass
class Window:
    """An attribute's window that takes reports.

    Attributes:
        panes: how many panes have fired.
        closed: whether the pane on time has fired.
        changed: whether reports have come since the last pane.
        since: how many have.
        tallied: what became of its reports, by the last pane.
        table: the hash of the names that the places of candidates had in the last pane.
    """

    panes: int = 0
    closed: bool = False
    changed: bool = True
    since: int = 0
    tallied: Tallied = field(default_factory=Tallied)
    table: str = ""


#: An attribute and one of its windows.
Key = tuple[str, Bounds]


class OpenWindows:
    """The windows of a study that take reports.

    Args:
        study: the study; it has windows.
        folder: the folder of the segments.
        most: the most windows that are open.
    """

    def __init__(self, study: Study, folder: str, most: int = MOST_OPEN) -> None:
        assert study.windows is not None
        self.study, self.bounds, self.most = study, study.windows, most
        self.counts: Counter[str] = Counter()
        self.windows: dict[Key, Window] = {}
        #: Windows that gave way, and lack these reports if they are opened again.
        self.gave_way: set[Key] = set()
        self._fold = Fold(study, report_ids=study.duplicates == "drop")
        self._alone = Fold(study)
        self.waiting = WaitingReports(folder, self._fold, self._alone)
        self._longer = JoinedFold(study) if study.windows_joined > 1 else None
        self._cut = {
            True: Pieces(self.bounds, 1, together, in_pairs=study.in_pairs),
            False: Pieces(self.bounds, 1, together),
        }
        #: What waits for each window.
        self._of: dict[Key, set[Waits]] = {}
        #: By when they end, windows that have not closed; by when they settle, all. Some may be gone.
        self._ends: list[tuple[int, Key]] = []
        self._settles: list[tuple[int, Key]] = []
        #: Windows that have ended and have changed since their last pane; they fire when they can.
        self._due: set[Key] = set()
        self._early: set[Key] = set()

    # ------------------------------------------------------------------------------------------- reports come

    def add(self, reports: pa.RecordBatch) -> None:
        """Cut the valid reports of a channel by window, and count those that are late.

        Args:
            reports: as validation gives them; the metadata of their schema has the watermark.
        """
        for compared, part in zip((True, False), self._fold.apart(reports), strict=True):
            if part.num_rows:
                self.counts.update(dict(self._cut[compared].gather(part)))

    def file(self, reached: int | None) -> None:
        """Let what was added wait for its windows, and open these.

        Args:
            reached: the watermark, if there is one: where too many windows are open, those far from it give
                way.
        """
        for compared, pieces in self._cut.items():
            for piece, parts in pieces.taken():
                assert piece.run is not None
                key = Waits(piece.attribute, piece.run, compared)
                rows = sum(part.num_rows for part in parts)
                waiting = self.waiting.get(key) or self._open(key)
                waiting.fresh += parts
                waiting.rows += rows
                for window in self._windows_of(key):
                    self._changed(window, rows)
        if len(self.windows) > self.most:
            self._give_way(reached)

    def _open(self, key: Waits) -> Waiting:
        waiting = self.waiting[key] = Waiting()
        for window in self._windows_of(key):
            self._of.setdefault(window, set()).add(key)
            if window not in self.windows:
                self._remember(window, Window())
        return waiting

    def _remember(self, key: Key, window: Window) -> None:
        self.windows[key] = window
        if not window.closed:
            heapq.heappush(self._ends, (key[1][1], key))
        elif window.changed:
            self._due.add(key)
        heapq.heappush(self._settles, (key[1][1] + self.bounds.allowed_lateness, key))

    def _changed(self, key: Key, rows: int) -> None:
        window = self.windows[key]
        window.changed = True
        window.since += rows
        if window.closed:
            self._due.add(key)
        elif (early := self.bounds.early_reports) is not None and window.since >= early:
            # The reports of a longer window are folded when it ends.
            self._early.update([] if self.bounds.is_longer(key[1]) else [key])

    def _windows_of(self, key: Waits) -> list[Key]:
        """The windows that some reports wait for: those that take them, and the longer one of these."""
        inside = self.bounds.between(*key.run)
        longer = [self.bounds.longer(inside[0])] if self._longer is not None and key.compared else []
        return [(key.attribute, window) for window in (*inside, *longer)]

    # ------------------------------------------------------------------------------------------ windows fire

    def due(self, reached: int, now: int, solving: Collection[Key], most: int) -> list[tuple[Key, str]]:
        """(window, timing) of the windows that fire now, in their order.

        A window whose last pane is being solved waits, so that late reports in many batches make few panes.
        Of many windows the large ones fire first: invented ones have few reports.

        Args:
            reached: the watermark.
            now: the clock. A window that has not begun has no early pane.
            solving: the windows that wait.
            most: how many windows fire at once at most.
        """
        while self._ends and self._ends[0][0] <= reached:
            _, key = heapq.heappop(self._ends)
            if key in self.windows and not self.windows[key].closed:
                self._due.add(key)
        rows = {key: self._rows(key) for key in self._due if key not in solving}
        small = max(rows.values(), default=0) * SMALL
        ready = heapq.nsmallest(most, rows, key=lambda key: (rows[key] < small, key[1][1], key))
        timed = [(key, LATE if self.windows[key].closed else ON_TIME) for key in ready]
        early = [
            key for key in self._early if key not in solving and key[1][0] <= now and key not in self._due
        ]
        return timed + [(key, EARLY) for key in sorted(early)[: most - len(timed)]]

    def _rows(self, key: Key) -> int:
        return sum(self.waiting[each].reports for each in self._of.get(key, ()))

    def unfired(self) -> list[tuple[Key, str]]:
        """(window, timing) of all that have not fired, or have changed since, as if all had ended."""
        keys = (
            key
            for key, window in self.windows.items()
            if window.changed or not window.closed or self._has_other_names(key, window)
        )
        in_order = sorted(keys, key=lambda key: (key[1][1], key))
        return [(key, LATE if self.windows[key].closed else ON_TIME) for key in in_order]

    def fire(self, key: Key, timing: str, *, complete: bool) -> list[list[Snapshot]]:
        """The next pane of a window: the snapshots of its attribute, or of each coordinate of a vector.

        Without reports there is none. What became of the reports replaces what the last pane counted.

        Args:
            key: the window.
            timing: early, on_time or late.
            complete: whether it has every report that came in time, as far as is known.
        """
        window = self.windows[key]
        statistics, tallied = self._folded(key)
        self._count(window.tallied, tallied)
        panes = []
        for own, of_group in by_window(statistics, key[1]):
            present = GroupStatistics({group: one for group, one in of_group.items() if one.reports})
            if present:
                named = [with_names(self.study, snapshot) for snapshot in snapshots(self.study, own, present)]
                panes.append([
                    replace(each, pane_index=window.panes, pane_timing=timing, complete=complete)
                    for each in named
                ])  # fmt: skip
        window.tallied, window.changed, window.since = tallied, False, 0
        window.closed = window.closed or timing != EARLY
        window.panes += bool(panes)
        window.table = panes[0][0].table if panes else window.table
        self._due.discard(key)
        self._early.discard(key)
        return panes

    def _folded(self, key: Key) -> tuple[GroupStatistics, Tallied]:
        """The statistics of a window, and what became of its reports."""
        attribute, window = key
        piece = PieceKey(attribute, 0, (window[0], window[0]))
        of_window = sorted(self._of.get(key, ()))
        compared = [batch for each in of_window if each.compared for batch in self.waiting.batches(each)]
        counts_here = [each for each in of_window if each.run[1] == window[0]]
        if self.bounds.is_longer(window):
            # The windows inside have counted the reports.
            assert self._longer is not None
            return added_up(
                [folded.statistics for _, folded in self._longer.fold(piece, compared)]
            ), Tallied()
        statistics, total, few = [], Tallied(), 0
        alike = self._fold.alike(attribute)
        for part, _ in in_parts(compared, alike) if compared else ():
            few += counted(self.bounds, part, window)
            for _, folded in self._fold.fold(piece, part):
                statistics.append(folded.statistics)
                total = Tallied(*np.add(total, folded[1:]).tolist())
        if self.study.is_pair(attribute):
            # Its attributes have counted the reports.
            return added_up(statistics) if statistics else GroupStatistics(), Tallied()
        left_out = counted(self.bounds, compared, window) - few
        left_out += sum(self.waiting[each].left_out for each in counts_here)
        beyond = left_out if alike.most is not None else 0
        total = Tallied(total.used, total.duplicates + left_out, total.in_window, total.beyond_most + beyond)
        for each in (one for one in of_window if not one.compared):
            waiting = self.waiting[each]
            used = waiting.reports if each in counts_here else 0
            total = total._replace(used=total.used + used, in_window=total.in_window + waiting.reports)
            statistics += [waiting.folded] if waiting.folded else []
            alone = self._alone.fold(piece, self.waiting.batches(each))
            statistics += [folded.statistics for _, folded in alone]
        return added_up(statistics) if statistics else GroupStatistics(), total

    def _count(self, before: Tallied, now: Tallied) -> None:
        """Count what became of reports, in the place of what the last pane counted."""
        for name, then, reports in zip((USED, DUPLICATES, IN_WINDOWS, BEYOND_MOST), before, now, strict=True):
            if reports != then and (name != IN_WINDOWS or self.bounds.slides):
                self.counts[name] += reports - then

    # -------------------------------------------------------------------------------------- windows are over

    def forget(self, reached: int) -> None:
        """Forget the windows that take no more reports, and the reports that no window waits for.

        A window that has changed since its last pane, or has other names than in it, is due first.
        """
        waits: list[tuple[int, Key]] = []
        while self._settles and self._settles[0][0] <= reached:
            entry = heapq.heappop(self._settles)
            window = self.windows.get(entry[1])
            if window is None:
                continue
            if not window.closed or window.changed or self._has_other_names(entry[1], window):
                self._due.add(entry[1])
                waits.append(entry)
            else:
                self._close(entry[1])
        for entry in waits:
            heapq.heappush(self._settles, entry)
        self.gave_way = {key for key in self.gave_way if key[1][1] + self.bounds.allowed_lateness > reached}

    def forget_all(self) -> None:
        """Forget every window and every report: the run ends, and the last panes have fired."""
        for key in list(self.windows):
            self._close(key)
        self.gave_way = set()

    def _has_other_names(self, key: Key, window: Window) -> bool:
        """Whether the places of candidates have names, and not those that they had in the last pane."""
        if not window.panes or self.study.described(key[0]).candidates is None:
            return False
        names = names_of(self.study, *key)
        return names is not None and names.fingerprint != window.table

    def _close(self, key: Key) -> None:
        """Forget a window, and the reports that wait for no other."""
        del self.windows[key]
        self._due.discard(key)
        self._early.discard(key)
        for each in self._of.pop(key, set()):
            if not any(other in self.windows for other in self._windows_of(each)):
                del self.waiting[each]

    def _give_way(self, reached: int | None) -> None:
        """Drop the windows with the fewest reports, among equals the farthest first.

        Windows around the watermark stay: no invented event time moves it. So do those with a pane, which
        have ended or are about to.
        """
        rows = {key: self._rows(key) for key in self.windows}
        if reached is None:
            ordered = sorted(rows, key=lambda key: key[1])
            until = np.cumsum([rows[key] for key in ordered])
            reached = ordered[int(np.searchsorted(until, until[-1] / 2))][1][0]
        far = {key: abs(key[1][0] - reached) for key in rows}
        can = [
            key
            for key, window in self.windows.items()
            if not window.panes and far[key] > NEAR * self.bounds.period and not self.bounds.is_longer(key[1])
        ]
        can.sort(key=lambda key: (rows[key], -far[key]))
        for key in can[: len(self.windows) - int(LEFT * self.most)]:
            for each in self._of.get(key, set()).copy():
                self._give_up(each)
            self.gave_way.add(key)

    def _give_up(self, key: Waits) -> None:
        """Leave out the reports that wait for some windows, and count them as out of range."""
        reports = self.waiting.pop(key).reports
        reports = 0 if self.study.is_pair(key.attribute) else reports
        self.counts[OUT_OF_RANGE] += reports
        self.counts[TOO_FAR] += reports
        for window in self._windows_of(key):
            self._of[window].discard(key)
            if not self._of[window] and not self.windows[window].panes:
                self._close(window)

    @property
    def reports(self) -> int:
        """How many reports wait of which no pane has counted what became of them."""
        held = sum(
            waiting.reports
            for key, waiting in self.waiting.items()
            if not self.study.is_pair(key.attribute)
            and (key.attribute, self.bounds.windows_of(key.run[1])[0]) in self.windows
        )
        return held - sum(window.tallied.used + window.tallied.duplicates for window in self.windows.values())

    # ------------------------------------------------------------------------------------------------- commit

    def to_json(self) -> dict[str, Any]:
        """All but the reports, which lie in segments; :meth:`restore` reads it."""
        return {
            "waiting": self.waiting.to_json(),
            "windows": [
                [name, *bounds, *vars(window).values()] for (name, bounds), window in self.windows.items()
            ],
            "gave_way": [[name, *bounds] for name, bounds in sorted(self.gave_way)],
        }  # fmt: skip

    def restore(self, content: Mapping[str, Any]) -> None:
        """Go on with what :meth:`to_json` gave."""
        self.waiting.restore(content["waiting"])
        for name, start, end, panes, closed, changed, since, tallied, table in content["windows"]:
            self._remember(
                (name, (start, end)), Window(panes, closed, changed, since, Tallied(*tallied), table)
            )
        for key in self.waiting:
            for window in self._windows_of(key):
                # A window that has settled before another that holds the same reports is gone.
                if window in self.windows:
                    self._of.setdefault(window, set()).add(key)
        self.gave_way = {(name, (start, end)) for name, start, end in content["gave_way"]}
