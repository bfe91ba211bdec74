"""Several services: ULE's distribution and the means, at the multi-service paper's settings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from benchmarks.accuracy.trials import summary
from benchmarks.pages import Table
from ldpbeam import Answers, Attribute, Numeric, ServiceVersion, Statistic, metrics, tally
from ldpbeam.domains import Floats
from ldpbeam.estimators import estimate
from ldpbeam.mechanisms import Laplace, NumericMechanism, Piecewise, SquareWave, StochasticRounding

#: What the released code reaches, as measured for this project: (sqrt-JS, W1) by epsilons and row.
RELEASED_DISTRIBUTION = {
    (0.3, 0.3, 0.3): {"PM, EMS": (0.117, 0.0172), "SW, EMS": (0.105, 0.0132), "ULE, EMS": (0.103, 0.0106)},
    (0.1, 0.2, 0.3): {"PM, EMS": (0.133, 0.0253), "SW, EMS": (0.105, 0.0132), "ULE, EMS": (0.104, 0.0117)},
}
#: MSE of the mean on [-1, 1] by (UA, UWA, fixed inverse-variance weights).
RELEASED_MEAN = {
    (0.1, 0.1, 0.1, 0.1): (1.67e-3, 1.50e-3, 1.50e-3),
    (0.3, 0.3, 0.3, 0.3): (1.91e-4, 1.75e-4, 1.75e-4),
    (0.6, 0.6, 0.6, 0.6): (4.65e-5, 4.21e-5, 4.22e-5),
    (0.2, 0.4, 0.1, 0.3): (5.51e-4, 2.30e-4, 2.30e-4),
}
USERS = 100_000


def collect(
    mechanisms: Sequence[NumericMechanism], buckets: int, joint_buckets: int, seed: int
) -> tuple[Floats, Attribute, Statistic]:
    """Beta(2,5) values on [-1, 1], and the statistic of one report of each to every mechanism."""
    rng = np.random.default_rng(seed)
    x = rng.beta(2, 5, USERS)
    versions = tuple(ServiceVersion(m.name, "", m) for m in mechanisms)
    names = tuple(version.service for version in versions)
    attribute = Attribute("value", Numeric(-1, 1), buckets, versions, names, joint_buckets)
    rows = np.arange(USERS)
    answers = [Answers(i, rows, m.perturb(x, rng)) for i, m in enumerate(mechanisms)]
    return x, attribute, tally(attribute, USERS, answers)


def distribution_rows(epsilons: tuple[float, float, float], seeds: range) -> Iterator[str]:
    """The distribution from SR, PM and SW services: JS and W1 against the sample's own histogram."""
    asked: dict[str, tuple[str, tuple[str, ...], dict[str, bool]]] = {
        "PM, EMS": ("ems", ("piecewise",), {}),
        "SW, EMS": ("ems", ("square_wave",), {}),
        "ULE, EMS": ("ule", (), {}),
        "ULE, plain EM": ("ule", (), {"smooth": False}),
    }
    found: dict[str, list[tuple[float, float, int]]] = {name: [] for name in asked}
    for seed in seeds:
        sr, pm, sw = epsilons
        mechanisms = [StochasticRounding(sr), Piecewise(pm), SquareWave(sw)]
        x, attribute, statistic = collect(mechanisms, 1024, 256, seed)
        truth = np.bincount((x * 1024).astype(int), minlength=1024) / USERS
        for name, (estimator, services, options) in asked.items():
            answer = estimate(estimator, attribute, statistic, services, options)
            assert answer.distribution is not None
            found[name].append(
                (
                    metrics.jensen_shannon(answer.distribution, truth),
                    metrics.wasserstein(answer.distribution, truth),
                    answer.n_iterations,
                )
            )
    for name, values in found.items():
        js, w1, iterations = zip(*values, strict=True)
        released = RELEASED_DISTRIBUTION[epsilons].get(name)
        beside = f"{released[0]} ({released[1]})" if released else "-"
        yield (
            f"| {', '.join(map(str, epsilons))} | {name} | {summary(js, '.4f')} | {summary(w1, '.4f')} "
            f"| {np.mean(iterations):.0f} | {beside} |"
        )


def mean_rows(epsilons: tuple[float, float, float, float], seeds: range) -> Iterator[str]:
    """The mean from SR, Laplace, PM and SW services: squared errors on [-1, 1], in pairs."""
    names = ("ua", "uwa", "ivw")
    squared: dict[str, list[float]] = {name: [] for name in names}
    for seed in seeds:
        kinds: tuple[Callable[[float], NumericMechanism], ...] = (
            StochasticRounding, Laplace, Piecewise, SquareWave,
        )  # fmt: skip
        mechanisms = [kind(e) for kind, e in zip(kinds, epsilons, strict=True)]
        x, attribute, statistic = collect(mechanisms, 256, 64, seed)
        for name in names:
            mean = estimate(name, attribute, statistic).mean
            assert mean is not None
            squared[name].append((mean - float((2 * x - 1).mean())) ** 2)
    gain = np.array(squared["ua"]) - np.array(squared["ivw"])
    paired = f"{gain.mean():.2e} ± {gain.std(ddof=1) / np.sqrt(len(gain)):.2e}"
    for name, released in zip(names, RELEASED_MEAN[epsilons], strict=True):
        yield (
            f"| {', '.join(map(str, epsilons))} | {name} | {summary(squared[name], '.2e')} | {released:.2e} "
            f"| {paired if name == 'ivw' else ''} |"
        )


def tables() -> Iterator[str | Table]:
    """The section, line by line."""
    yield "## Distribution: Beta(2,5), SR, PM and SW services, n = 100,000, 1024 buckets, seeds 0 to 4"
    yield ""
    yield "The joint histogram has 256 report buckets a service. sqrt-JS against the sample's own histogram"
    yield "has a floor of 0.036 here; W1 is on a domain of width 1."
    yield ""
    yield "| epsilon of SR, PM, SW | estimator | sqrt-JS | W1 | iterations | released code: JS (W1) |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for epsilons in RELEASED_DISTRIBUTION:
        yield from distribution_rows(epsilons, range(5))
    yield ""
    yield "## Mean: Beta(2,5) on [-1, 1], four services, n = 100,000, seeds 0 to 199"
    yield ""
    yield "Squared error of the mean. The last column is UA's squared error less ivw's on the same reports:"
    yield "above zero, ivw is better. The file also has equal epsilons of 0.1 and 0.6."
    yield ""
    yield means(row for budgets in RELEASED_MEAN for row in mean_rows(budgets, range(200)))


def means(rows: Iterable[str]) -> Table:
    """All rows on means; the page has those of equal epsilons of 0.3 and of unequal ones."""
    names = "| epsilon of SR, Laplace, PM, SW | estimator | MSE | released code | ua - ivw in pairs |"
    lines = (names, "| --- " * 5 + "|", *rows)
    return Table("accuracy_mean", lines, lambda row: "0.3" in next(iter(row.values())))
