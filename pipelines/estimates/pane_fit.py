"""Whether the reports of each pane of a stream fit what the study claims of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ldpbeam.fit import flagged
from ldpbeam.fit.spending import Spending
from ldpbeam.pipelines.estimates.fit import tests_of_window, untested, write_tests
from ldpbeam.schemas.outputs.checked import read_record
from ldpbeam.schemas.outputs.records import Fit, FitEntry
from ldpbeam.schemas.outputs.snapshots import Snapshot
from ldpbeam.study import Study
from ldpbeam.transforms.outputs.names import window_name
from ldpbeam.transforms.storage import exists, join, make_folder, open_raw


def write_pane_tests(
    study: Study, folder: str, spending: Spending, snapshots: Sequence[Snapshot]
) -> list[FitEntry]:
    """Test the snapshots of a pane, write the tests of its window to a file, and return those of the pane.

    The file has the tests of the last pane, and those of earlier panes that were flagged: a later pane with
    more reports takes no warning back.

    Args:
        study: the study.
        folder: the folder of the run's tests.
        spending: the limits of the run.
        snapshots: those of one attribute and window.
    """
    first = snapshots[0]
    assert first.window is not None
    tests = list(tests_of_window(study, snapshots))
    if first.joined and study.windows is not None and study.windows.joined is not None:
        spending = replace(spending, windows=study.windows.cells(study.windows.joined))
    limit = spending.limit(first.window, first.pane_index)
    flags = flagged([test.p_value for test in tests], limit)
    path = join(folder, f"{window_name(study.name, first.attribute, first.window)}.json")
    tests = [
        replace(test, flagged=flag, pane_index=first.pane_index, limit=limit)
        for test, flag in zip(tests, flags, strict=True)
    ]
    make_folder(folder)
    write_tests(
        path, [*_flagged_before(path, first.pane_index), *tests], list(untested(study, [first.attribute]))
    )
    return tests


def _flagged_before(path: str, pane: int) -> list[FitEntry]:
    """The flagged tests that earlier panes of a window left."""
    if not exists(path):
        return []
    with open_raw(path) as stream:
        tests = read_record(Fit, stream.read()).tests
    return [test for test in tests if test.flagged and (test.pane_index or 0) < pane]
