"""Mixture reduction of a number: S-MN, its mean and distribution (the paper's sections VI-B and VI-D)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from benchmarks.accuracy.trials import asked, collected, header, row, summary
from benchmarks.pages import Table
from ldpbeam import Numeric, metrics
from ldpbeam.domains import Floats
from ldpbeam.estimators import estimate
from ldpbeam.trials.populations import two_normals

DOMAIN, BUCKETS = Numeric(-1.0, 1.0), 1024
EPSILONS = (0.5, 1.0, 2.0)
RUNS = {2_000: range(60), 100_000: range(10)}
MECHANISMS = {"PM": "piecewise", "SW": "square_wave"}
ESTIMATORS = {"unbiased": "ivw", "EMS": "ems", "MR": "mr"}
#: What the released code reaches, as measured for this project: MAE of the mean by people and epsilon.
RELEASED_MEAN = {
    (2_000, "PM", "unbiased"): (0.0845, 0.0424, 0.0199),
    (2_000, "PM", "EMS"): (0.0462, 0.0210, 0.0127),
    (2_000, "PM", "MR"): (0.0410, 0.0163, 0.0101),
    (2_000, "SW", "EMS"): (0.0558, 0.0282, 0.0193),
    (2_000, "SW", "MR"): (0.0465, 0.0228, 0.0131),
    (100_000, "PM", "unbiased"): (0.0119, 0.0051, 0.0020),
    (100_000, "PM", "EMS"): (0.0067, 0.0037, 0.0022),
    (100_000, "PM", "MR"): (0.0057, 0.0034, 0.0033),
    (100_000, "SW", "EMS"): (0.0145, 0.0063, 0.0030),
    (100_000, "SW", "MR"): (0.0103, 0.0057, 0.0026),
}
RELEASED_W1 = {
    (2_000, "PM", "EMS"): (0.0941, 0.0570, 0.0329),
    (2_000, "PM", "MR"): (0.0894, 0.0540, 0.0309),
    (2_000, "SW", "EMS"): (0.1026, 0.0581, 0.0352),
    (2_000, "SW", "MR"): (0.0942, 0.0528, 0.0299),
    (100_000, "PM", "EMS"): (0.0184, 0.0112, 0.0065),
    (100_000, "PM", "MR"): (0.0188, 0.0121, 0.0079),
    (100_000, "SW", "EMS"): (0.0265, 0.0116, 0.0060),
    (100_000, "SW", "MR"): (0.0237, 0.0119, 0.0061),
}
MEAN, W1 = 0, 1

#: (mechanism, epsilon, estimator) to the errors of mean and distribution, shape (seeds, 2).
Errors = dict[tuple[str, float, str], Floats]


def measured(people: int) -> Errors:
    """Errors against the sample itself, all estimators of a mechanism on the same reports."""
    services: dict[str, tuple[str, float, dict[str, Any]]] = {
        f"{name} {epsilon}": (kind, epsilon, {}) for name, kind in MECHANISMS.items() for epsilon in EPSILONS
    }
    attribute = asked(DOMAIN, BUCKETS, services)
    keys = [(name, epsilon, shown) for name in MECHANISMS for epsilon in EPSILONS for shown in ESTIMATORS]
    found: dict[tuple[str, float, str], list[list[float]]] = {key: [] for key in keys}
    for seed in RUNS[people]:
        rng = np.random.default_rng(seed)
        x = two_normals(people, rng)
        values = DOMAIN.from_unit(x)
        truth, mean = DOMAIN.histogram(values, BUCKETS) / people, float(values.mean())
        statistic = collected(attribute, x, rng)
        for name, epsilon, shown in keys:
            answer = estimate(ESTIMATORS[shown], attribute, statistic, [f"{name} {epsilon}"])
            assert answer.mean is not None
            distance = np.nan
            if answer.distribution is not None:
                distance = metrics.wasserstein(answer.distribution, truth, DOMAIN.width)
            found[name, epsilon, shown].append([abs(answer.mean - mean), distance])
    return {key: np.array(own) for key, own in found.items()}


def shown_rows(people: int, lines: Iterable[str]) -> Table:
    """All rows of a number of people; the page has those of epsilon 1."""
    name = f"accuracy_reduction_{people}"
    return Table(name, tuple(lines), lambda row: row["epsilon"] == "1.0", ("epsilon",))


def table(people: int, errors: Errors) -> Table:
    """A row an estimator."""
    columns = ["MAE of the mean", "released code: MAE", "W1", "released code: W1"]
    paired = ["MR - EMS: MAE", "MR - EMS: W1"]
    rows = header(["mechanism", "epsilon", "estimator", *columns, *paired])
    for (name, epsilon, shown), own in errors.items():
        place = EPSILONS.index(epsilon)
        released = [
            f"{known[people, name, shown][place]:.4f}" if (people, name, shown) in known else "-"
            for known in (RELEASED_MEAN, RELEASED_W1)
        ]
        distance = "-" if shown == "unbiased" else summary(own[:, W1], ".4f")
        gains = ["", ""]
        if shown == "MR":
            less = own - errors[name, epsilon, "EMS"]
            gains = [summary(less[:, measure], "z.4f") for measure in (MEAN, W1)]
        cells = [summary(own[:, MEAN], ".4f"), released[0], distance, released[1], *gains]
        rows.append(row([name, epsilon, shown, *cells]))
    return shown_rows(people, rows)


def ratios(errors: Errors, name: str, one: str, other: str, measure: int) -> list[float]:
    """Of the mean errors of two estimators, by epsilon."""
    return [
        float(errors[name, e, one][:, measure].mean() / errors[name, e, other][:, measure].mean())
        for e in EPSILONS
    ]


def released_ratios(people: int, name: str, one: str, other: str, measure: int) -> list[float]:
    """The released code's."""
    known = (RELEASED_MEAN, RELEASED_W1)[measure]
    return [a / b for a, b in zip(known[people, name, one], known[people, name, other], strict=True)]


