"""The standard errors of means: how often intervals of 95% hold the mean of the people who reported."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from benchmarks.accuracy.trials import header, row
from ldpbeam import Answers, Attribute, Numeric, ServiceVersion, Statistic, tally
from ldpbeam.domains import Floats
from ldpbeam.estimators import estimate
from ldpbeam.estimators.em import fit_channel
from ldpbeam.estimators.iteration import Trace
from ldpbeam.mechanisms import (
    Laplace,
    NumericMechanism,
    Piecewise,
    SquareWave,
    StochasticRounding,
)
from ldpbeam.trials import populations

RUNS, NORMAL, BUCKETS = 400, 1.959964, 64
Draw = Callable[[int, np.random.Generator], Floats]


@dataclass(frozen=True)
class Setting:
    """Services, and who answers them.

    Attributes:
        title: in the table.
        mechanisms: of the services.
        people: how many people answer each service.
        apart: whether every service has people of its own; otherwise these are the first ones of all.
        draw: draws values on [0, 1].
    """

    title: str
    mechanisms: tuple[NumericMechanism, ...]
    people: tuple[int, ...]
    apart: bool
    draw: Draw


def _beta(a: float, b: float) -> Draw:
    return lambda people, rng: rng.beta(a, b, people)


SETTINGS = (
    Setting(
        "PM 4 and PM 0.5, others, Beta(2, 5)",
        (Piecewise(4.0), Piecewise(0.5)),
        (500, 10_000),
        True,
        _beta(2, 5),
    ),
    Setting(
        "PM 8 and PM 0.3, others, Beta(.5, .5)",
        (Piecewise(8.0), Piecewise(0.3)),
        (200, 10_000),
        True,
        _beta(0.5, 0.5),
    ),
    Setting(
        "SR 5 and SW 1, others, Beta(.5, .5)",
        (StochasticRounding(5.0), SquareWave(1.0)),
        (1_000, 5_000),
        True,
        _beta(0.5, 0.5),
    ),
    Setting(
        "Laplace 6, PM 1 and SW 1, others, two normals",
        (Laplace(6.0), Piecewise(1.0), SquareWave(1.0)),
        (300, 3_000, 3_000),
        True,
        populations.two_normals,
    ),
    Setting(
        "PM 4 and PM 0.5, a tenth answers both, Beta(2, 5)",
        (Piecewise(4.0), Piecewise(0.5)),
        (500, 5_000),
        False,
        _beta(2, 5),
    ),
    Setting(
        "PM 1 and SW 2, all answer both, Beta(2, 5)",
        (Piecewise(1.0), SquareWave(2.0)),
        (2_000, 2_000),
        False,
        _beta(2, 5),
    ),
    Setting("SR 6, all at one end", (StochasticRounding(6.0),), (5_000,), False, lambda n, rng: np.ones(n)),
    Setting("SR 1, all at one end", (StochasticRounding(1.0),), (5_000,), False, lambda n, rng: np.ones(n)),
)


def _noise_alone(attribute: Attribute, statistic: Statistic, weights: Floats) -> float:
    """The standard error as it was: of the noise under EMS's distribution, without bounds."""
    total, variance = 0.0, 0.0
    for index, weight in enumerate(weights):
        counts = statistic.histograms[index]
        fit = fit_channel(
            attribute.channel(index), counts, smoothing=True, tolerance=1e-3, trace=Trace(10_000)
        )
        mechanism = attribute.versions[index].mechanism
        assert isinstance(mechanism, NumericMechanism)
        middles = (np.arange(attribute.buckets) + 0.5) / attribute.buckets
        total += weight * counts.sum()
        variance += weight**2 * counts.sum() * float(fit.weights @ mechanism.variance(middles))
    return float(np.sqrt(variance) / total)


def _trial(setting: Setting, attribute: Attribute, seed: int) -> tuple[float, float, float]:
    """(error, standard error, the one of before) of one draw of people and reports."""
    rng = np.random.default_rng(seed)
    total = sum(setting.people) if setting.apart else max(setting.people)
    x = setting.draw(total, rng)
    first, answers = 0, []
    for index, (mechanism, people) in enumerate(zip(setting.mechanisms, setting.people, strict=True)):
        rows = np.arange(first, first + people)
        answers.append(Answers(index, rows, mechanism.perturb(x[rows], rng)))
        first += people if setting.apart else 0
    statistic = tally(attribute, total, answers)
    found = estimate("ivw", attribute, statistic)
    assert found.mean is not None
    assert found.standard_error is not None
    weights = found.details["weights"]
    assert isinstance(weights, dict)
    before = _noise_alone(attribute, statistic, np.array(list(weights.values())))
    return found.mean - float(x.mean()), found.standard_error, before


def _coverage(errors: Floats, deviations: Floats) -> str:
    """The share of intervals that hold the truth, and the mean deviation over the errors' own."""
    held = float((np.abs(errors) <= NORMAL * deviations).mean())
    return f"{held:.1%} ({deviations.mean() / np.sqrt((errors**2).mean()):.2f})"


def tables() -> Iterator[str]:
    """The section, line by line."""
    yield f"## Standard errors of the mean: `ivw`, {BUCKETS} buckets, seeds 0 to {RUNS - 1}"
    yield ""
    yield "How often the mean plus or minus 1.96 standard errors holds the mean of the people who reported,"
    yield "and in brackets the mean standard error over the root of the mean squared error. Numbers after"
    yield "mechanisms are epsilons. Before: with the noise under EMS's distribution alone. Now: with the"
    yield "sampling variance that unequal weights bring in, and noise of at most the reports' sample"
    yield f"variance. The standard error of a coverage of 95% is {np.sqrt(0.95 * 0.05 / RUNS):.1%}."
    yield ""
    yield from header(["services, people, values", "people per service", "before", "now"])
    for setting in SETTINGS:
        versions = tuple(ServiceVersion(str(i), "", m) for i, m in enumerate(setting.mechanisms))
        attribute = Attribute("value", Numeric(0.0, 1.0), BUCKETS, versions)
        trials = np.array([_trial(setting, attribute, seed) for seed in range(RUNS)])
        errors, now, before = trials.T
        people = ", ".join(f"{n:,}" for n in setting.people)
        yield row([setting.title, people, _coverage(errors, before), _coverage(errors, now)])
