"""Whether the reports of each pane of a stream fit what the study claims of them."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

import apache_beam as beam

from ldpbeam.answers.child import limit_blas
from ldpbeam.fit import flagged
from ldpbeam.fit.spending import Spending
from ldpbeam.pipelines.estimates.fit import misfit_sentence, tests_of_window, untested, write_tests
from ldpbeam.schemas.outputs.checked import read_record
from ldpbeam.schemas.outputs.records import Fit, FitEntry
from ldpbeam.schemas.outputs.snapshots import Snapshot
from ldpbeam.study import Study
from ldpbeam.transforms.outputs.names import window_name
from ldpbeam.transforms.storage import exists, join, make_folder, open_raw
from ldpbeam.untrusted import shown

#: The logger of the lines on panes.
_PANES = logging.getLogger("ldpbeam.panes")


@dataclass(eq=False)
class PaneFit(beam.DoFn):
    """Test (attribute, snapshots of one pane), and write the tests of its window to a file.

    The file has the tests of the last pane, and those of earlier panes that were flagged: a later pane with
    more reports takes no warning back.

    Attributes:
        study: the study.
        folder: the folder of the run's tests.
        spending: the limits of the run.
    """

    study: Study
    folder: str
    spending: Spending

    def setup(self) -> None:
        """Compute on one core, as estimates do."""
        limit_blas()

    def process(self, element: tuple[str, list[Snapshot]]) -> None:
        """Write the tests of a pane, and log a warning for each that is flagged."""
        name, snapshots = element
        first = snapshots[0]
        assert first.window is not None
        tests = list(tests_of_window(self.study, snapshots))
        spending, windows = self.spending, self.study.windows
        if first.joined and windows is not None and windows.joined is not None:
            spending = replace(spending, windows=windows.cells(windows.joined))
        limit = spending.limit(first.window, first.pane_index)
        flags = flagged([test.p_value for test in tests], limit)
        path = join(self.folder, f"{window_name(self.study.name, name, first.window)}.json")
        tests = [
            replace(test, flagged=flag, pane_index=first.pane_index, limit=limit)
            for test, flag in zip(tests, flags, strict=True)
        ]
        make_folder(self.folder)
        write_tests(
            path, [*_flagged_before(path, first.pane_index), *tests], list(untested(self.study, [name]))
        )
        for test in tests:
            if test.flagged:
                _PANES.warning("ldpbeam: warning: %s", shown(misfit_sentence(self.study, test)))


def _flagged_before(path: str, pane: int) -> list[FitEntry]:
    """The flagged tests that earlier panes of a window left."""
    if not exists(path):
        return []
    with open_raw(path) as stream:
        tests = read_record(Fit, stream.read()).tests
    return [test for test in tests if test.flagged and (test.pane_index or 0) < pane]