def joined(values: list[float]) -> str:
    """Numbers of a sentence."""
    return " / ".join(f"{value:.2f}" for value in values)


def differences(errors: Errors, measure: int) -> Floats:
    """MR - EMS of every mechanism and epsilon: (mean, standard error), shape (rows, 2)."""
    found = []
    for name in MECHANISMS:
        for epsilon in EPSILONS:
            less = (errors[name, epsilon, "MR"] - errors[name, epsilon, "EMS"])[:, measure]
            found.append([less.mean(), less.std(ddof=1) / np.sqrt(len(less))])
    return np.array(found)


def sentences(people: int, errors: Errors) -> Iterator[str]:
    """What reproduces and what does not."""
    rows = len(MECHANISMS) * len(EPSILONS)
    for name in MECHANISMS:
        mean, distance = (
            f"{joined(ratios(errors, name, 'MR', 'EMS', measure))} "
            f"(released code {joined(released_ratios(people, name, 'MR', 'EMS', measure))})"
            for measure in (MEAN, W1)
        )
        yield f"- {name}: MR's error over EMS's by epsilon: mean {mean}; W1 {distance}."
    for measure, what in ((MEAN, "mean"), (W1, "W1")):
        less, deviation = differences(errors, measure).T
        better, worse = ((sign * less > 2.0 * deviation).sum() for sign in (-1.0, 1.0))
        yield f"- {what}: MR is better than EMS by more than two standard errors in {better} of {rows} rows,"
        yield f"  and worse in {worse}; MR - EMS is from {less.min():z.4f} to {less.max():z.4f}."
    cuts = [1.0 - value for value in ratios(errors, "PM", "MR", "unbiased", MEAN)]
    before = [1.0 - value for value in ratios(errors, "PM", "EMS", "unbiased", MEAN)]
    released = [1.0 - value for value in released_ratios(people, "PM", "MR", "unbiased", MEAN)]
    verdict = "reached" if max(cuts) >= 0.7 else "not reached"
    yield "- PM-MR cuts the mean's error against unbiased PM by the shares"
    yield f"  {joined(cuts)} (released code {joined(released)}; EMS alone {joined(before)}):"
    yield f"  the paper's 0.70 (VI-B) is {verdict} here."


def tables() -> Iterator[str | Table]:
    """The section, line by line."""
    yield f"## Mixture reduction of a number: S-MN, {BUCKETS} buckets"
    yield ""
    yield "0.6 N(0.7, 0.2^2) + 0.4 N(0.2, 0.1^2) clipped to [-1, 1]. Errors against the sample itself, on"
    yield "[-1, 1]; unbiased is `ivw`. The last columns are differences on the same reports: below zero, MR"
    yield "is better. The released code has its own draws. The page has epsilon 1; the files also have"
    yield "epsilon 0.5 and 2."
    for people, seeds in RUNS.items():
        errors = measured(people)
        yield ""
        yield f"### n = {people:,}, seeds 0 to {len(seeds) - 1}"
        yield ""
        yield table(people, errors)
        yield ""
        yield from sentences(people, errors)
