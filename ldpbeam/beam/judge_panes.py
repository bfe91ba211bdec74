"""Whether the windows of a stream differ from those before, whose estimates are in its output folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

import apache_beam as beam

from ldpbeam.answers.alarms import in_order
from ldpbeam.answers.named_numbers import by_key
from ldpbeam.folders.output import ESTIMATES, names_in
from ldpbeam.folders.read import read_estimates
from ldpbeam.schemas.outputs.records import EstimateRecord
from ldpbeam.study import Study
from ldpbeam.transforms.outputs.names import estimates_from
from ldpbeam.transforms.outputs.panes import Solved
from ldpbeam.transforms.storage import join

#: How many estimates of closed windows differed from those before, by output folder and run, in this process.
differing_here: Counter[tuple[str, str]] = Counter()


@dataclass(eq=False)
class JudgePane(beam.DoFn):
    """Give the estimates of a closed window their alarms, from the earlier windows that have been written.

    A stream that starts again reads them there. A window that closes together with those before it may be
    judged without the last of these: ``ldpbeam rollup`` judges all in their order.

    Attributes:
        study: the study.
        output: the output folder.
        run: the name of the run.
    """

    study: Study
    output: str
    run: str

    def process(self, pane: Solved) -> Iterator[Solved]:
        """Judge the estimates of a pane."""
        read: dict[tuple[str, int], list[EstimateRecord]] = {}

        def earlier(record: EstimateRecord, start: int) -> EstimateRecord | None:
            window = record.attribute, start
            if window not in read:
                read[window] = list(self._written(*window))
            for known in read[window]:
                same = (known.name, known.group, known.other_groups > 0, known.joined)
                if same == (record.name, record.group, record.other_groups > 0, record.joined):
                    return known
            return None

        assert self.study.windows is not None
        estimates = in_order(pane.estimates, slides=self.study.windows.slides, earlier=earlier)
        differing_here[self.output, self.run] += sum(
            record.alarm is not None and record.alarm.differs for record in estimates
        )
        yield replace(pane, estimates=estimates)

    def _written(self, attribute: str, start: int) -> Iterator[EstimateRecord]:
        """The estimates of the windows that start at a time, of all runs that share the folder."""
        folder = join(self.output, ESTIMATES)
        names = names_in(folder, estimates_from(self.study.name, attribute, start))
        yield from by_key(record for name in names for record in read_estimates(join(folder, name))).values()
