"""Whether the windows of a stream differ from those before, whose estimates are in its output folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

import apache_beam as beam

from ldpbeam.answers.alarms import in_order
from ldpbeam.folders.read import earlier_in
from ldpbeam.study import Study
from ldpbeam.transforms.outputs.panes import Solved

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
        assert self.study.windows is not None
        earlier = earlier_in(self.output, self.study.name)
        estimates = in_order(pane.estimates, slides=self.study.windows.slides, earlier=earlier)
        differing_here[self.output, self.run] += sum(
            record.alarm is not None and record.alarm.differs for record in estimates
        )
        yield replace(pane, estimates=estimates)
