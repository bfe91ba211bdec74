"""UA, UWA and inverse-variance weights against loops over users, and their errors over seeds."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from support.joint_users import ask

from ldpbeam import Attribute, Categories, Estimate, Numeric, ServiceVersion
from ldpbeam.estimators import estimate
from ldpbeam.estimators.scores import scores
from ldpbeam.mechanisms import (
    Laplace,
    NumericMechanism,
    Piecewise,
    RandomisedResponse,
    SquareWave,
    StochasticRounding,
)
from ldpbeam.statistics import Answers, empty, tally

Floats = NDArray[np.float64]
DOMAIN = Numeric(-10.0, 30.0)


def four_services(epsilons: Sequence[float], buckets: int = 32) -> Attribute:
    kinds = (StochasticRounding, Laplace, Piecewise, SquareWave)
    names = ("sr", "laplace", "pm", "sw")
    versions = tuple(
        ServiceVersion(name, "", kind(epsilon))
        for name, kind, epsilon in zip(names, kinds, epsilons, strict=True)
    )
    return Attribute("x", DOMAIN, buckets, versions, joint_services=names, joint_buckets=8)


# The last service has had two epsilons.
PARTIAL = dataclasses.replace(
    four_services((1.0, 2.0, 0.8, 1.5)),
    versions=(
        *four_services((1.0, 2.0, 0.8, 1.5)).versions[:3],
        ServiceVersion("sw", "old", SquareWave(1.5)),
        ServiceVersion("sw", "new", SquareWave(3.0)),
    ),
)


def mechanism_of(attribute: Attribute, index: int) -> NumericMechanism:
    return attribute.versions[index].mechanism


def by_user(answers: Sequence[Answers], users: int, versions: Sequence[int]) -> list[dict[int, float]]:
    """What each user sent, by channel."""
    sent: list[dict[int, float]] = [{} for _ in range(users)]
    for answer in answers:
        if answer.version in versions:
            for row, payload in zip(answer.rows.tolist(), answer.payloads.tolist(), strict=True):
                sent[row][answer.version] = payload
    return sent


def numbers(attribute: Attribute, index: int, payloads: Floats) -> Floats:
    """The number that each report stands for: of noise with a tail, the score of the report's cell."""
    mechanism = mechanism_of(attribute, index)
    of_cells = scores(mechanism, attribute.buckets)
    if of_cells is None:
        return mechanism.unbiased(payloads)
    return of_cells.first.cells[mechanism.bucketise(payloads, attribute.buckets)]


def noise_variances(attribute: Attribute, answers: Sequence[Answers]) -> dict[int, float]:
    """Each channel's variance averaged over the EMS distribution of its own reports, within its bounds."""
    return {index: noise for index, (noise, _) in noise_and_spread(attribute, answers).items()}


def noise_and_spread(attribute: Attribute, answers: Sequence[Answers]) -> dict[int, tuple[float, float]]:
    """That, and the variance of the midpoints of that distribution."""
    variances = {}
    for answer in answers:
        version = attribute.versions[answer.version]
        alone = Attribute("one", DOMAIN, attribute.buckets, (version,))
        reports = dataclasses.replace(answer, version=0, rows=np.arange(len(answer.rows)))
        found = estimate("ems", alone, tally(alone, len(answer.rows), [reports])).distribution
        mechanism = mechanism_of(alone, 0)
        midpoints = [(i + 0.5) / len(found) for i in range(len(found))]
        of_cells = scores(mechanism, attribute.buckets)
        variance = mechanism.variance if of_cells is None else of_cells.first.noise_at
        noise = sum(share * float(variance(x)) for x, share in zip(midpoints, found.tolist(), strict=True))
        mean = sum(share * x for x, share in zip(midpoints, found.tolist(), strict=True))
        spread = sum(share * (x - mean) ** 2 for x, share in zip(midpoints, found.tolist(), strict=True))
        noise = min(noise, float(numbers(attribute, answer.version, answer.payloads).var(ddof=1)))
        least = (
            mechanism.variance(np.linspace(0.0, 1.0, 10_001)) if of_cells is None else of_cells.first.noise
        )
        noise = max(noise, float(least.min()))
        variances[answer.version] = noise, spread
    return variances


# Reports are summed on a grid of 2^30 steps; Laplace's step at epsilon 2 is 45 / 2^30 on [-1, 1].
# Half of it, in the domain's unit (20 times), is the most that a mean can be off: 4.2e-7.
GRID_ERROR = 0.5 * 45 / 2**30 * 20
SERVICES = (("sr", "laplace", "pm", "sw"), ("pm", "sr"), ("sw",))


