"""The accounting of a run on an engine, as a JSON file."""

from __future__ import annotations

from dataclasses import dataclass

import apache_beam as beam

from ldpbeam.transforms.reports.counts import accounting
from ldpbeam.transforms.storage import write_json


@dataclass(eq=False)
class WriteAccounting(beam.PTransform):
    """Add up the counts of all stages of a run, and write one JSON file, in a folder that exists."""

    path: str

    def expand(self, counts: beam.PCollection[tuple[str, int]]) -> beam.PCollection[None]:
        """Add up each count, bring all together under one key, and write them."""
        path = self.path
        return (
            counts
            | "AddUp" >> beam.CombinePerKey(sum)
            | "ToOne" >> beam.Map(lambda pair: ("", pair))
            | "Together" >> beam.GroupByKey()
            | "WriteFile" >> beam.MapTuple(lambda _, named: write_json(path, accounting(named)))
        )
