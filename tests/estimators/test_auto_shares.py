"""``auto`` for categories: its parts against independent oracles."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import integrate, optimize, stats
from support.asked import attribute_of, categories, question_of
from support.covering import covering

from ldpbeam.estimators import estimate
from ldpbeam.estimators.auto import shares as auto_shares_module
from ldpbeam.estimators.auto.share_likelihood import Likelihood, Normal, Supports, likelihood_of
from ldpbeam.estimators.auto.share_prior import (
    STRENGTH,
    Posterior,
    families_on,
    grid,
    most_likely_prior,
    posterior,
)
from ldpbeam.estimators.auto.shares import curve, of_people, share_belief
from ldpbeam.mechanisms import (
    BlockHadamardResponse,
    HadamardRandomisedResponse,
    LocalHashing,
    Mechanism,
    OptimisedUnaryEncoding,
    RandomisedResponse,
    SymmetricUnaryEncoding,
)
from ldpbeam.statistics import Answers, tally

Floats = NDArray[np.float64]


def zipf(size: int, exponent: float) -> Floats:
    shares = np.arange(1, size + 1) ** -exponent
    return np.asarray(shares / shares.sum())


def told(shares: Floats, variance: float) -> Likelihood:
    return Likelihood(shares, (Normal(shares[:, None], variance),), np.arange(len(shares)))


@pytest.mark.parametrize(
    "part",
    [Supports(np.array([12.0, 30.5, 0.0]), 100.0, 0.6, 0.1), Normal(np.array([0.1, 0.3, -0.1]), 0.01)],
    ids=["supports", "normal"],
)
def test_slopes_are_derivatives_and_information_is_the_expected_curvature(part: Supports | Normal) -> None:
    at, step = np.array([0.05, 0.4, 0.2]), 1e-5
    numeric = (part.log_likelihood(at + step) - part.log_likelihood(at - step)) / (2 * step)
    np.testing.assert_allclose(part.slope(at), numeric, rtol=1e-6)
    if isinstance(part, Supports):
        # At the expected counts, the curvature is the information.
        part = Supports(100.0 * (0.1 + 0.5 * at), 100.0, 0.6, 0.1)
    else:
        part = Normal(at, 0.01)
    bend = (part.slope(at + step) - part.slope(at - step)) / (2 * step)
    np.testing.assert_allclose(part.information(at), -bend, rtol=1e-4)


def test_the_likelihood_of_grr_is_its_binomial_one() -> None:
    mechanism = RandomisedResponse(1.0, size=5)
    question = question_of(
        attribute_of(categories(5), mechanism), np.repeat(np.arange(5), [400, 300, 200, 90, 10]), 0
    )
    likelihood = likelihood_of(question)
    counts, (p, q) = question.statistic.histograms[0], mechanism.support_probabilities
    atoms = np.array([0.0, 0.1, 0.5])
    exact = np.array([[stats.binom.logpmf(c, 1000, q + (p - q) * f) for f in atoms] for c in counts])
    table = likelihood.log_likelihoods(atoms)
    # Up to the constant of the counts; the shares of GRR sum to one, so that four of five are news.
    np.testing.assert_allclose(table - table[:, :1], 0.8 * (exact - exact[:, :1]), rtol=1e-9)
    np.testing.assert_allclose(likelihood.log_likelihoods(np.full((5, 1), 0.1))[:, 0], table[:, 1])


def test_services_add_up() -> None:
    values = np.repeat(np.arange(6), [500, 200, 100, 100, 50, 50])
    kinds = (
        OptimisedUnaryEncoding(1.0, 6),
        HadamardRandomisedResponse(2.0, 6),
        BlockHadamardResponse(2.0, 6),
    )
    both = likelihood_of(question_of(attribute_of(categories(6), *kinds), values, 3))
    assert [type(part) for part in both.parts] == [Supports, Supports, Normal]
    assert both.scale == 1.0
    at = np.linspace(0.05, 0.3, 6)[:, None]
    alone = [dataclasses.replace(both, parts=(part,)).values(at) for part in both.parts]
    np.testing.assert_allclose(both.values(at), sum(alone))
    np.testing.assert_allclose(both.information(at), sum(part.information(at) for part in both.parts))


def test_the_prior_is_the_most_likely_one() -> None:
    rng = np.random.default_rng(1)
    table, sizes = rng.random((40, 5)) ** 4, rng.integers(1, 4, 40).astype(float)
    start = np.array([0.4, 0.3, 0.2, 0.1, 0.0])

    def height(prior: Floats) -> float:
        held = start > 0
        return float(sizes @ np.log(table @ prior) + STRENGTH * start[held] @ np.log(prior[held]))

    def softmax(x: Floats) -> Floats:
        return np.exp(x) / np.exp(x).sum()

    best = optimize.minimize(lambda x: -height(np.append(softmax(x), 0.0)), np.zeros(4), tol=1e-12)
    found, _ = most_likely_prior(table, sizes, start)
    # A share without a prior chance never gets one.
    assert found[4] == 0.0
    assert height(found) == pytest.approx(-best.fun, abs=0.02)
    np.testing.assert_allclose(found[:4], softmax(best.x), atol=0.02)


def test_families_are_distributions_of_the_right_mean() -> None:
    atoms = np.unique(np.append(np.linspace(0.0, 1.0, 20_001), [*np.arange(5) / 1000, 0.0035]))
    families, chances = families_on(atoms, 200, [1 / 200, 0.0035])
    np.testing.assert_allclose(families.sum(axis=1), 1.0)
    assert chances.sum() == pytest.approx(1.0)
    # Tails beyond 1 end in the last share, which changes the mean.
    light = (families * (atoms > 0.9)).sum(axis=1) < 1e-9
    assert light.sum() > 10
    np.testing.assert_allclose((families @ atoms)[light], 1 / 200, rtol=2e-3)


def test_shares_that_sum_to_one_have_the_least_expected_absolute_error() -> None:
    rng = np.random.default_rng(2)
    atoms = np.linspace(0.0, 1.0, 41)
    edges = np.append(0.0, np.append((atoms[1:] + atoms[:-1]) / 2, 1.0))
    weights = rng.dirichlet(np.full(41, 0.3), 3)
    sizes = np.array([1.0, 2.0, 1.0])
    posterior = Posterior(edges, atoms, weights, sizes, 0.0, 0)
    shares = posterior.quantiles()
    assert sizes @ shares == pytest.approx(1.0, abs=1e-9)
    # Each cell's mass is spread evenly: many points per cell.
    fine = (np.arange(200) + 0.5) / 200
    points = (edges[:-1, None] + np.diff(edges)[:, None] * fine).ravel()
    masses = np.repeat(weights / 200, 200, axis=1)

    def error(shares: Floats) -> float:
        return float(sizes @ (masses * np.abs(points - shares[:, None])).sum(axis=1))

    for change in rng.normal(0.0, 0.03, (300, 3)):
        other = np.maximum(shares + change - (sizes @ change) / sizes.sum(), 0.0)
        other /= sizes @ other
        assert error(other) >= error(shares) - 1e-4


def test_the_largest_shares_are_as_far_off_as_unbiased_ones() -> None:
    """Each has a posterior distribution of its own: others are too far away to say anything of it."""
    truth, deviation = np.random.default_rng(0).permutation(zipf(100, 1.0)), 0.0008
    found = posterior(told(truth, deviation**2))
    largest = np.argsort(truth)[-12:]
    for shares in (found.means(), found.quantiles()):
        np.testing.assert_allclose(shares[largest], truth[largest], atol=0.3 * deviation)


def test_means_given_the_sum_are_those_of_every_combination() -> None:
    """Of 12 categories in 2 groups: all combinations, weighted by their probabilities near the sum."""
    atoms = np.arange(4) / 24.0
    weights = np.array([[0.5, 0.2, 0.2, 0.1], [0.1, 0.3, 0.2, 0.4]])
    sizes = np.array([6.0, 6.0])
    means = Posterior(np.append(atoms, 0.2), atoms, weights, sizes, 0.0, 0).means()
    assert sizes @ means == pytest.approx(1.0, abs=1e-8)
    # The number of steps of 1/24 that six categories of a group have, and of five of them: convolutions.
    six, five = (
        [np.linalg.matrix_power(step, many)[0] for step in map(circulant_of, weights)] for many in (6, 5)
    )
    for group in (0, 1):
        other = six[1 - group]
        chances = [
            weights[group, k] * sum(five[group][s] * other[24 - k - s] for s in range(16) if 24 - k - s < 19)
            for k in range(4)
        ]
        exact = float(np.array(chances) @ atoms / sum(chances))
        assert means[group] == pytest.approx(exact, abs=2e-3)


def circulant_of(steps: Floats) -> Floats:
    """The matrix that adds a number of steps to a count below 32."""
    return np.array([np.roll(np.append(steps, np.zeros(28)), row) for row in range(32)])


def test_the_evidence_of_a_curve_is_the_average_likelihood_of_its_prior(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of two categories the curve is one number, the log-ratio, which is normal: by numeric integration."""
    likelihood = told(np.array([0.3, 0.72]), 0.02)
    monkeypatch.setattr(auto_shares_module, "DEVIATIONS", np.array([1.0]))
    monkeypatch.setattr(auto_shares_module, "SLOPES", (1.2,))

    def share(ratio: float) -> float:
        return 1.0 / (1.0 + math.exp(-ratio))

    def density(ratio: float, power: int) -> float:
        first = 1.0 - share(ratio)
        told_of = float(likelihood.values(np.array([[first], [1.0 - first]]))[0])
        return math.exp(told_of) * stats.norm.pdf(ratio, scale=deviation) * first**power

    # From -1/2 to 1/2, the midpoints of the two categories on [-1, 1].
    deviation = 1.2
    total, first = (integrate.quad(density, -12, 12, args=(power,))[0] for power in (0, 1))
    shares, log_evidence = curve(likelihood)
    assert log_evidence == pytest.approx(math.log(total), abs=0.05)
    assert shares[0] == pytest.approx(first / total, abs=0.02)
    assert shares.sum() == pytest.approx(1.0)


