"""Mixture reduction of categories: merging as published and pooled, and em, on the same reports."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from benchmarks.accuracy.trials import asked, collected, header, row, summary
from benchmarks.pages import Table
from ldpbeam import Categories, metrics
from ldpbeam.domains import Floats
from ldpbeam.estimators import estimate

CATEGORIES, SEEDS = 128, range(10)
EPSILONS, PEOPLE = (0.5, 1.0, 2.0), (5_000, 50_000)
EM, PUBLISHED, POOLED = "em", "mr, as published", "mr"
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    EM: ("em", {}),
    PUBLISHED: ("mr", {"strategy": "halving", "keep": 0.25}),
    POOLED: ("mr", {}),
}
#: A difference of this many standard errors is called one.
CLEAR = 2.0


def zipf(exponent: float) -> Floats:
    """Shares in proportion to 1 / rank^exponent."""
    weights = np.arange(1, CATEGORIES + 1) ** -exponent
    shares: Floats = weights / weights.sum()
    return shares


def few_and_many() -> Floats:
    """Four categories hold 65%; all others are equally rare."""
    return np.concatenate(([0.3, 0.2, 0.1, 0.05], np.full(CATEGORIES - 4, 0.35 / (CATEGORIES - 4))))


def geometric() -> Floats:
    """Each share is 0.97 of the one before."""
    weights = 0.97 ** np.arange(CATEGORIES)
    shares: Floats = weights / weights.sum()
    return shares


POPULATIONS = {
    "Zipf 1": zipf(1.0),
    "Zipf 2": zipf(2.0),
    "four and 124": few_and_many(),
    "geometric": geometric(),
}


def measured(shares: Floats, mechanism: str, epsilon: float, people: int, seeds: range) -> dict[str, Floats]:
    """MAE of each method against the sample's own shares, shape (seeds,)."""
    domain = Categories(tuple(map(str, range(CATEGORIES))))
    attribute = asked(domain, 1, {"one": (mechanism, epsilon, {})})
    found: dict[str, list[float]] = {name: [] for name in METHODS}
    for seed in seeds:
        rng = np.random.default_rng(seed)
        values = rng.choice(CATEGORIES, people, p=rng.permutation(shares))
        truth = domain.histogram(values) / people
        statistic = collected(attribute, values, rng)
        for name, (estimator, options) in METHODS.items():
            answer = estimate(estimator, attribute, statistic, ["one"], options)
            assert answer.distribution is not None
            found[name].append(metrics.mean_absolute_error(answer.distribution, truth))
    return {name: np.array(errors) for name, errors in found.items()}


def t_value(differences: Floats) -> float:
    """The mean over its standard error."""
    return float(differences.mean() / (differences.std(ddof=1) / np.sqrt(len(differences))))


def compared(cells: list[dict[str, Floats]], other: str) -> str:
    """The pooled strategy beside another method, over all rows, in a sentence."""
    ratios = np.array([errors[POOLED].mean() / errors[other].mean() for errors in cells])
    values = np.array([t_value(errors[POOLED] - errors[other]) for errors in cells])
    return (
        f"- mr over {other}: {np.exp(np.log(ratios).mean()):.2f} in the geometric mean of {len(cells)} rows, "
        f"from {ratios.min():.2f} to {ratios.max():.2f}; clearly better in {(values < -CLEAR).sum()}, "
        f"clearly worse in {(values > CLEAR).sum()}."
    )


def shown_rows(mechanism: str, lines: Iterable[str]) -> Table:
    """All rows of a mechanism; the page has those of epsilon 1."""
    name = f"accuracy_merging_{mechanism}"
    return Table(name, tuple(lines), lambda row: row["epsilon"] == "1.0", ("epsilon",))


def table(
    mechanism: str, epsilons: tuple[float, ...], people: tuple[int, ...], seeds: range
) -> Iterator[str | Table]:
    """The rows of a mechanism, and what they come to."""
    rows = header(["population", "epsilon", "n", *METHODS, f"mr - {EM}: t", "mr - as published: t"])
    cells = []
    for name, shares in POPULATIONS.items():
        for epsilon in epsilons:
            for many in people:
                errors = measured(shares, mechanism, epsilon, many, seeds)
                cells.append(errors)
                values = [t_value(errors[POOLED] - errors[other]) for other in (EM, PUBLISHED)]
                shown = [summary(own, ".3f", 1e3) for own in errors.values()]
                rows.append(row([name, epsilon, f"{many:,}", *shown, *(f"{value:+.1f}" for value in values)]))
    yield shown_rows(mechanism, rows)
    yield ""
    for other in (EM, PUBLISHED):
        yield compared(cells, other)


def tables() -> Iterator[str | Table]:
    """The section, line by line."""
    yield f"## Mixture reduction of categories: {CATEGORIES} categories, seeds 0 to {len(SEEDS) - 1}"
    yield ""
    yield "Mean absolute errors against the sample's own shares, times 10^3. `mr` merges as by default: it"
    yield "pools, down to 1% of the categories. As published is `strategy: halving` with `keep: 0.25`. The"
    yield f"t values are of paired differences: below -{CLEAR:g}, mr is clearly better. The page has epsilon"
    yield "1; the files also have epsilon 0.5 and 2."
    yield ""
    yield "### GRR"
    yield ""
    yield from table("grr", EPSILONS, PEOPLE, SEEDS)
    yield ""
    yield "### OUE, whose likelihood is composite: seeds 0 to 4"
    yield ""
    yield from table("oue", EPSILONS, PEOPLE, range(5))
