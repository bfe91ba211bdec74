"""From a committed pane to its files: statistics, tests of fit, estimates and tables; and to the topic.

This runs in another process than the loop, and can be repeated: if its process was killed, the same pane
gives the same files and the same messages again.
"""

from __future__ import annotations

import io
import re
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from ldpbeam.answers.alarms import in_order
from ldpbeam.answers.published import chosen, with_refusals
from ldpbeam.answers.solve import solve, sort_key
from ldpbeam.fit.spending import Spending
from ldpbeam.folders.output import ESTIMATES, STATISTICS, names_in
from ldpbeam.folders.read import earlier_among, read_estimates
from ldpbeam.pipelines.estimates.fit import misfit_sentence
from ldpbeam.pipelines.estimates.pane_fit import write_pane_tests
from ldpbeam.pipelines.spool.place import StreamOutput
from ldpbeam.schemas.outputs.records import EstimateRecord
from ldpbeam.schemas.outputs.snapshots import Snapshot, read_snapshots
from ldpbeam.transforms.outputs.estimates import write_window_estimates
from ldpbeam.transforms.outputs.names import estimates_name
from ldpbeam.transforms.outputs.panes import pane_fields, pane_line
from ldpbeam.transforms.outputs.publish import Publisher, ToKafka, ToPubSub
from ldpbeam.transforms.outputs.snapshots import write_window
from ldpbeam.transforms.segments import Stored, read_pane
from ldpbeam.transforms.storage import exists


class Pane(NamedTuple):
    """A pane that was committed: the snapshots of an attribute, or of a coordinate of a vector.

    Attributes:
        attribute: the attribute, or the coordinate.
        start: the start of its window.
        end: the end of it.
        pane_index: its number in the window, from 0.
        stored: where its snapshots lie.
        refused: the share of the payloads that were refused by then, by ATTRIBUTE/SERVICE, if it is large.
    """

    attribute: str
    start: int
    end: int
    pane_index: int
    stored: Stored
    refused: Mapping[str, float] = {}


class Finished(NamedTuple):
    """What the loop learns of a pane that is finished.

    Attributes:
        line: the line that is printed of it.
        fields: the same for programs.
        counts: counts of what is not estimated.
        warnings: sentences on tests that are flagged.
        differing: how many estimates differ from those of the windows before.
        tests: how many tests of fit there were.
        seconds: how long it took.
    """

    line: str
    fields: dict[str, object]
    counts: dict[str, int]
    warnings: list[str]
    differing: int
    tests: int
    seconds: float


@dataclass(frozen=True)
class Finishing:
    """Where panes are finished, and how.

    Attributes:
        output: the run, and its folders.
        spending: the limits of the run's tests of fit.
        publish: where estimates are published; None for nowhere.
    """

    output: StreamOutput
    spending: Spending
    publish: ToPubSub | ToKafka | None = None

    @cached_property
    def _publisher(self) -> Publisher | None:
        return None if self.publish is None else self.publish.open()

    @cached_property
    def _names(self) -> defaultdict[str, set[str]]:
        """The files of estimates by attribute and start of the window: a folder has very many."""
        names: defaultdict[str, set[str]] = defaultdict(set)
        for name in names_in(self.output.path(ESTIMATES), "*.jsonl"):
            names[_start_of(name)].add(name)
        return names

    def finish(self, pane: Pane) -> Finished:
        """Write the files of a pane, and publish its estimates.

        Raises:
            OSError: if the disk or the topic does not take them.
        """
        began, output, study = time.monotonic(), self.output, self.output.study
        snapshots = list(read_snapshots(io.BytesIO(read_pane(output.spool, pane.stored))))
        write_window(study, output.path(STATISTICS), output.run, snapshots, named_by_run=True)
        tests = write_pane_tests(study, output.fit, self.spending, snapshots)
        to_estimate = chosen(study, snapshots, {})
        records = self._written(pane)
        if records is None:
            records = with_refusals(study, self._estimates(to_estimate.snapshots), pane.refused)
            # The files of an earlier pane are replaced, though the window has no estimate now.
            if records or pane.pane_index:
                write_window_estimates(
                    study, output.output, output.run, pane.attribute, (pane.start, pane.end), records,
                    named_by_run=True,
                )  # fmt: skip
                name = self._name(pane)
                self._names[_start_of(name)].add(name)
        if self._publisher is not None and records:
            self._publisher(records)
        nameless = study.described(pane.attribute).candidates is not None and not snapshots[0].table
        unsolved = ("" if records else ", not estimated") + (": its places have no names" if nameless else "")
        return Finished(
            line=pane_line(snapshots, records) + unsolved,
            fields=pane_fields(snapshots, records),
            counts=to_estimate.counts,
            warnings=[misfit_sentence(study, test) for test in tests if test.flagged],
            differing=sum(record.alarm is not None and record.alarm.differs for record in records),
            tests=len(tests),
            seconds=time.monotonic() - began,
        )

    def _written(self, pane: Pane) -> list[EstimateRecord] | None:
        """The estimates of a pane, if a process that was killed has written them: they may be published."""
        path = self.output.path(ESTIMATES, self._name(pane))
        if not exists(path):
            return None
        records = list(read_estimates(path))
        return records if records and records[0].pane_index == pane.pane_index else None

    def _estimates(self, snapshots: Iterable[Snapshot]) -> list[EstimateRecord]:
        output, study = self.output, self.output.study
        assert study.windows is not None
        records = [record for snapshot in snapshots for record in solve(study, snapshot)]
        records.sort(key=lambda record: sort_key(study, record))
        earlier = earlier_among(output.output, study.name, lambda start: sorted(self._names.get(start, ())))
        records = in_order(records, slides=study.windows.slides, earlier=earlier, clock=study.local)
        return [replace(record, run=output.run) for record in records]

    def _name(self, pane: Pane) -> str:
        return estimates_name(self.output.study.name, pane.attribute, (pane.start, pane.end), self.output.run)


def _start_of(name: str) -> str:
    """The name of a file of estimates up to the start of its window."""
    named = re.match(r"(.*-\d{8}T\d{6}(?:\.\d{3})?Z)-\d{8}T", name)
    return named[1] if named else ""


def finish_all(how: Finishing, panes: list[Pane]) -> tuple[list[Finished], str]:
    """Finish panes in their order; (those that were finished, why the next was not: empty if all were)."""
    finished: list[Finished] = []
    for pane in panes:
        try:
            finished.append(how.finish(pane))
        except OSError as error:
            return finished, str(error)
    return finished, ""
