"""What DoFns emit for a fold, and the DoFn that folds every piece by itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
import pyarrow as pa

from ldpbeam.study import Study
from ldpbeam.transforms.reports.emitted import count
from ldpbeam.transforms.windows.fold import Fold, Folded
from ldpbeam.transforms.windows.groups import by_window
from ldpbeam.transforms.windows.keys import PieceKey
from ldpbeam.windows import Bounds


def outputs(study: Study, window: Bounds | None, folded: Folded) -> Iterator[Any]:
    """The outputs of a DoFn: (:class:`WindowKey`, statistics of its groups), and counts."""
    yield from by_window(folded.statistics, window)
    for name, reports in folded.counts(study):
        yield count(name, reports)


class FoldEach(beam.DoFn):
    """Folds every piece by itself, for studies that compare no report with another."""

    def __init__(self, fold: Fold) -> None:
        self.fold = fold

    def process(self, element: tuple[PieceKey, pa.RecordBatch]) -> Iterable[Any]:
        """Emit the statistics of a piece for each window of its run, and counts."""
        key, batch = element
        for window, folded in self.fold.fold(key, [batch]):
            yield from outputs(self.fold.study, window, folded)
