"""The tables of the grid, from its results."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence

from benchmarks.grid.cells import Result
from benchmarks.grid.compare import BEYOND, Compared, geometric_mean
from benchmarks.grid.methods import AUTO, MECHANISMS
from benchmarks.pages import Table, table

#: Cells in which `auto`'s loss, relative to the best fixed method's, is above this are counted.
LIMIT = 1.20
WORST = 15


def tables(
    found: Sequence[Compared],
    results: Sequence[Result],
    others: Mapping[str, Sequence[Compared]] | None = None,
) -> Iterator[Table]:
    """The tables.

    Args:
        found: the cells to tell of.
        results: those of ``auto``, for its seconds.
        others: the cells by other losses, by the loss's name in tables.
    """
    relative = [one for one in found if not one.cell.drawn_from.apart]
    with_auto = [one for one in relative if AUTO.name in one.losses]
    if with_auto:
        yield _means(with_auto)
        yield from _others(others or {})
        yield _worst(with_auto)
        yield _fixed(with_auto, AUTO.name, "grid_fixed")
        yield _seconds(results)
    yield _fixed(relative, "", "grid_fixed_by_best")
    yield _apart([one for one in found if one.cell.drawn_from.apart])


def _means(found: Sequence[Compared]) -> Table:
    """`auto` relative to the best fixed method of each cell."""
    rows = []
    for name, chosen in _groups(found):
        if not chosen:
            continue
        ratios = [one.relative(AUTO.name) for one in chosen]
        beyond = [one for one in chosen if one.relative(AUTO.name) - BEYOND * one.error(AUTO.name) > LIMIT]
        above = sum(ratio > LIMIT for ratio in ratios)
        mean, median = f"{geometric_mean(ratios):.3f}", f"{statistics.median(ratios):.3f}"
        rows.append([name, len(chosen), _seeds(chosen), mean, median, above, len(beyond)])
    names = ["cells of", "cells", "seeds", "geometric mean", "median", f"cells above {LIMIT:.2f}"]
    return table("grid_auto", [*names, "beyond noise"], rows)


def _groups(found: Sequence[Compared]) -> list[tuple[str, list[Compared]]]:
    """All cells, and those of each mechanism, number of people, epsilon and shape."""
    groups = [("all", list(found))]
    groups += [(name, [one for one in found if one.cell.mechanism == name]) for name in MECHANISMS]
    for number in sorted({one.cell.people for one in found}):
        groups.append((f"n = {number:,}", [one for one in found if one.cell.people == number]))
    for epsilon in sorted({one.cell.epsilon for one in found}):
        groups.append((f"epsilon {epsilon:g}", [one for one in found if one.cell.epsilon == epsilon]))
    shapes = dict.fromkeys(one.cell.population.partition(":")[0] for one in found)
    for shape in shapes:
        groups.append((shape, [one for one in found if one.cell.population.startswith(f"{shape}:")]))
    return groups


def _others(losses: Mapping[str, Sequence[Compared]]) -> Iterator[Table]:
    """`auto` by losses other than W1 and MAE, each relative to the fixed method that is best by that loss."""
    if not any(losses.values()):
        return
    rows = []
    groups = [dict(_groups(_relative(found))) for found in losses.values()]
    for group in dict.fromkeys(group for own in groups for group in own):
        cells = [own.get(group, []) for own in groups]
        if many := max(map(len, cells)):
            means = [geometric_mean(one.relative(AUTO.name) for one in of_loss) for of_loss in cells]
            rows.append([group, many, *("" if math.isnan(mean) else f"{mean:.3f}" for mean in means)])
    yield table("grid_other_losses", ["cells of", "cells", *losses], rows)


def _relative(found: Sequence[Compared]) -> list[Compared]:
    """The cells whose losses are relative to another method's, and that have ``auto``."""
    return [one for one in found if not one.cell.drawn_from.apart and AUTO.name in one.losses]


def _seeds(found: Sequence[Compared]) -> str:
    """The least and the largest number of seeds of a cell."""
    numbers = [len(one.losses[AUTO.name]) for one in found]
    return f"{min(numbers)} to {max(numbers)}" if min(numbers) < max(numbers) else str(numbers[0])


def _worst(found: Sequence[Compared]) -> Table:
    """The cells with the largest relative loss of `auto`, in pairs with the best fixed method."""
    rows = []
    for one in sorted(found, key=lambda one: -one.relative(AUTO.name))[:WORST]:
        cell = one.cell
        relative = f"{one.relative(AUTO.name):.2f} ± {one.error(AUTO.name):.2f}"
        loss = f"{one.losses[AUTO.name].mean():.3g}"
        people, seeds = f"{cell.people:,}", _seeds([one])
        rows.append([cell.mechanism, cell.population, cell.epsilon, people, seeds, relative, loss, one.best])
    names = ["mechanism", "population", "epsilon", "n", "seeds", "relative loss", "loss", "best fixed method"]
    return table("grid_worst", names, rows)


def _fixed(found: Sequence[Compared], base: str, name: str) -> Table:
    """Fixed methods relative to ``base``, or to each cell's best one if ``base`` is empty, the best first."""
    rows = []
    for method in dict.fromkeys(name for one in found for name in one.losses if name != AUTO.name):
        ratios = {
            mechanism: [
                one.relative(method) / (one.relative(base) if base else 1.0)
                for one in found
                if method in one.losses and one.cell.mechanism == mechanism
            ]
            for mechanism in MECHANISMS
        }
        whole = geometric_mean(ratio for own in ratios.values() for ratio in own)
        each = [f"{geometric_mean(own):.3f}" if own else "" for own in ratios.values()]
        rows.append((whole, [method, f"{whole:.3f}", *each]))
    return table(name, ["method", "all its cells", *MECHANISMS], [cells for _, cells in sorted(rows)])


def _seconds(results: Sequence[Result]) -> Table:
    """Seconds of CPU of `auto`."""
    rows = []
    for name in ("all", *MECHANISMS):
        took = [result.seconds for result in results if name in ("all", result.mechanism)]
        if took:
            rows.append([name, f"{statistics.median(took):.3f}", f"{max(took):.2f}"])
    return table("grid_seconds", ["mechanism", "median", "largest"], rows)


def _apart(found: Sequence[Compared]) -> Table:
    """Uniform populations and point masses, whose losses have no ratio."""
    rows = []
    for one in found:
        cell = one.cell
        own = f"{one.losses[AUTO.name].mean():.3g}" if AUTO.name in one.losses else ""
        least = f"{one.losses[one.best].mean():.3g}"
        rows.append([cell.mechanism, cell.population, cell.epsilon, f"{cell.people:,}", own, least, one.best])
    names = ["mechanism", "population", "epsilon", "n", "`auto`", "least of a fixed method", "which"]
    return table("grid_apart", names, rows)