@pytest.mark.parametrize("services", SERVICES, ids="+".join)
def test_ua_averages_a_users_answers_then_users(services: tuple[str, ...]) -> None:
    x = np.random.default_rng(1).beta(2, 5, 300)
    answers = ask(PARTIAL, 300, 2, 0.5, values=x)
    versions = PARTIAL.versions_of(services)
    noise = noise_variances(PARTIAL, answers)
    # The mean of a channel with a tail is that of scores; its bounded reports say how users differ from it.
    moved = {}
    for answer in answers:
        mechanism = mechanism_of(PARTIAL, answer.version)
        plain = mechanism.unbiased(mechanism.bounded(answer.payloads))
        moved[answer.version] = float((numbers(PARTIAL, answer.version, answer.payloads) - plain).mean())
    total, variance, users = 0.0, 0.0, 0
    for sent in by_user(answers, 300, versions):
        if sent:
            users += 1
            own = [
                float(mechanism_of(PARTIAL, i).unbiased(mechanism_of(PARTIAL, i).bounded(y))) + moved[i]
                for i, y in sent.items()
            ]
            total += sum(own) / len(own)
            variance += sum(noise[i] for i in sent) / len(own) ** 2
    found = estimate("ua", PARTIAL, tally(PARTIAL, 300, answers), services)
    assert users < 300
    assert found.users == users
    assert found.mean == pytest.approx(-10 + 40 * total / users, abs=GRID_ERROR)
    assert found.standard_error == pytest.approx(40 * math.sqrt(variance) / users, rel=1e-7)


@pytest.mark.parametrize("answering", [1.0, 0.5])
@pytest.mark.parametrize("services", SERVICES, ids="+".join)
def test_ivw_weighs_every_report_by_its_channels_variance(
    services: tuple[str, ...], answering: float
) -> None:
    x = np.random.default_rng(1).beta(2, 5, 300)
    answers = ask(PARTIAL, 300, 2, answering, values=x)
    versions = PARTIAL.versions_of(services)
    sent = by_user(answers, 300, versions)
    reports = sum(map(len, sent))
    # The spread of people counts for the share of reports whose people answered nothing else.
    apart = sum(len(of_user) == 1 for of_user in sent) / reports
    if answering == 1.0:
        assert apart == (1.0 if services == ("sw",) else 0.0)
    else:
        assert apart == 1.0 if services == ("sw",) else 0.05 < apart < 0.6
    variances = noise_and_spread(PARTIAL, answers)
    weights = {i: 1 / (variances[i][0] + apart * variances[i][1]) for i in versions}
    total, weight, variance, spread = 0.0, 0.0, 0.0, 0.0
    for of_user in sent:
        for index, report in of_user.items():
            total += float(numbers(PARTIAL, index, np.array([report]))[0]) * weights[index]
            weight += weights[index]
            variance += weights[index] ** 2 * variances[index][0]
            spread += weights[index] * variances[index][1]
    # How far the mean of the people who reported may be, each of whom counts once.
    counts = [sum(weights[index] for index in of_user) / weight for of_user in sent if of_user]
    uneven = sum((count - 1 / len(counts)) ** 2 for count in counts)
    error = math.sqrt(variance / weight**2 + uneven * spread / weight)
    answer = estimate("ivw", PARTIAL, tally(PARTIAL, 300, answers), services)
    assert answer.mean == pytest.approx(-10 + 40 * total / weight, abs=GRID_ERROR)
    assert answer.standard_error == pytest.approx(40 * error, rel=1e-7)
    expected = {PARTIAL.versions[i].label: each / sum(weights.values()) for i, each in weights.items()}
    assert answer.details["weights"] == pytest.approx(expected)


@pytest.mark.parametrize("services", SERVICES, ids="+".join)
def test_uwa_weighs_each_users_answers_by_their_own_posterior(services: tuple[str, ...]) -> None:
    x = np.random.default_rng(1).beta(2, 5, 300)
    answers = ask(PARTIAL, 300, 2, 0.5, values=x)
    grid = (np.arange(PARTIAL.buckets) + 0.5) / PARTIAL.buckets
    means, variances = [], []
    for sent in by_user(answers, 300, PARTIAL.versions_of(services)):
        if not sent:
            continue
        posterior, values = np.ones(len(grid)), {}
        for index, report in sent.items():
            mechanism = mechanism_of(PARTIAL, index)
            cell = int(mechanism.bucketise(np.array([report]), 8)[0])
            posterior *= mechanism.channel(len(grid), 8).dense()[cell]
            values[index] = float(mechanism.unbiased(mechanism.representatives(8)[cell]))
        posterior /= posterior.sum()
        weights = {i: 1 / (posterior @ mechanism_of(PARTIAL, i).variance(grid)) for i in sent}
        total = sum(weights.values())
        means.append(sum(weights[i] * values[i] for i in sent) / total)
        variances.append(1 / total)
    found = estimate("uwa", PARTIAL, tally(PARTIAL, 300, answers), services)
    assert found.mean == pytest.approx(-10 + 40 * float(np.mean(means)), rel=1e-9)
    error = 40 * math.sqrt(sum(variances)) / len(variances)
    assert found.standard_error == pytest.approx(error, rel=1e-9)


