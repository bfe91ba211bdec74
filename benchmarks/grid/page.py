"""The page of the grid: what is told of results."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence

from benchmarks.accuracy.trials import header, row
from benchmarks.grid.cells import Result
from benchmarks.grid.compare import BEYOND, Compared, geometric_mean
from benchmarks.grid.methods import AUTO, MECHANISMS
from benchmarks.pages import Table

#: Cells in which `auto`'s loss, relative to the best fixed method's, is above this are counted.
LIMIT = 1.20
WORST = 15
#: The page has the fixed methods whose losses, relative to others', are below this.
SHOWN = 1.4


def page(
    found: Sequence[Compared],
    results: Sequence[Result],
    others: Mapping[str, Sequence[Compared]] | None = None,
) -> Iterator[str | Table]:
    """The tables, line by line.

    Args:
        found: the cells to tell of.
        results: those of ``auto``, for its seconds.
        others: the cells by other losses, by the loss's name in tables.
    """
    relative = [one for one in found if not one.cell.drawn_from.apart]
    with_auto = [one for one in relative if AUTO.name in one.losses]
    told = f"{len(relative)} of them with relative losses"
    yield f"{len(found)} cells have results of all their methods, {told}."
    yield from _lacking(found)
    yield ""
    if with_auto:
        yield from _means(with_auto)
        yield from _others(others or {})
        yield from _worst(with_auto)
        yield from _fixed(with_auto, AUTO.name, "grid_fixed")
        yield from _seconds(results)
    yield from _fixed(relative, "", "grid_fixed_by_best")
    yield from _apart([one for one in found if one.cell.drawn_from.apart])


def _lacking(found: Sequence[Compared]) -> Iterator[str]:
    """Which mechanisms have no cells of a number of people."""
    have = {(one.cell.mechanism, one.cell.people) for one in found}
    for people in sorted({people for _, people in have}):
        lacking = [name for name in MECHANISMS if (name, people) not in have]
        if lacking:
            yield f"There are no cells of {people:,} people for {', '.join(lacking)}."


def both_halves(found: Sequence[Compared]) -> Iterator[str | Table]:
    """The tables of all cells of both halves, line by line."""
    relative = _relative(found)
    yield "# Both halves"
    yield ""
    yield "The populations of the page's half, and those that `auto` was tuned on."
    yield ""
    yield from _means(relative)
    yield from _fixed(relative, AUTO.name, "grid_fixed_both_halves")


def _means(found: Sequence[Compared]) -> Iterator[str]:
    yield "## `auto`, relative to the best fixed method of each cell"
    yield ""
    names = ["", "cells", "seeds", "geometric mean", "median", f"cells above {LIMIT:.2f}", "beyond noise"]
    yield from header(names)
    for name, chosen in _groups(found):
        if not chosen:
            continue
        ratios = [one.relative(AUTO.name) for one in chosen]
        beyond = [one for one in chosen if one.relative(AUTO.name) - BEYOND * one.error(AUTO.name) > LIMIT]
        above = sum(ratio > LIMIT for ratio in ratios)
        median = statistics.median(ratios)
        mean = f"{geometric_mean(ratios):.3f}"
        yield row([name, len(chosen), _seeds(chosen), mean, f"{median:.3f}", above, len(beyond)])
    yield ""


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


def _others(losses: Mapping[str, Sequence[Compared]]) -> Iterator[str | Table]:
    """`auto` by other losses than W1, each relative to the fixed method that is best by that loss."""
    if not any(losses.values()):
        return
    rows = []
    told = {name: dict(_groups(_relative(found))) for name, found in losses.items()}
    for group, cells in next(iter(told.values())).items():
        if cells:
            means = [geometric_mean(one.relative(AUTO.name) for one in own[group]) for own in told.values()]
            rows.append(row([group, len(cells), *(f"{mean:.3f}" for mean in means)]))
    yield from other_losses(list(losses), rows)


def other_losses(names: Sequence[str], rows: Sequence[str]) -> Iterator[str | Table]:
    """The section on other losses than W1, from its rows."""
    yield "## `auto` by other losses"
    yield ""
    yield "Geometric means over cells of numbers, relative to the fixed method that is best by the same"
    yield "loss. The file also has the cells of each number of people, epsilon and shape."
    yield ""
    lines = (*header(["cells of", "cells", *names]), *rows)
    yield Table("grid_other_losses", lines, lambda row: row["cells of"] in ("all", *MECHANISMS))
    yield ""


def _relative(found: Sequence[Compared]) -> list[Compared]:
    """The cells whose losses are told relative to another method's, and that have ``auto``."""
    return [one for one in found if not one.cell.drawn_from.apart and AUTO.name in one.losses]