def test_a_curve_is_the_most_probable_one(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(4)
    truth = stats.beta(3, 4).pdf((np.arange(12) + 0.5) / 12) / 12
    likelihood = told(truth / truth.sum() + rng.normal(0, 0.02, 12), 0.02**2)
    monkeypatch.setattr(auto_shares_module, "DEVIATIONS", np.array([10.0]))
    monkeypatch.setattr(auto_shares_module, "SLOPES", (1.5,))
    second = np.diff(np.eye(12), 2, axis=0) * 12**1.5
    # The midpoints on [-1, 1]; the line is so many standard deviations of its coefficient.
    line = (2.0 * np.arange(12) - 11.0) / 12.0
    line /= 1.5 * (line @ line)

    def depth(x: Floats) -> float:
        shares = np.exp(x - x.max())
        shares /= shares.sum()
        prior = 0.01 * (second @ x) @ (second @ x) + (line @ x) ** 2 + x.sum() ** 2 / 12
        return float(0.5 * prior - likelihood.values(shares[:, None])[0])

    best = optimize.minimize(depth, np.zeros(12), method="BFGS", options={"gtol": 1e-8}).x
    expected = np.exp(best) / np.exp(best).sum()
    np.testing.assert_allclose(curve(likelihood)[0], expected, atol=1e-3)


def test_it_finds_that_neighbours_are_alike() -> None:
    truth = np.diff(stats.beta(4, 3).cdf(np.linspace(0, 1, 65)))
    values = np.random.default_rng(1).choice(64, 30_000, p=truth)
    attribute = attribute_of(categories(64), RandomisedResponse(2.0, size=64))
    assert share_belief(question_of(attribute, values, 0)).weight > 0.99
    shuffled = np.random.default_rng(5).permutation(64)[values]
    assert share_belief(question_of(attribute, shuffled, 0)).weight < 0.01


def test_given_the_population_each_report_tells_of_its_own_person() -> None:
    mechanism = OptimisedUnaryEncoding(2.0, size=4)
    values = np.repeat(np.arange(4), [40, 30, 20, 10])
    question = question_of(attribute_of(categories(4), mechanism), values, 3)
    belief = share_belief(question)
    f, (p, q) = belief.shares, mechanism.support_probabilities
    unbiased, g = mechanism.unbiased_frequencies(question.statistic.histograms[0], 100), q + (p - q) * f
    supports = 100 * (q + (p - q) * unbiased)
    # The sum over people of the probability that the category is theirs, by whether their report supports it.
    people = supports * f * p / g + (100 - supports) * f * (1.0 - p) / (1.0 - g)
    np.testing.assert_allclose(of_people(question, belief), people / people.sum())


def test_people_who_differ_from_their_population_are_seen_with_a_large_epsilon() -> None:
    """Shares that are equal in a population are not equal among 20,000 people of it."""
    mechanism, gains = RandomisedResponse(4.0, size=5), []
    for seed in range(8):
        values = np.random.default_rng(seed).integers(0, 5, 20_000)
        question = question_of(attribute_of(categories(5), mechanism), values, 1000 + seed)
        belief, own = share_belief(question), np.bincount(values) / 20_000
        errors = [((found - own) ** 2).sum() for found in (of_people(question, belief), belief.shares)]
        gains.append(errors[0] / errors[1])
    assert np.mean(gains) < 0.5


KINDS = [
    RandomisedResponse, OptimisedUnaryEncoding, SymmetricUnaryEncoding, LocalHashing,
    HadamardRandomisedResponse, BlockHadamardResponse,
]  # fmt: skip


@pytest.mark.parametrize(("kind", "size", "people"), covering(itertools.product(KINDS, [2, 40], [1, 3_000])))
def test_everybody_in_one_category_and_one_report(kind: type[Mechanism], size: int, people: int) -> None:
    mechanism = kind(3.0, size)  # type: ignore[call-arg]
    question = question_of(attribute_of(categories(size), mechanism), np.full(people, size - 1), 7)
    belief = share_belief(question)
    assert belief.shares.min() >= 0.0
    assert belief.shares.sum() == pytest.approx(1.0, abs=1e-12)
    if people > 1:
        assert belief.shares[-1] > 0.9
    np.testing.assert_array_equal(share_belief(question).shares, belief.shares)


def test_a_hundred_thousand_categories_are_grouped() -> None:
    size = 100_000
    rng = np.random.default_rng(0)
    values = np.where(rng.random(40_000) < 0.5, 17, rng.integers(0, size, 40_000))
    question = question_of(attribute_of(categories(size), RandomisedResponse(9.0, size=size)), values, 1)
    belief = share_belief(question)
    assert belief.along_order is None
    assert len(belief.without_order.weights) < 1000
    shares = belief.shares
    assert shares.shape == (size,)
    assert shares.sum() == pytest.approx(1.0)
    assert shares[17] == pytest.approx(0.5, abs=0.1)
    told_of = estimate("auto", question.attribute, question.statistic).details["chosen"]
    assert str(told_of).endswith("so many categories are not tried as a curve")


def test_the_grid_has_a_point_within_a_deviation_of_every_category() -> None:
    question = question_of(
        attribute_of(categories(200), RandomisedResponse(3.0, size=200)),
        np.random.default_rng(1).choice(200, 50_000, p=zipf(200, 1.1)),
        2,
    )
    likelihood = likelihood_of(question)
    atoms = grid(likelihood)
    assert atoms[0] == 0.0
    assert (np.diff(atoms) > 0).all()
    seen = likelihood.shares[likelihood.shares > 0]
    nearest = np.abs(seen[:, None] - atoms).min(axis=1)
    assert (nearest < 0.5 / np.sqrt(likelihood.information(seen))).all()
    kept = posterior(likelihood)
    assert set(atoms) <= set(kept.atoms) and kept.weights.shape == (200, len(kept.atoms))


@pytest.mark.parametrize(
    "mechanism",
    [RandomisedResponse(1.0, 12), OptimisedUnaryEncoding(1.0, 12), LocalHashing(1.0, 12, seeds=64)],
    ids=["grr", "oue", "olh"],
)
def test_a_report_that_is_sent_again_in_every_window_counts_once(mechanism: Mechanism) -> None:
    """Joined windows of people who repeat one report say what one window says."""
    attribute, users, windows = attribute_of(categories(12), mechanism), 3_000, 6
    rng = np.random.default_rng(5)
    reports = mechanism.perturb(rng.choice(12, users, p=np.arange(12) / 66.0), rng)
    once = tally(attribute, users, [Answers(0, np.arange(users), reports)])
    rows = np.repeat(np.arange(users), windows)
    often = tally(
        attribute, users, [Answers(0, rows, np.repeat(reports, windows, axis=0))], checked=True,
        windows=windows,
    )  # fmt: skip
    one, day = (estimate("auto", attribute, statistic) for statistic in (once, often))
    assert day.distribution == pytest.approx(one.distribution, abs=1e-6)
