"""The runs of the coverage and of the sweep: what holds the truth, and the tables of them."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import sweep
from benchmarks.coverage import ALL, STEPPED, cells, rows, run
from ldpbeam.certainty import CERTAIN


def test_cells_have_values_with_a_step_of_which_most_intervals_hold_the_truth() -> None:
    """In a run of each domain: a place that is off by one value misses many of them."""
    of_steps = [cell for cell in cells() if cell.n == 2_000 and cell.people in STEPPED and cell.label == "SW"]
    assert {cell.people for cell in of_steps} == set(STEPPED)
    for cell in of_steps:
        found = run(cell, 0, strict=True)
        certain = {name: held for (name, condition), (held, _) in found.items() if condition == CERTAIN}
        assert {"quantiles", "ranges", "cdf", "distribution", ALL} <= set(certain)
        assert min(certain[name] for name in ("quantiles", "ranges", "cdf")) >= 0.9
        # Parts of the range, whatever the unit is.
        assert 0.0 < found["quantiles", CERTAIN][1] < 0.8


def test_a_row_has_the_share_that_holds_of_all_people_and_of_the_worst() -> None:
    few, many = (next(cell for cell in cells() if cell.people == people) for people in ("gap", "smooth"))
    key = ("quantiles", CERTAIN)
    results = {few: {key: [(0.5, 0.1)]}, many: {key: [(1.0, 0.2)] * 3}}
    assert list(rows(results)) == [
        ["any value", "quantiles", "certain", 4, "0.875 ± 0.108", "gap", "0.500 ± 0.000", "0.2"]
    ]


def test_a_study_of_the_sweep_is_made_again_by_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep, "PEOPLE", (300,))
    # Keys, groups of categories, and joined services of numbers.
    for number in (0, 1, 5):
        row, again = (sweep.study_of(number, 1) for _ in range(2))
        assert row == again and np.mean([share for share, _ in row["held"].values()]) > 0.5


def test_the_sweep_names_the_worst_study_of_each_kind() -> None:
    found = [{"number": 7, "held": {"ranges certain": [0.5, 20]}}, {"number": 8, "refused": "no"}]
    found += [{"number": 9, "held": {"ranges certain": [1.0, 20], "mean certain": [0.5, 8]}}]
    kinds = {row[0]: row for row in sweep.kinds(found)}
    assert kinds["ranges"] == ["ranges", "certain", 2, 40, "0.750", 1, 7, "0.500"]
    # Eight intervals say nothing of one study.
    assert [sweep.too_low(row) for row in found] == [["ranges certain"], [], []]
    assert kinds["mean"][5] == 0 and kinds["mean"][4] == "0.500"
