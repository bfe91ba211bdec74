"""HM, the Gaussian mechanism, waves of any shape, and discrete SW: what each of them alone promises.

What they share with other mechanisms is in ``laws.py``, their published moments in
``test_published_numbers.py``.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import integrate

from ldpbeam import Answers, Attribute, Numeric, ServiceVersion, build_mechanism, tally
from ldpbeam.channels import DenseChannel, MixtureChannel
from ldpbeam.estimators import estimate
from ldpbeam.mechanisms import Piecewise, SquareWave, StochasticRounding
from ldpbeam.mechanisms.numbers.discrete_square_wave import DiscreteSquareWave
from ldpbeam.mechanisms.numbers.gaussian import Gaussian, hockey_stick
from ldpbeam.mechanisms.numbers.general_wave import GeneralWave
from ldpbeam.mechanisms.numbers.hybrid import Hybrid

UNIT = Numeric(0.0, 1.0)


# HM


@pytest.mark.parametrize(
    ("epsilon", "shape"), [(0.62, (1, 1)), (1.0, (7, 12)), (5.0, (12, 7)), (0.62, (256, 512))]
)
def test_hybrids_channel_is_the_mixture_of_its_two(epsilon: float, shape: tuple[int, int]) -> None:
    channel = Hybrid(epsilon).channel(*shape)
    assert isinstance(channel, MixtureChannel)
    s = math.exp(epsilon / 2)
    pm, sr = Piecewise(epsilon).channel(*shape), StochasticRounding(epsilon).channel(*shape)
    expected = np.vstack([(1 - 1 / s) * pm.dense(), sr.dense() / s])
    np.testing.assert_allclose(channel.dense(), expected, rtol=0, atol=1e-15)


@pytest.mark.parametrize("epsilon", [1e-5, 0.5, 0.61])
def test_hybrid_is_stochastic_rounding_at_small_epsilon(epsilon: float) -> None:
    hybrid, alone = Hybrid(epsilon), StochasticRounding(epsilon)
    assert isinstance(hybrid.channel(9, 9), DenseChannel)
    np.testing.assert_array_equal(hybrid.channel(9, 7).dense(), alone.channel(9, 7).dense())
    values = np.random.default_rng(1).random(1000)
    reports = hybrid.perturb(values, np.random.default_rng(2))
    assert set(np.abs(reports)) == {alone.bound}
    assert hybrid.bucketise(reports, 9).tolist() == (reports > 0).tolist()
    assert not hybrid.is_report(np.array([0.0, 0.999 * alone.bound])).any()
    assert hybrid.output() == alone.output()
    assert hybrid.variance_polynomial == pytest.approx(alone.variance_polynomial, rel=1e-15)


@pytest.mark.parametrize(("epsilon", "better"), [(0.605, False), (0.615, True)])
def test_mixing_starts_where_it_lowers_the_worst_variance(epsilon: float, better: bool) -> None:
    s, B = math.exp(epsilon / 2), StochasticRounding(epsilon).bound
    mixed = (s + 3) / (3 * s * (s - 1)) + B**2 / s
    assert (mixed < B**2) == better
    worst = 4 * Hybrid(epsilon).variance(np.linspace(0, 1, 101)).max()
    assert worst == pytest.approx(mixed if better else B**2, rel=1e-12)


@pytest.mark.parametrize("epsilon", [0.62, 1.0, 5.0])
def test_hybrids_two_reports_of_rounding_have_cells_of_their_own(epsilon: float) -> None:
    hybrid, B = Hybrid(epsilon), StochasticRounding(epsilon).bound
    atoms = np.array([-B, B])
    for sent in (atoms, atoms.astype(np.float32).astype(np.float64)):
        assert hybrid.is_report(sent).all()
        assert hybrid.bucketise(sent, 40).tolist() == [40, 41]
    beside = np.concatenate((atoms * (1 - 1e-5), atoms * (1 + 1e-5)))
    assert hybrid.is_report(beside).all()
    assert (hybrid.bucketise(beside, 40) < 40).all()


# The Gaussian mechanism


@pytest.mark.parametrize("delta", [1e-15, 1e-6, 0.01, 0.499])
def test_the_least_noise_for_delta_is_found_at_every_epsilon(delta: float) -> None:
    for epsilon in (1.1e-6, 1e-5, 0.1, 1.0, 5.0, 20.0):
        mechanism = Gaussian(epsilon, delta)
        sigma = mechanism.sigma
        # 1e-6: how far rounding moves delta where it is 1e-15; a hundred times less at 1e-6.
        assert hockey_stick(sigma, epsilon) == pytest.approx(delta, rel=1e-6)
        assert hockey_stick(0.999 * sigma, epsilon) > delta
        matrix = mechanism.channel(64, 48).dense()
        assert matrix.min() > 0.0
        np.testing.assert_allclose(matrix.sum(axis=0), 1.0, rtol=0, atol=1e-14)


def test_classical_calibration_is_the_books_and_needs_more_noise() -> None:
    for epsilon in (0.1, 0.5, 1.0):
        for delta in (1e-9, 1e-6, 1e-3, 0.1):
            classical = Gaussian(epsilon, delta, "classical")
            assert classical.sigma == pytest.approx(2 * math.sqrt(2 * math.log(1.25 / delta)) / epsilon)
            assert hockey_stick(classical.sigma, epsilon) < delta
            assert classical.sigma > 1.1 * Gaussian(epsilon, delta).sigma
    with pytest.raises(ValueError, match=r"proven up to epsilon 1, found 1\.1; use calibration: analytic"):
        Gaussian(1.1, 1e-6, "classical")


def test_delta_and_calibration_are_part_of_the_mechanism() -> None:
    mechanism = build_mechanism("gaussian", UNIT, 1.0, delta=1e-5, calibration="classical")
    assert mechanism.delta == 1e-5
    assert mechanism.parameters == {
        "mechanism": "gaussian", "epsilon": 1.0, "delta": 1e-5, "calibration": "classical",
    }  # fmt: skip
    assert Gaussian(1.0).delta == 1e-6
    with pytest.raises(ValueError, match="must be analytic or classical, found 'exact'"):
        Gaussian(1.0, calibration="exact")


def test_gaussian_end_cells_hold_what_lies_beyond_the_equal_ones() -> None:
    mechanism = Gaussian(20.0, 0.4)
    reach = 1 + 4 * mechanism.sigma
    edges = np.linspace(-reach, reach, 8)
    inside = np.concatenate([edges[:-1] + 1e-9, edges[1:] - 1e-9])
    assert mechanism.bucketise(inside, 7).tolist() == [*range(1, 8), *range(1, 8)]
    assert mechanism.bucketise(np.array([-13.0, edges[0] - 1e-9, edges[-1] + 1e-9, 13.0]), 7).tolist() == [
        0, 0, 8, 8,
    ]  # fmt: skip


# Waves of any shape


def wave_density(mechanism: GeneralWave, x: float, y: float) -> float:
    """The density as section 6.4 words it, from b and epsilon alone: its integral is one by solving for q."""
    E, b, top = math.exp(mechanism.epsilon), mechanism.b, mechanism.top
    distance = abs(y - x)
    q = 1 / (1 + 2 * b + (E - 1) * (b + b * top))
    if distance <= top * b:
        return E * q
    if distance >= b:
        return q
    return q + (E - 1) * q * (b - distance) / (b - b * top)


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 3.0])
def test_a_wave_with_a_flat_top_is_the_square_wave(epsilon: float) -> None:
    square, wave = SquareWave(epsilon), GeneralWave(epsilon, top=1.0)
    for shape in ((1, 1), (7, 12), (64, 48), (256, 256)):
        found, expected = wave.channel(*shape).dense(), square.channel(*shape).dense()
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    assert wave.densities == pytest.approx(square.densities, rel=1e-14)
    assert wave.report_range == square.report_range
    assert wave.unbiased_map == pytest.approx(square.unbiased_map, rel=1e-12)
    assert wave.variance_polynomial == pytest.approx(square.variance_polynomial, rel=1e-12)


@pytest.mark.parametrize(
    ("epsilon", "top", "half_width"),
    [
        (0.1, 0.0, None), (1.0, 0.2, None), (4.0, 0.6, None), (1.0, 1.0, None),
        (4.0, 0.0, 0.05), (0.1, 0.6, 0.05), (4.0, 1.0, 0.05),
        (1.0, 0.0, 0.8), (4.0, 0.2, 0.8), (0.1, 1.0, 0.8),
    ],
)  # fmt: skip
def test_a_waves_density_cells_mean_and_variance_by_integration(
    epsilon: float, top: float, half_width: float | None
) -> None:
    mechanism = GeneralWave(epsilon, top, half_width)
    b = mechanism.b
    assert b == (half_width or SquareWave(epsilon).half_width)
    x = 0.3
    kinks = sorted({x - b, x - top * b, x + top * b, x + b})
    total, first, second = (
        integrate.quad(
            lambda y, k=k: y**k * wave_density(mechanism, x, y), -b, 1 + b, points=kinks, epsabs=1e-13
        )[0]
        for k in range(3)
    )
    assert total == pytest.approx(1.0, abs=1e-12)
    slope, intercept = mechanism.unbiased_map
    assert slope * first + intercept == pytest.approx(x, abs=1e-11 * slope)
    assert mechanism.variance(x) == pytest.approx(slope**2 * (second - first**2), rel=1e-10)
    edges = np.linspace(-b, 1 + b, 4)
    expected = []
    for low, high in itertools.pairwise(edges):
        places = np.unique(np.clip([low, *kinks, high], low, high))
        # Between kinks the density is a line, which two Gauss-Legendre nodes integrate.
        expected.append(
            sum(
                integrate.fixed_quad(np.vectorize(lambda y: wave_density(mechanism, x, y)), u, w, n=2)[0]
                for u, w in itertools.pairwise(places)
            )
        )
    np.testing.assert_allclose(mechanism.at(np.array([x]), 3)[:, 0], expected, rtol=0, atol=1e-13)


# Discrete SW


def discrete(epsilon: float, bins: int) -> DiscreteSquareWave:
    return build_mechanism("discrete_square_wave", Numeric(-3.0, 7.0), epsilon, bins=bins)


@pytest.mark.parametrize(("epsilon", "bins"), [(0.1, 2), (1.0, 5), (4.0, 8), (0.1, 64)])
def test_discrete_square_wave_is_the_papers_table(epsilon: float, bins: int) -> None:
    E = math.exp(epsilon)
    b = math.floor((epsilon * E - E + 1) / (2 * E * (E - 1 - epsilon)) * bins)
    mechanism = discrete(epsilon, bins)
    assert (mechanism.half_width, mechanism.outputs) == (b, bins + 2 * b)
    q = 1 / ((2 * b + 1) * E + bins - 1)
    expected = np.full((bins + 2 * b, bins), q)
    for k in range(bins):
        for offset in range(-b, b + 1):
            expected[k + b + offset, k] = E * q
    np.testing.assert_allclose(mechanism.channel(bins, 1).dense(), expected, rtol=1e-12)
    np.testing.assert_allclose(expected.sum(axis=0), 1.0, rtol=1e-12)


def test_means_of_discrete_square_wave_are_those_of_its_outputs() -> None:
    mechanism, users = discrete(1.0, 32), 20_000
    versions = (ServiceVersion("s", "", mechanism),)
    attribute = Attribute("x", Numeric(-3.0, 7.0), 64, versions, joint_services=("s",))
    rng = np.random.default_rng(3)
    values = rng.beta(2, 5, users)
    reports = mechanism.perturb(values, rng)
    statistic = tally(attribute, users, [Answers(0, np.arange(users), reports)])
    (moments,) = statistic.moments.values()
    assert moments.sums == (int(reports.astype(np.int64).sum()),)
    assert moments.squares == (int((reports.astype(np.int64) ** 2).sum()),)
    found = estimate("ivw", attribute, statistic)
    assert found.mean == pytest.approx(-3.0 + 10.0 * float(mechanism.unbiased(reports).mean()), rel=1e-9)
    midpoints = (np.floor(32 * values) + 0.5) / 32
    assert abs(found.mean - (-3.0 + 10.0 * midpoints.mean())) < 4.0 * found.standard_error
    noise = float(mechanism.variance(midpoints).mean())
    # EMS knows the midpoints' variance from the reports alone.
    assert found.standard_error == pytest.approx(10.0 * math.sqrt(noise / users), rel=0.02)


def test_statistics_without_sums_of_outputs_are_of_another_mechanism() -> None:
    assert discrete(1.0, 64).parameters["sums"] == "outputs"


def test_buckets_that_bins_do_not_divide_are_refused() -> None:
    mechanism = discrete(1.0, 64)
    for buckets in (100, 32):
        with pytest.raises(ValueError, match=f"64 bins need a multiple of 64 value buckets, found {buckets}"):
            mechanism.channel(buckets, 100)
