"""A script run as a stream, and the batch run over the same reports: what the tests of panes compare."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from ldpbeam.attributes import Attribute
from ldpbeam.cells import Cells
from ldpbeam.schemas.outputs.snapshots import Snapshot
from ldpbeam.statistics import Statistic, merge, tally
from ldpbeam.study import Study
from ldpbeam.transforms.joining.join import UserReports, join, without_join
from ldpbeam.transforms.joining.kept import at_most, users_alike
from ldpbeam.transforms.joining.pairs import by_coordinate
from ldpbeam.transforms.joining.report_ids import without_duplicate_ids
from ldpbeam.transforms.reports.batches import attribute_name
from ldpbeam.transforms.windows.bounded import Aggregate, DropDuplicateIds, FoldBatch
from ldpbeam.transforms.windows.groups import GroupStatistics, snapshots
from ldpbeam.transforms.windows.piece_keys import GroupKey, WindowKey
from support.pane_reports import times_of
from support.pane_scripts import Step


class Streamed(NamedTuple):
    """What a stream said, in the order it said it.

    Attributes:
        panes: the snapshots of one attribute, window and pane each.
        counts: reports by what became of them.
    """

    panes: list[list[Snapshot]]
    counts: Counter[str]

    @property
    def by_window(self) -> dict[tuple[str, Any], list[list[Snapshot]]]:
        """The panes of each attribute and window."""
        found: dict[tuple[str, Any], list[list[Snapshot]]] = defaultdict(list)
        for pane in self.panes:
            found[pane[0].attribute, pane[0].window].append(pane)
        return dict(found)

    @property
    def last(self) -> dict[tuple[str, Any], list[Snapshot]]:
        """The last pane of each attribute and window, as a batch run names it."""
        return {key: [as_batch(own) for own in panes[-1]] for key, panes in self.by_window.items()}


def as_batch(snapshot: Snapshot) -> Snapshot:
    """A snapshot without its pane: a batch run has one."""
    return replace(snapshot, pane_index=0, pane_timing="on_time")


# What the pipelines of this process gave, by run: engines that copy their functions still share this module.
_given: dict[int, list[Any]] = defaultdict(list)
_runs = itertools.count()


def _give(element: Any, run: int, name: str) -> None:
    _given[run].append((name, element))


def _taken(run: int) -> Streamed:
    given = _given.pop(run, [])
    counts: Counter[str] = Counter()
    for name, element in given:
        if name == "counts":
            counts[element[0]] += element[1]
    return Streamed([snapshots for name, (_, snapshots) in given if name == "panes"], +counts)


def in_batch(study: Study, batches: Sequence[pa.RecordBatch], shards: int = 4) -> Streamed:
    """What the stages of a batch run make of reports, wired as in ``BatchStatistics``."""
    run = next(_runs)
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        reports = (pipeline | beam.Create(list(batches)),)
        counts = []
        if study.duplicates == "drop":
            plain, first, repeats = reports[0] | DropDuplicateIds(study, shards)
            reports = plain, first
            counts.append(repeats)
        statistics, folded = reports | FoldBatch(study, shards)
        _ = statistics | Aggregate(study) | "GivePanes" >> beam.Map(_give, run, "panes")
        _ = (*counts, folded) | beam.Flatten() | "GiveCounts" >> beam.Map(_give, run, "counts")
    return _taken(run)


def in_windows(study: Study, script: Iterable[Step]) -> dict[tuple[str, Any], list[Snapshot]]:
    """What the last panes of a script are to be: of each window, the reports that came before it closed.

    Each window by itself, from all its reports at once; in the tests of panes it also equals a batch run.
    """
    windows = study.windows
    period, joined = windows.period, set()
    came: dict[tuple[str, tuple[int, int]], list[pa.RecordBatch]] = defaultdict(list)
    for watermark, batches in script:
        for batch in batches:
            times = np.array(times_of(batch))
            first, last = (times.min() - windows.size) // period, times.max() // period
            for start in range(first * period, (last + 1) * period, period):
                inside = (times >= start) & (times < start + windows.size)
                if inside.any() and start + windows.size + windows.allowed_lateness > watermark:
                    held = [(start, start + windows.size)]
                    if windows.joined is not None:
                        held.append(windows.longer(held[0]))
                        joined.add(held[1])
                    for bounds in held:
                        came[attribute_name(batch), bounds].append(batch.filter(pa.array(inside)))
    found = {}
    for (name, bounds), batches in came.items():
        by_key: dict[tuple[str, str | None], list[Statistic]] = defaultdict(list)
        many, inside = (windows.each_joined, windows.steps) if bounds in joined else (1, None)
        for users in _rows_of_users(study, study.attribute(name), batches, inside):
            for part in by_coordinate(study.attribute(name), users):
                attribute = study.attribute(part.attribute)
                statistic = tally(attribute, part.users, part.answers, checked=many > 1, windows=many)
                by_key[part.attribute, part.group].append(statistic)
        for own_name in {own_name for own_name, _ in by_key}:
            groups = {GroupKey(*key): merge(own) for key, own in by_key.items() if key[0] == own_name}
            found[own_name, bounds] = snapshots(study, WindowKey(own_name, bounds), GroupStatistics(groups))
    return found


def _rows_of_users(
    study: Study, attribute: Attribute, batches: Sequence[pa.RecordBatch], inside: Cells | None
) -> Iterable[UserReports]:
    if study.duplicates == "drop" and inside is None:
        few = at_most(batches, users_alike(study), attribute)
        batches, _ = without_duplicate_ids(attribute, few)
    if study.group_users:
        return join(attribute, batches, windows=inside)[0]
    return [users for batch in batches for users in without_join(batch, attribute)]


def check_order(streamed: Streamed) -> None:
    """Panes of a window come in the order of their indexes: early ones, one on time, late ones."""
    for panes in streamed.by_window.values():
        names = [{(own.pane_index, own.pane_timing) for own in pane} for pane in panes]
        assert all(len(name) == 1 for name in names)
        indexes, timings = zip(*(name for (name,) in names), strict=True)
        assert indexes == tuple(range(len(panes)))
        early = timings.count("early")
        assert timings == ("early",) * early + ("on_time",) + ("late",) * (len(panes) - early - 1)
