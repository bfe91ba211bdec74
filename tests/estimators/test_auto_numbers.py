"""``auto`` for numbers: its pieces against independent computations."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import integrate, optimize, stats
from support.asked import question_of

from ldpbeam import Attribute, Numeric, ServiceVersion
from ldpbeam.density.atoms import LOW
from ldpbeam.density.averaging import Family, average, tried
from ldpbeam.density.curves import Curves, Scale, normalised
from ldpbeam.density.families import BEGINNINGS
from ldpbeam.density.families import numbers as weigh
from ldpbeam.density.likelihoods import Exact
from ldpbeam.density.modes import derivatives, log_posterior, mode_of
from ldpbeam.density.priors import SPIKE, Prior
from ldpbeam.density.spikes import spread
from ldpbeam.estimators import Question, estimate
from ldpbeam.estimators.auto import joined, numbers
from ldpbeam.estimators.auto.counted import of_channels, with_points
from ldpbeam.mechanisms import build_mechanism
from ldpbeam.metrics import wasserstein

Floats = NDArray[np.float64]
SCALES: tuple[Scale, ...] = ("log", "plain")
UNIT = Numeric(0.0, 1.0)


def attribute_of(*names: str, epsilon: float = 1.0, buckets: int = 64, together: bool = False) -> Attribute:
    versions = tuple(ServiceVersion(name, "", build_mechanism(name, UNIT, epsilon)) for name in names)
    return Attribute("a", UNIT, buckets, versions, names if together else (), joint_buckets=16)


def answered(question: Question, name: str = "auto") -> Floats:
    return estimate(name, question.attribute, question.statistic).distribution


def shares_of(values: Floats, buckets: int) -> Floats:
    return np.histogram(values, buckets, (0.0, 1.0))[0] / len(values)


def small(scale: Scale, reports: float = 4_000.0) -> tuple[Exact, Curves, Floats]:
    """(likelihood, basis, coefficients) where the counts are just what the coefficients lead to expect."""
    attribute = attribute_of("square_wave", buckets=12)
    matrix, sizes = attribute.channel(0).dense(), np.array([1, 2] * 6)
    basis = Prior(2, 3.0, scale).curves(sizes)
    coefficients = np.random.default_rng(3).normal(0.0, 0.5, basis.matrix.shape[1])
    _, shares = log_posterior(Exact(matrix, np.ones(12), sizes), basis, coefficients[:, None])
    return Exact(matrix, reports * (matrix @ shares[:, 0]), sizes), basis, coefficients


@pytest.mark.parametrize(
    ("name", "epsilon"), [("square_wave", 1.0), ("piecewise", 1.0), ("square_wave", 14.0)]
)
def test_products_by_steps_are_those_of_the_matrix(name: str, epsilon: float) -> None:
    """With few reports of a large epsilon, running sums would lose the smallest probabilities."""
    rng = np.random.default_rng(1)
    matrix = attribute_of(name, epsilon=epsilon, buckets=512).channel(0).dense()
    counts, shares, moves = (
        rng.integers(1, 9, len(matrix)),
        rng.dirichlet(np.ones(512), 3).T,
        rng.normal(size=(512, 4)),
    )
    likelihood = Exact(matrix, counts, np.ones(512, dtype=np.int64))
    assert (likelihood._steps is None) == (epsilon > 10.0)
    close = {"rtol": 1e-8, "atol": 1e-8 * counts.sum()}
    chances = matrix @ shares
    np.testing.assert_allclose(likelihood.values(shares), counts @ np.log(chances), **close)
    np.testing.assert_allclose(likelihood.slopes(shares), matrix.T @ (counts[:, None] / chances), **close)
    slopes, information = likelihood.expanded(shares[:, 0], moves)
    np.testing.assert_allclose(slopes, matrix.T @ (counts / chances[:, 0]), **close)
    ahead = matrix @ moves
    np.testing.assert_allclose(
        information, ahead.T @ ((counts / chances[:, 0] ** 2)[:, None] * ahead), **close
    )


def log_density(likelihood: Exact, basis: Curves, z: Floats) -> float:
    return float(log_posterior(likelihood, basis, z[:, None])[0][0])


def gradient(likelihood: Exact, basis: Curves, z: Floats) -> Floats:
    shares = log_posterior(likelihood, basis, z[:, None])[1][:, 0]
    return derivatives(likelihood, basis, z, shares).gradient


def falls(likelihood: Exact, basis: Curves, z: Floats) -> Floats:
    """Minus the second derivatives of the log density, by differences of the gradient."""
    h = 1e-5
    rows = [
        gradient(likelihood, basis, z - step) - gradient(likelihood, basis, z + step)
        for step in h * np.eye(len(z))
    ]
    return np.array(rows) / (2 * h)


@pytest.mark.parametrize("scale", SCALES)
def test_the_gradient_is_that_of_the_log_density(scale: Scale) -> None:
    likelihood, basis, expected = small(scale)
    z = expected + 0.3
    found, h = gradient(likelihood, basis, z), 1e-5
    for own, step in zip(found, h * np.eye(len(z)), strict=True):
        rise = log_density(likelihood, basis, z + step) - log_density(likelihood, basis, z - step)
        assert own == pytest.approx(rise / (2 * h), rel=1e-5, abs=1e-3)


@pytest.mark.parametrize("scale", SCALES)
def test_all_second_derivatives_are_those_of_the_log_density_anywhere(scale: Scale) -> None:
    likelihood, basis, expected = small(scale)
    z = expected + 0.3
    found = derivatives(likelihood, basis, z, log_posterior(likelihood, basis, z[:, None])[1][:, 0])
    assert np.abs(found.bent).max() > 10.0
    np.testing.assert_allclose(
        found.curvature - found.bent, falls(likelihood, basis, z), rtol=1e-5, atol=1e-3
    )


@pytest.mark.parametrize("scale", SCALES)
def test_the_mode_is_the_one_that_a_general_optimiser_finds(scale: Scale) -> None:
    likelihood, basis, expected = small(scale, 500.0)
    mode = mode_of(likelihood, basis, np.zeros(len(expected)))
    found = optimize.minimize(
        lambda z: -log_density(likelihood, basis, z), expected, jac=lambda z: -gradient(likelihood, basis, z),
        method="BFGS", options={"gtol": 1e-8},
    )  # fmt: skip
    assert mode.converged
    # Newton stops when it promises a gain of less than 1e-3.
    assert -found.fun - mode.log_density == pytest.approx(0.0, abs=1e-3)
    best = log_posterior(likelihood, basis, found.x[:, None])[1][:, 0]
    np.testing.assert_allclose(mode.shares, best, atol=2e-3)


@pytest.mark.parametrize(("reports", "error"), [(300.0, 3e-2), (30_000.0, 3e-4)])
def test_the_evidence_is_the_integral_over_the_prior(reports: float, error: float) -> None:
    # Two buckets: one coefficient, which has a standard normal prior. Laplace's error falls as 1 / reports.
    matrix = np.array([[0.7, 0.3], [0.3, 0.7]])
    likelihood = Exact(matrix, reports * np.array([0.45, 0.55]), np.array([1, 1]))
    basis = Prior(1, 2.0).curves(np.array([1, 1]))
    assert basis.matrix.shape == (2, 1)
    mode = mode_of(likelihood, basis, np.zeros(1))
    integral, _ = integrate.quad(
        lambda z: math.exp(log_density(likelihood, basis, np.array([z])) - mode.log_density),
        -8,
        8,
        points=[0.0],
    )
    exact = mode.log_density + math.log(integral) - 0.5 * math.log(2 * math.pi)
    assert mode.log_evidence == pytest.approx(exact, abs=error)


def test_on_the_plain_scale_the_density_is_softplus_of_one_plus_the_curve() -> None:
    heights = np.array([[-30.0, -3.0, -1.0, 0.0, 0.5, 40.0]]).T
    sizes = np.array([1, 1, 2, 1, 3, 1])
    curves = Curves(heights, sizes, "plain")
    one = np.ones((1, 1))
    expected = np.array([math.log1p(math.exp(10.0 * (1.0 + height))) for height in heights[:, 0]]) * sizes
    np.testing.assert_allclose(curves.shares(one)[:, 0], expected / expected.sum(), rtol=1e-12)
    # Above zero the density is 1 + the curve, and a hole is finite.
    assert curves.shares(one)[5, 0] / curves.shares(one)[4, 0] == pytest.approx(41.0 / 1.5 / 3.0, rel=5e-3)
    assert (curves.shares(one) > 0.0).all()
    h = 1e-6
    rise = np.log(curves.shares(one * (1 + h)) / curves.shares(one * (1 - h)))[:, 0] / (2 * h)
    slopes = curves.derivatives(np.ones(1))[0][:, 0]
    # A constant is free, because shares have a sum.
    np.testing.assert_allclose(rise - rise[3], slopes - slopes[3], rtol=1e-6, atol=1e-6)


def with_a_gap(rng: np.random.Generator, people: int) -> Floats:
    low = rng.random(people) < 0.4
    return np.where(low, rng.uniform(0.1, 0.3, people), rng.uniform(0.55, 0.95, people))


def test_where_there_is_a_gap_the_plain_scale_has_the_weight() -> None:
    attribute = attribute_of("square_wave", epsilon=3.0, buckets=128)
    fitted = numbers.fit(question_of(attribute, with_a_gap(np.random.default_rng(5), 100_000), 0))
    assert sum(own.weight for own in fitted.fits if own.prior.scale == "log") < 0.5


def test_a_prior_has_independent_differences_of_its_order() -> None:
    # So large a deviation that no term is left out.
    buckets, deviation = 40, 1e4
    for order in (1, 2, 3):
        basis = Prior(order, deviation).curves(np.ones(buckets, dtype=np.int64)).matrix[:, order - 1 :]
        differences = np.diff(basis, order, axis=0)
        scale = deviation * buckets ** (0.5 - order)
        np.testing.assert_allclose(
            differences @ differences.T, scale**2 * np.eye(buckets - order), atol=1e-6 * scale**2
        )


def power(curves: Curves, column: int) -> Floats:
    """The distribution that goes like 1 over the root of the distance to the low end of the support."""
    coefficients = np.zeros(curves.matrix.shape[1])
    coefficients[column] = -0.5
    return curves.shares(coefficients[:, None])[:, 0]


def test_with_ends_the_density_may_go_like_a_power_and_nobody_is_outside_of_the_support() -> None:
    curves = Prior(2, 1.0, ends=True, support=(0.25, 0.75)).curves(with_points(np.ones(64, dtype=np.int64)))
    # Columns: the line, then the two powers.
    shares = power(curves, 1)
    assert shares[:17].sum() + shares[49:].sum() < 1e-6
    roots = np.sqrt(np.arange(33) / 32)
    np.testing.assert_allclose(shares[17:49], np.diff(roots), rtol=1e-6)


def test_a_power_puts_people_nearer_to_the_end_than_even_in_the_last_block_too() -> None:
    sizes = with_points(np.ones(64, dtype=np.int64))
    shares = power(Prior(2, 1.0, ends=True).curves(sizes), 1)
    roots = np.sqrt(np.arange(65) / 64)
    ratios = np.array([shares[0] + shares[1], *shares[2:-2]]) / np.diff(roots)[:-1]
    np.testing.assert_allclose(ratios, ratios[0], rtol=1e-9)
    # Their mean place is at a third of the block: half of it for those that are even.
    assert 0.5 * shares[1] / (shares[0] + shares[1]) == pytest.approx(1.0 / 3.0)
    # With an atom at the end, its people are the atom's.
    spiked_end = power(Prior(2, 1.0, ends=True, spikes=(LOW,)).curves(sizes), 2)
    assert spiked_end[1] / spiked_end[2] == pytest.approx(np.diff(roots)[0] / np.diff(roots)[1])


@pytest.mark.parametrize("blocks", [16, 3.4, 27], ids=["a place", "between places", "far from places"])
def test_a_density_that_begins_inside_of_the_range_is_found(blocks: float) -> None:
    attribute = attribute_of("square_wave", epsilon=3.0, buckets=128)
    values = blocks / 256 + 0.15 * np.random.default_rng(3).exponential(size=50_000)
    fitted = numbers.fit(question_of(attribute, values[values < 1.0], 3))
    inner = [own for own in fitted.fits if own.prior.support[0] > 0.0]
    assert sum(own.weight for own in inner) > 0.95
    # Over three seeds the likeliest places are up to 1.4 blocks away; a report bucket is two blocks wide.
    likeliest = max(inner, key=lambda own: own.weight).prior.support[0]
    assert 256 * likeliest == pytest.approx(blocks, abs=1.5)


def test_places_of_an_edge_are_halved_only_where_densities_with_edges_are_likeliest() -> None:
    rng = np.random.default_rng(4)
    attribute, found = attribute_of("square_wave", epsilon=3.0, buckets=128), []
    for values in (rng.beta(2, 5, 50_000), 3.4 / 256 + 0.1 * rng.exponential(size=50_000)):
        fitted = numbers.fit(question_of(attribute, np.minimum(values, 1.0), 4))
        found.append({own.prior.support[0] for own in fitted.fits} - {0.0, *BEGINNINGS})
    assert not found[0] and found[1]


def test_a_spike_adds_an_independent_height_of_its_block() -> None:
    sizes = np.ones(40, dtype=np.int64)
    spiky, below = Prior(2, 1.7, spikes=(3, 20)).curves(sizes).matrix, Prior(2, 1.7).curves(sizes).matrix
    heights = np.zeros(40)
    heights[[3, 20]] = SPIKE**2
    np.testing.assert_allclose(spiky @ spiky.T - below @ below.T, np.diag(heights), atol=1e-9)


def test_spikes_are_found_where_they_are_and_smooth_populations_have_none() -> None:
    rng = np.random.default_rng(9)
    smooth = rng.beta(2, 3, 50_000)
    spiky = np.where(rng.random(50_000) < 0.2, 0.31, np.where(rng.random(50_000) < 0.1, 0.72, smooth))
    attribute, found = attribute_of("square_wave", epsilon=3.0, buckets=64), []
    for values in (spiky, smooth):
        fitted = numbers.fit(question_of(attribute, values, 3))
        found.append(fitted.fits)
    likeliest = max(found[0], key=lambda own: own.weight).prior.spikes
    # Reports move a spike by less than the width of a report bucket, four of 256 blocks.
    assert sorted(likeliest) == pytest.approx([0.31 * 256, 0.72 * 256], abs=4)
    weights = [sum(own.weight for own in fits if own.prior.spikes) for fits in found]
    assert weights[0] > 0.9 and weights[1] < 0.1


@pytest.mark.parametrize("reports", [100.0, 400.0, 800.0, 1e6])
def test_a_spike_is_as_wide_as_what_the_reports_leave_open_of_its_place(reports: float) -> None:
    """Beside the mode that is found anew in each place, weighed by its log posterior density."""
    matrix, sizes = attribute_of("square_wave", epsilon=2.0, buckets=32).channel(0).dense(), np.ones(32)
    smooth = Prior(2, 1.0).curves(sizes).shares(np.zeros((31, 1)))[:, 0]
    likelihood = Exact(matrix, reports * matrix @ (0.8 * smooth + 0.2 * (np.arange(32) == 12)), sizes)
    moved = [next(tried(likelihood, Family([Prior(2, 1.0, spikes=(place,))]))) for place in range(32)]
    logs = np.array([[own.mode.log_density] for own in moved])
    wanted = np.column_stack([own.mode.shares for own in moved]) @ normalised(logs)[:, 0]
    found = spread(likelihood, [replace(moved[12], weight=1.0)])
    assert found.sum() == pytest.approx(1.0)
    mode = moved[12].mode.shares
    assert np.abs(found - wanted).sum() <= 0.5 * np.abs(mode - wanted).sum() + 1e-9
    assert (found[12] < 0.9 * mode[12]) == (reports < 1_000.0)


def test_a_block_has_one_spike() -> None:
    values = np.random.default_rng(3).choice([0.2, 0.35, 0.7, 0.9], 20_000)
    question = question_of(attribute_of("square_wave", epsilon=2.0, buckets=256), values, 4)
    fitted = numbers.fit(question)
    spikes = [fit.prior.spikes for fit in fitted.fits]
    assert max(map(len, spikes)) > 2
    assert all(len(set(places)) == len(places) for places in spikes)


def test_the_expansion_of_a_joint_likelihood_leads_where_the_likelihood_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    values = np.random.default_rng(2).beta(2, 3, 1_000)
    attribute = attribute_of("stochastic_rounding", "piecewise", "square_wave", buckets=32, together=True)
    question = question_of(attribute, values, 5)
    assert joined.JoinedLikelihood(question).exact is not None
    exact = answered(question)
    monkeypatch.setattr(joined, "EXACT_ENTRIES", 0)
    # The fit of the last question is kept.
    expanded = answered(question_of(attribute, values, 5))
    assert np.abs(expanded - exact).max() > 0.0
    # The answer's own error is about 0.02.
    assert wasserstein(expanded, exact) < 2e-3


def test_inside_of_few_buckets_the_density_is_not_even() -> None:
    values = np.random.default_rng(1).beta(2.0, 5.0, 100_000)
    attribute = attribute_of("square_wave", "piecewise", epsilon=2.0, buckets=10, together=True)
    found = estimate("auto", attribute, question_of(attribute, values, 2).statistic)
    # If it were even there, the distance would be 0.0036.
    assert np.abs(np.cumsum(found.distribution - shares_of(values, 10))).mean() < 0.002
    # If it were even there, the variance would be 6% too large; the standard error is 0.8%.
    assert found.variance == pytest.approx(values.var(), rel=0.03)


def test_a_single_report_and_reports_that_are_all_alike_have_an_answer() -> None:
    attribute = attribute_of("square_wave", buckets=128)
    for people in (1, 5_000):
        question = question_of(attribute, np.full(people, 0.3), 1)
        histogram = np.zeros_like(question.statistic.histograms[0])
        histogram[40] = people
        likelihood = of_channels([attribute.channel(0)], [histogram.astype(np.float64)])
        shares = average(weigh(likelihood))
        assert np.isfinite(shares).all()
        assert shares.sum() == pytest.approx(1.0)
    assert answered(question_of(attribute, np.array([0.3]), 1)).sum() == pytest.approx(1.0)


def test_a_point_mass_is_found() -> None:
    question = question_of(attribute_of("square_wave", epsilon=2.0, buckets=128), np.full(100_000, 0.314), 1)
    assert wasserstein(answered(question), shares_of(np.array([0.314]), 128)) < 0.01


@pytest.mark.parametrize(("buckets", "b"), [(2, 1.0), (3, 1.0), (4, 5.0), (1_024, 5.0)])
def test_it_takes_few_buckets_and_many(buckets: int, b: float) -> None:
    # Two report buckets tell the mean only, which is enough for an even distribution, Beta(1, 1).
    values = np.random.default_rng(6).beta(1 + (b > 1.0), b, 100_000)
    found = answered(question_of(attribute_of("piecewise", buckets=buckets), values, 2))
    assert wasserstein(found, shares_of(values, buckets)) < 0.01


def test_it_says_what_it_chose() -> None:
    question = question_of(attribute_of("square_wave"), stats.beta(2, 5).rvs(20_000, random_state=1), 1)
    found = estimate("auto", question.attribute, question.statistic)
    assert str(found.details["chosen"]).startswith("average of ")
    weights = found.details["weights"]
    assert all("density, order" in name for name in weights)
    # Those below one percent have no name.
    assert 0.8 < sum(weights.values()) <= 1.0 + 1e-12
    assert found.converged
    assert found.mean is not None