def _seeds(found: Sequence[Compared]) -> str:
    """The least and the largest number of seeds of a cell."""
    numbers = [len(one.losses[AUTO.name]) for one in found]
    return f"{min(numbers)} to {max(numbers)}" if min(numbers) < max(numbers) else str(numbers[0])


def _worst(found: Sequence[Compared]) -> Iterator[str]:
    yield f"## The {WORST} worst cells of `auto`"
    yield ""
    yield "Relative loss with its standard error over seeds, in pairs with the best fixed method."
    yield ""
    yield from header(
        ["mechanism", "population", "epsilon", "n", "seeds", "relative loss", "loss", "best fixed method"]
    )
    for one in sorted(found, key=lambda one: -one.relative(AUTO.name))[:WORST]:
        cell = one.cell
        told = f"{one.relative(AUTO.name):.2f} ± {one.error(AUTO.name):.2f}"
        loss = f"{one.losses[AUTO.name].mean():.3g}"
        seeds = _seeds([one])
        people = f"{cell.people:,}"
        yield row([cell.mechanism, cell.population, cell.epsilon, people, seeds, told, loss, one.best])
    yield ""


def _fixed(found: Sequence[Compared], base: str, name: str) -> Iterator[str | Table]:
    """Fixed methods relative to ``base``, or to each cell's best one if ``base`` is empty."""
    told = f"`{base}`" if base else "the best fixed method of each cell"
    yield f"## Fixed methods, relative to {told}"
    yield ""
    yield "Geometric means over the cells that a method has, of all mechanisms and of each. The page has"
    yield f"the methods below {SHOWN:g}."
    yield ""
    names = list(dict.fromkeys(name for one in found for name in one.losses if name != AUTO.name))
    rows = []
    for name in names:
        ratios = {
            mechanism: [
                one.relative(name) / (one.relative(base) if base else 1.0)
                for one in found
                if name in one.losses and one.cell.mechanism == mechanism
            ]
            for mechanism in MECHANISMS
        }
        whole = geometric_mean(ratio for own in ratios.values() for ratio in own)
        each = [f"{geometric_mean(own):.3f}" if own else "" for own in ratios.values()]
        rows.append((whole, row([name, f"{whole:.3f}", *each])))
    yield fixed(name, [line for _, line in sorted(rows)])
    yield ""


def fixed(name: str, rows: Sequence[str]) -> Table:
    """All methods; the page has those of the least losses."""
    lines = (*header(["method", "all its cells", *MECHANISMS]), *rows)
    return Table(name, lines, lambda row: float(row["all its cells"]) < SHOWN)


def _seconds(results: Sequence[Result]) -> Iterator[str]:
    yield "## Seconds of CPU of `auto`"
    yield ""
    yield from header(["mechanism", "median", "largest"])
    for name in ("all", *MECHANISMS):
        took = [result.seconds for result in results if name in ("all", result.mechanism)]
        if took:
            yield row([name, f"{statistics.median(took):.3f}", f"{max(took):.2f}"])
    yield ""


def _apart(found: Sequence[Compared]) -> Iterator[str | Table]:
    rows = []
    for one in found:
        cell = one.cell
        own = f"{one.losses[AUTO.name].mean():.3g}" if AUTO.name in one.losses else ""
        least = f"{one.losses[one.best].mean():.3g}"
        cells = [cell.mechanism, cell.population, cell.epsilon, f"{cell.people:,}", own, least, one.best]
        rows.append(row(cells))
    yield from apart(rows)


def apart(rows: Sequence[str]) -> Iterator[str | Table]:
    """The section on populations of which losses have no ratio, from its rows."""
    yield "## Uniform populations and point masses: losses as they are"
    yield ""
    yield "`which` is the fixed method of the least loss. The page has the cells in which the loss of"
    yield f"`auto` is more than {LIMIT:.2f} times that."
    yield ""
    names = header(["mechanism", "population", "epsilon", "n", "`auto`", "least of a fixed method", "which"])
    yield Table(
        "grid_apart",
        (*names, *rows),
        lambda row: float(row["`auto`"] or "nan") > LIMIT * float(row["least of a fixed method"]),
    )
    yield ""
