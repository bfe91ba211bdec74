"""The sums of the coverage's runs: added up in any order, kept in a file, and told."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.coverage import STEPPED, cells, run_strict, strict_cells, tables
from benchmarks.coverage_sums import Runs, Sums, read, write


def runs(held: float, many: int, *, flagged: bool = False) -> Runs:
    """So many runs of a mean, of which this share holds the truth."""
    sums = {"mean": Sums(many, held * many, held * many, 0.5 * many)}
    return Runs(many, 2.0, {} if flagged else sums, sums if flagged else {}, 1.25)


def test_runs_are_added_and_come_back_from_their_file(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    assert read(path) == {}
    total = Runs() + runs(1.0, 3) + runs(0.5, 2, flagged=True)
    assert total == Runs() + (runs(1.0, 3) + runs(0.5, 2, flagged=True))
    assert total.runs == 5 and total.clear["mean"].held == 3.0 and total.flagged["mean"].held == 1.0
    # The first run stays that of the first part.
    assert total.first == 1.25
    write(path, {"some cell": total})
    assert read(path) == {"some cell": total}


def test_strict_cells_have_values_with_a_step_of_which_most_intervals_hold_the_truth() -> None:
    """In a run of each domain: a place that is off by one value misses many of them."""
    of_steps = [cell for cell in strict_cells() if cell.n == 2_000 and " by " in cell.people]
    assert {cell.domain for cell in of_steps} == set(STEPPED.values())
    for cell in of_steps:
        found = run_strict(cell, 0).clear
        assert {kind: sums.held for kind, sums in found.items() if sums.held < 0.9} == {}
        # Parts of the range, whatever the unit is.
        assert 0.0 < found["quantiles"].width < 0.7


@pytest.mark.parametrize(
    ("of", "result"),
    [
        (runs(0.95, 400), "held"),
        (runs(0.91, 400), "unclear"),
        (runs(0.8, 400), "low"),
        (runs(1.0, 10_000), "high"),
        (runs(0.86, 400, flagged=True), "flagged"),
        (runs(0.5, 400, flagged=True), "flagged, low"),
        # A cell with fewer flags than half is of its other runs.
        (runs(0.95, 300) + runs(0.0, 100, flagged=True), "held"),
        (runs(1.0, 100) + runs(0.8, 300, flagged=True), "flagged"),
    ],
)
def test_a_cell_is_judged_by_the_share_that_holds(of: Runs, result: str) -> None:
    cell = next(cell for cell in cells() if cell.label == "SW")
    *_, table = tables({cell.name: of}, {})
    assert table.lines[-1].split(" | ")[-1].removesuffix(" |") == result
