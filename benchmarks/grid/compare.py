"""What results say: losses relative to the best fixed method of each cell, and their standard errors."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from benchmarks.grid.cells import Cell, Result
from benchmarks.grid.methods import AUTO

#: A cell is beyond noise if it is beyond the limit by more than this many standard errors.
BEYOND = 2.0


@dataclass(frozen=True)
class Compared:
    """One cell, on the seeds that all of its methods have.

    Attributes:
        cell: the cell.
        losses: of each method by seed, shape (seeds,).
        best: the fixed method whose mean loss is the least; which it is takes the truth to know.
    """

    cell: Cell
    losses: Mapping[str, np.ndarray]
    best: str

    def relative(self, method: str) -> float:
        """The method's mean loss, relative to the best fixed one's."""
        return float(self.losses[method].mean() / self.losses[self.best].mean())

    def error(self, method: str) -> float:
        """The standard error of :meth:`relative` over seeds, in pairs; NaN for one seed."""
        if len(self.losses[method]) < 2:
            return math.nan
        apart = self.losses[method] - self.relative(method) * self.losses[self.best]
        return float(apart.std(ddof=1) / math.sqrt(len(apart)) / self.losses[self.best].mean())


def compared(
    results: Iterable[Result], named: Mapping[Cell, tuple[str, ...]], by: str = "loss"
) -> list[Compared]:
    """The cells that have a seed with results of all methods that are named for them.

    Args:
        results: of the methods' present versions.
        named: the names of each cell's methods; ``auto`` may be missing.
        by: the name of the loss; a cell that lacks it is left out.
    """
    by_cell: dict[Cell, dict[str, dict[int, float | None]]] = {}
    for result in results:
        by_cell.setdefault(result.cell, {}).setdefault(result.method, {})[result.seed] = getattr(result, by)
    found = []
    for cell, methods in named.items():
        have = by_cell.get(cell, {})
        seeds = set.intersection(*(set(have.get(method, ())) for method in methods))
        if not seeds:
            continue
        losses = {
            method: np.array([have[method][seed] for seed in sorted(seeds)], dtype=np.float64)
            for method in methods
        }
        if any(np.isnan(own).any() for own in losses.values()):
            continue
        fixed = [method for method in methods if method != AUTO.name]
        found.append(Compared(cell, losses, min(fixed, key=lambda method: losses[method].mean())))
    return found


def geometric_mean(values: Iterable[float]) -> float:
    """The geometric mean; NaN of nothing."""
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs)) if logs else math.nan