def test_the_standard_error_is_honest() -> None:
    # How far the estimate lies from the mean of those very people, each counted once, in standard errors:
    # over 100 seeds the sum of squares is chi-square with 100 degrees of freedom (1 in 10,000 either way).
    attribute = four_services((0.5, 1.0, 0.7, 1.2), buckets=16)
    scores: dict[str, list[float]] = {"ua": [], "ivw": []}
    for seed in range(100):
        x = np.random.default_rng(seed).beta(2, 5, 400)
        answers = ask(attribute, 400, 1000 + seed, 0.5, values=x)
        statistic = tally(attribute, 400, answers)
        answered = np.unique(np.concatenate([answer.rows for answer in answers]))
        for name, own in scores.items():
            own.append(standardised(estimate(name, attribute, statistic), x[answered]))
    for name, own in scores.items():
        assert_standard_normal(own, name)


def standardised(found: Estimate, x: Floats) -> float:
    """How many standard errors the estimate is above the mean of x."""
    return (found.mean - (-10 + 40 * float(x.mean()))) / found.standard_error


def assert_standard_normal(scores: Sequence[float], name: str) -> None:
    """The sum of squares is within all but 1 in 5,000 of chi-squares, the mean within 4 standard errors."""
    low, high = stats.chi2(len(scores)).ppf([1e-4, 1 - 1e-4])
    assert low < float(np.square(scores).sum()) < high, name
    assert abs(np.mean(scores)) < 4 / math.sqrt(len(scores)), name


def test_reports_that_are_all_alike_leave_the_least_noise_of_the_mechanism() -> None:
    attribute = Attribute("x", DOMAIN, 256, (ServiceVersion("sr", "", StochasticRounding(6.0)),))
    reports = np.full(20, StochasticRounding(6.0).report_range[1])
    found = estimate("ivw", attribute, tally(attribute, 20, [Answers(0, np.arange(20), reports)]))
    growth = math.exp(6.0)
    bound = (growth + 1) / (growth - 1)
    assert found.standard_error == pytest.approx(20 * math.sqrt((bound**2 - 1) / 20), rel=1e-9)


@pytest.mark.parametrize(
    "mechanism", [Piecewise(1.0), SquareWave(2.0), StochasticRounding(1.0), Laplace(1.0)]
)
def test_the_least_variance_is_that_of_the_best_value(mechanism: NumericMechanism) -> None:
    assert mechanism.least_variance == pytest.approx(
        mechanism.variance(np.linspace(0.0, 1.0, 100_001)).min(), rel=1e-8
    )


def test_what_has_no_mean_is_refused() -> None:
    grr = ServiceVersion("s", "", RandomisedResponse(1.0, size=2))
    colours = Attribute("c", Categories(("a", "b")), 0, (grr,), joint_services=("s",))
    for name in ("ua", "ivw", "uwa"):
        with pytest.raises(ValueError, match=f"'{name}' does not fit: it estimates the mean of num"):
            estimate(name, colours, empty(colours))
    kept = dataclasses.replace(PARTIAL, joint_services=(), group_users=False)
    with pytest.raises(ValueError, match="'uwa' does not fit: it joins"):
        estimate("uwa", kept, empty(kept))


def test_kept_duplicates_make_every_report_a_user_of_its_own() -> None:
    kept = dataclasses.replace(four_services((1.0, 1.0, 1.0, 1.0)), joint_services=())
    kept = dataclasses.replace(kept, group_users=False)
    answers = ask(kept, 200, 2, 0.5, values=np.random.default_rng(1).beta(2, 5, 200))
    found = estimate("ua", kept, tally(kept, 200, answers))
    own = [numbers(kept, a.version, a.payloads) for a in answers]
    assert found.mean == pytest.approx(-10 + 40 * np.concatenate(own).mean(), abs=2 * GRID_ERROR)
    assert found.users is None
