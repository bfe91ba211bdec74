"""Numbers by categories: binning and hierarchies beside the square wave (square-wave paper, section 6)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from benchmarks.accuracy.trials import asked, collected, header, row, summary
from benchmarks.pages import Table
from ldpbeam import Numeric, metrics
from ldpbeam.domains import Floats
from ldpbeam.estimators import estimate
from ldpbeam.estimators.question import distribution_moments
from ldpbeam.trials.populations import beta, spiky

USERS, BUCKETS, SEEDS = 100_000, 256, range(20)
SERVICES = {
    "bins16": ("binned", {"bins": 16}),
    "bins32": ("binned", {"bins": 32}),
    "bins64": ("binned", {"bins": 64}),
    "tree": ("hierarchy", {"branching": 4, "leaves": BUCKETS}),
    "haar": ("haar", {"leaves": BUCKETS}),
    "wave": ("square_wave", {}),
}
METHODS = {
    "SW-EMS": ("ems", "wave"),
    "SW-EM": ("em", "wave"),
    "HH-ADMM": ("admm", "tree"),
    "HH": ("inversion", "tree"),
    "HaarHRR": ("inversion", "haar"),
    "CFO, 16 bins": ("norm_sub", "bins16"),
    "CFO, 32 bins": ("norm_sub", "bins32"),
    "CFO, 64 bins": ("norm_sub", "bins64"),
    "uniform guess": ("", ""),
}
SHOWN = ("SW-EMS", "SW-EM", "HH-ADMM", "HH", "HaarHRR", "CFO, 16 bins")
QUANTILES = tuple(np.arange(1, 10) / 10)
MEASURES = ("W1", "KS", "range 0.1", "range 0.4", "mean", "variance", "quantiles")
POPULATIONS: dict[str, Callable[[int, np.random.Generator], Floats]] = {
    "Beta(5, 2)": lambda people, rng: beta(5, 2, people, rng),
    "spiky": spiky,
}


def measured(found: Floats, values: Floats) -> list[float]:
    """Each measure's error on the unit interval, against the sample itself (section 3.2)."""
    domain = Numeric(0.0, 1.0)
    edges = domain.edges(BUCKETS)
    truth = domain.histogram(values, BUCKETS) / len(values)
    mean, variance = distribution_moments(domain, found)
    assert mean is not None and variance is not None
    return [
        metrics.wasserstein(found, truth),
        metrics.kolmogorov_smirnov(found, truth),
        *(range_error(found, truth, edges, width) for width in (0.1, 0.4)),
        abs(mean - float(values.mean())),
        abs(variance - float(values.var())),
        float(np.abs(metrics.quantiles(found, edges, QUANTILES) - np.quantile(values, QUANTILES)).mean()),
    ]


def range_error(found: Floats, truth: Floats, edges: Floats, width: float) -> float:
    """The mean absolute error of the shares of 200 ranges of one width, evenly placed."""
    starts: NDArray[np.float64] = np.linspace(0.0, 1.0 - width, 200)
    gaps = np.concatenate(([0.0], np.cumsum(found - truth)))
    return float(np.abs(np.interp(starts + width, edges, gaps) - np.interp(starts, edges, gaps)).mean())


def errors_of(population: str, epsilon: float) -> dict[str, NDArray[np.float64]]:
    """Errors by method, shape (seeds, measures), on the same people; of one service on the same reports."""
    attribute = asked(
        Numeric(0.0, 1.0), BUCKETS, {name: (kind, epsilon, own) for name, (kind, own) in SERVICES.items()}
    )
    errors: dict[str, list[list[float]]] = {name: [] for name in METHODS}
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        values = POPULATIONS[population](USERS, rng)
        statistic = collected(attribute, values, rng)
        for name, (estimator, service) in METHODS.items():
            found = np.full(BUCKETS, 1.0 / BUCKETS)
            if estimator:
                answer = estimate(estimator, attribute, statistic, [service]).distribution
                assert answer is not None
                found = answer
            errors[name].append(measured(found, values))
    return {name: np.array(found) for name, found in errors.items()}


def best(errors: dict[str, NDArray[np.float64]], measure: int) -> str:
    """The method of least error, and those within two standard errors of it, in pairs."""
    means = {name: found[:, measure].mean() for name, found in errors.items()}
    first = min(means, key=lambda name: means[name])
    close = []
    for name, found in errors.items():
        gap = found[:, measure] - errors[first][:, measure]
        if name != first and gap.mean() < 2.0 * gap.std(ddof=1) / np.sqrt(len(gap)):
            close.append(name)
    return first + (f" (or {', '.join(close)})" if close else "")


def table(lines: Iterable[str]) -> Table:
    """All rows; the page has the better methods at epsilon 1."""
    return Table(
        "accuracy_numbers",
        tuple(lines),
        lambda row: row["epsilon"] == "1.0" and row["method"] in SHOWN,
        ("epsilon", "range 0.4"),
    )


def tables() -> Iterator[str | Table]:
    """The section, line by line."""
    yield f"## Numbers by categories: n = {USERS:,}, {BUCKETS} buckets, seeds 0 to {len(SEEDS) - 1}"
    yield ""
    yield "All errors are absolute, on the unit interval, times 10^4. A range's error is the mean over 200"
    yield "ranges of its width, and that of quantiles the mean over the nine deciles. The spiky population"
    yield "is log-normal incomes, of which six in ten are rounded to multiples of 1/64, 1/32 or 1/16. The"
    yield "page has epsilon 1; the file also has epsilon 0.5 and 2, more bins, and a guess that reads no"
    yield "report."
    yield ""
    rows = header(["population", "epsilon", "method", *MEASURES])
    leaders = []
    for population in POPULATIONS:
        for epsilon in (0.5, 1.0, 2.0):
            errors = errors_of(population, epsilon)
            for name, found in errors.items():
                cells = [summary(column, ".1f", 1e4) for column in found.T]
                rows.append(row([population, epsilon, name, *cells]))
            own = [best(errors, measure) for measure in range(len(MEASURES))]
            leaders.append(row([population, epsilon, *own]))
    yield table(rows)
    yield ""
    yield "The next table has the best method by each measure, and in brackets those within two standard"
    yield "errors of it, in pairs. The paper says (section 6) that SW-EMS is best on smooth populations by"
    yield "every measure, and HH-ADMM on incomes with spikes, by measures that see spikes."
    yield ""
    yield from header(["population", "epsilon", *MEASURES])
    yield from leaders
