"""What makes frequencies of unbiased shares, against loops; and what EM says of its end."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import optimize, stats
from support import asked

from ldpbeam import Attribute, Numeric, ServiceVersion, build_mechanism
from ldpbeam.channels import DenseChannel
from ldpbeam.estimators import Question, estimate
from ldpbeam.estimators.conjugate import most_likely
from ldpbeam.estimators.em import fit_channel
from ldpbeam.estimators.frequencies import norm_cut, norm_mul, norm_sub
from ldpbeam.estimators.iteration import Trace
from ldpbeam.mechanisms import (
    FrequencyMechanism,
    Haar,
    Hierarchy,
    LocalHashing,
    OptimisedUnaryEncoding,
    Piecewise,
    RandomisedResponse,
    SquareWave,
    SymmetricUnaryEncoding,
)
from ldpbeam.mechanisms.categories.unary_encoding import UnaryEncoding
from ldpbeam.mechanisms.numbers.discrete_square_wave import DiscreteSquareWave
from ldpbeam.mechanisms.numbers.general_wave import GeneralWave
from ldpbeam.mechanisms.numbers.hybrid import Hybrid
from ldpbeam.mechanisms.ranges.binned import Binned
from ldpbeam.metrics import quantiles, range_share
from ldpbeam.statistics import Answers, Moments, Statistic, empty, tally

Floats = NDArray[np.float64]
UNIT = Numeric(0.0, 1.0)
reproducibly = settings(derandomize=True, deadline=None, max_examples=60)
#: Sixteenths, which are exact: many are equal, and sums of exactly one are common.
sixteenths = st.lists(st.integers(-16, 16).map(lambda i: i / 16), min_size=2, max_size=12)


def shares_of(seed: int, size: int, noise: float) -> Floats:
    """Something like unbiased shares: a distribution and noise, of sum one."""
    rng = np.random.default_rng(seed)
    raw = rng.dirichlet(np.full(size, 0.3)) + rng.normal(0.0, noise, size)
    return raw + (1.0 - raw.sum()) / size


some_shares = st.builds(shares_of, st.integers(0, 2**32 - 1), st.integers(2, 40), st.floats(0.001, 3.0))
any_shares = st.one_of(sixteenths, some_shares.map(lambda values: values.tolist()))


def attribute_of(*mechanisms: Any) -> Attribute:
    return asked.attribute_of(asked.categories(mechanisms[0].bins), *mechanisms)


def counted(attribute: Attribute, histogram: Any, reports: int) -> Statistic:
    """The statistic of one service's reports that were counted elsewhere."""
    moments = {1: Moments(reports, (0,), (0,))}
    histograms = (np.asarray(histogram, dtype=np.int64),)
    return dataclasses.replace(
        empty(attribute), reports=reports, users=reports, histograms=histograms, moments=moments
    )


def cut_one_by_one(shares: Sequence[float]) -> list[float]:
    """Norm-Cut in steps: while the sum is above one, the smallest share goes; of equal ones the last."""
    values = [max(share, 0.0) for share in shares]
    while math.fsum(values) > 1.0 + 1e-12 and sum(value > 0 for value in values) > 1:
        smallest = min(value for value in values if value > 0)
        values[max(i for i, value in enumerate(values) if value == smallest)] = 0.0
    return values


@reproducibly
@given(shares=any_shares)
def test_norm_cut_drops_the_smallest_shares_one_by_one(shares: list[float]) -> None:
    before = list(shares)
    found = norm_cut(shares)
    assert found.tolist() == cut_one_by_one(shares)
    assert shares == before
    kept = found > 0
    assert found[kept].tolist() == np.asarray(shares)[kept].tolist()
    cut = np.maximum(shares, 0.0)[~kept]
    if kept.any():
        assert cut.max(initial=0.0) <= found[kept].min()
        assert found.sum() <= 1.0 + 1e-9 or kept.sum() == 1
        # No more was cut than had to be: with the largest of what was, the sum is above one.
        assert not cut.any() or found.sum() + cut.max() > 1.0


@reproducibly
@given(shares=any_shares)
def test_norm_mul_keeps_the_ratios_of_positive_shares(shares: list[float]) -> None:
    assume(max(shares) > 0)
    found = norm_mul(shares)
    total = math.fsum(share for share in shares if share > 0)
    np.testing.assert_allclose(found, [share / total if share > 0 else 0.0 for share in shares], rtol=1e-12)
    assert found.sum() == pytest.approx(1.0, abs=1e-12)


def test_norm_mul_of_nothing_positive_is_the_uniform_guess_with_a_warning() -> None:
    # Every bit of OUE unset: all shares are -q / (p - q).
    attribute = attribute_of(OptimisedUnaryEncoding(1.0, size=4))
    found = estimate("norm_mul", attribute, counted(attribute, [10, 0] * 4, 10))
    assert found.distribution is not None
    assert found.distribution.tolist() == [0.25] * 4
    assert found.warnings == ("no share is above zero",)
    usual = estimate("norm_mul", attribute, counted(attribute, [1, 9, 7, 3, 7, 3, 7, 3], 10))
    assert usual.warnings == ()


def test_what_is_kept_of_a_threshold_is_unbiased_as_it_was() -> None:
    mechanism, n = RandomisedResponse(1.0, size=5), 1000
    attribute = attribute_of(mechanism)
    histogram = [500, 250, 120, 100, 30]
    statistic = counted(attribute, histogram, n)
    E = math.e
    p, q = E / (E + 4), 1 / (E + 4)
    shares = [(count / n - q) / (p - q) for count in histogram]
    deviation = math.sqrt((5 - 2 + E) / (E - 1) ** 2 / n)
    for name, options, deviations in (
        ("base_cut", {}, 2.0),
        ("base_cut", {"deviations": 3.5}, 3.5),
        ("threshold", {}, float(stats.norm.isf(0.01))),
        ("threshold", {"significance": 0.5}, float(stats.norm.isf(0.1))),
        ("threshold", {"significance": 1.0}, float(stats.norm.isf(0.2))),
    ):
        found = estimate(name, attribute, statistic, options=options)
        assert found.details["threshold"] == pytest.approx(deviations * deviation, rel=1e-12, abs=1e-12)
        expected = [share if share >= deviations * deviation else 0.0 for share in shares]
        assert 0.0 in expected[1:]
        np.testing.assert_allclose(found.distribution, expected, rtol=1e-12)
        assert found.warnings == ()


@pytest.mark.parametrize("name", ["base_cut", "threshold"])
def test_where_nothing_is_kept_a_warning_says_so(name: str) -> None:
    attribute = attribute_of(RandomisedResponse(1.0, size=5))
    # Of 70 reports a category that nobody has gets 70 / (e + 4) = 10.4 by chance, of 65 9.7.
    for reports, chance in ((70, ""), (65, "9.7"), (10, "1.5")):
        counts = [reports // 5] * 5
        found = estimate(name, attribute, counted(attribute, counts, reports))
        assert found.distribution is not None
        assert found.distribution.tolist() == [0.0] * 5
        assert found.warnings[-1].startswith("every share is below the threshold of ")
        told = f"a category that nobody has is reported {chance} times by chance, too rarely"
        assert len(found.warnings) == 1 + bool(chance)
        assert found.warnings[0].startswith(told) == bool(chance)
    # Of OUE there is no such warning: only of GRR are the counts of the others so few.
    unary = attribute_of(OptimisedUnaryEncoding(4.0, size=5))
    assert estimate(name, unary, counted(unary, of_set_bits([20, 5, 0, 1, 0], 40), 40)).warnings == ()


def test_shares_and_chances_above_one_or_not_above_zero_are_refused() -> None:
    attribute = attribute_of(RandomisedResponse(1.0, size=5))
    statistic = counted(attribute, [200] * 5, 1000)
    wrong: list[Any] = [0, 0.0, -0.1, 1.001, 100.0, True, "0.5", math.nan, math.inf, None]
    for name, option in (("threshold", "significance"), ("mr", "keep")):
        told = f"option '{option}' is a number above 0 and at most 1, found"
        # None is the default of mr.
        for value in wrong[: len(wrong) - (name == "mr")]:
            with pytest.raises(ValueError, match=told):
                estimate(name, attribute, statistic, options={option: value})
        for good in (1, 1.0, 0.001):
            assert estimate(name, attribute, statistic, options={option: good}).estimator == name


# Shares of a category weigh less by what few people say of everybody, as far as they are others.
GRR, OUE = RandomisedResponse(8.0, size=10), OptimisedUnaryEncoding(4.0, size=10)


def of_two(others: int, seed: int, few: int = 1000, many: int = 40_000) -> tuple[Attribute, Statistic]:
    """GRR's few people and OUE's many, ``others`` of the few not among the many; of shares that halve."""
    attribute, rng, people = attribute_of(GRR, OUE), np.random.default_rng(seed), many + others
    values = rng.choice(10, people, p=HALVING)
    rows = np.arange(people - few, people), np.arange(many)
    answers = [
        Answers(i, own, m.perturb(values[own], rng))
        for i, (own, m) in enumerate(zip(rows, (GRR, OUE), strict=True))
    ]
    return attribute, tally(attribute, people, answers)


HALVING = 0.5 ** np.arange(10) / (0.5 ** np.arange(10)).sum()


# Where the same 1,000 people answer both, perturbation alone counts.
@pytest.mark.parametrize(("others", "many"), [(0, 1000), (0, 1500), (250, 1500), (1000, 1500)])
def test_services_are_weighted_by_perturbation_and_as_far_as_apart_by_sampling(
    others: int, many: int
) -> None:
    attribute, statistic = of_two(others, 1, many=many)
    # So many of both services' reports are of people who answered no other.
    apart = (others + many - (1000 - others)) / (1000 + many)
    E, F = math.exp(8.0), math.exp(4.0)
    noise = (8 + E) / (E - 1) ** 2, 4 * F / (F - 1) ** 2
    weights = [n / (own + apart * 0.09) for n, own in zip((1000, many), noise, strict=True)]
    alone = [estimate("inversion", attribute, statistic, (name,)).distribution for name in ("s0", "s1")]
    found = estimate("inversion", attribute, statistic)
    np.testing.assert_allclose(found.distribution, np.average(alone, axis=0, weights=weights), rtol=1e-9)
    # What a threshold is in is the perturbation alone: a category that nobody has has no sampling error.
    variance = sum(w**2 * own / n for w, own, n in zip(weights, noise, (1000, many), strict=True))
    expected = 2 * math.sqrt(variance) / sum(weights)
    cut = estimate("base_cut", attribute, statistic)
    assert cut.details["threshold"] == pytest.approx(expected, rel=1e-9)


BINNED = Attribute("x", UNIT, 16, (ServiceVersion("s", "", Binned(1.0, bins=4, oracle="grr")),))
# Shares of about 0.68, 0.55, -0.05 and -0.18.
BIN_COUNTS = [380, 340, 160, 120]


def bin_shares() -> Floats:
    p, q = math.e / (math.e + 3), 1 / (math.e + 3)
    return (np.array(BIN_COUNTS) / 1000 - q) / (p - q)


def spread(bins: Any) -> Floats:
    return np.repeat(np.asarray(bins) / 4, 4)


@pytest.mark.parametrize(
    ("name", "repaired"),
    [("inversion", lambda shares: shares), ("norm_sub", norm_sub), ("norm_mul", norm_mul)],
)
def test_of_bins_shares_are_spread_evenly_after_or_before_they_are_repaired(name: str, repaired: Any) -> None:
    found = estimate(name, BINNED, counted(BINNED, BIN_COUNTS, 1000)).distribution
    np.testing.assert_allclose(found, spread(repaired(bin_shares())), atol=1e-14)


@pytest.mark.parametrize(
    "name",
    [
        "base_cut",
        "threshold",
        "norm_cut",
    ],
)
def test_a_bin_is_kept_whole_or_not_at_all(name: str) -> None:
    # 0.68 and 0.55 are more than one, so Norm-Cut has to choose.
    found = estimate(name, BINNED, counted(BINNED, BIN_COUNTS, 1000)).distribution
    assert found is not None
    shares = bin_shares()
    deviation = math.sqrt((4 - 2 + math.e) / (math.e - 1) ** 2 / 1000)
    limits = {"base_cut": 2 * deviation, "threshold": stats.norm.isf(0.05 / 4) * deviation, "norm_cut": 0.6}
    assert (shares >= limits[name]).sum() == (1 if name == "norm_cut" else 2)
    np.testing.assert_allclose(found, spread(np.where(shares >= limits[name], shares, 0.0)), atol=1e-14)


def moments_of(shares: Floats) -> tuple[float, float]:
    """Mean and variance of shares of sum one, even within their buckets, by integrals of x and x^2."""
    edges = np.linspace(0.0, 1.0, len(shares) + 1)
    first = float(shares @ np.diff(edges**2) / 2 * len(shares))
    second = float(shares @ np.diff(edges**3) / 3 * len(shares))
    return first, second - first**2


@pytest.mark.parametrize("name", ["inversion", "norm_sub", "norm_mul", "norm_cut", "base_cut"])
def test_mean_and_variance_are_of_the_shares_scaled_to_one(name: str) -> None:
    found = estimate(name, BINNED, counted(BINNED, BIN_COUNTS, 1000))
    assert found.distribution is not None
    total = float(found.distribution.sum())
    # 0.68 alone, and 0.68 + 0.55: those two are not of sum one.
    assert (abs(total - 1) > 0.2) == (name in ("norm_cut", "base_cut"))
    mean, variance = moments_of(found.distribution / total)
    assert found.mean == pytest.approx(mean, rel=1e-12)
    # Unbiased shares may be negative, and then have a variance that no values have.
    assert found.variance == pytest.approx(max(variance, 0.0), rel=1e-12)
    told = (
        f"the shares add up to {total:.3g}, so mean, variance and quantiles are of the shares scaled to one"
    )
    assert found.warnings == ((told,) if name in ("norm_cut", "base_cut") else ())


def test_of_shares_that_add_up_to_nothing_there_is_no_mean() -> None:
    found = estimate("base_cut", BINNED, counted(BINNED, [250] * 4, 1000), options={"deviations": 50.0})
    assert found.distribution is not None
    assert found.distribution.tolist() == [0.0] * 16
    assert found.mean is None
    assert found.variance is None
    assert len(found.warnings) == 2
    assert found.warnings[0].startswith("every share is below the threshold of ")
    assert found.warnings[1].startswith("the shares add up to 0")


def test_a_sum_is_off_from_a_hundredth_on_and_only_of_numbers() -> None:
    question = Question(BINNED, counted(BINNED, BIN_COUNTS, 1000), ("s",))
    for total, off in ((0.991, False), (1.009, False), (0.989, True), (1.011, True)):
        found = question.answer_distribution("e", np.full(16, total / 16), warnings=("first",))
        assert found.mean == pytest.approx(0.5, rel=1e-12)
        assert found.warnings[:1] == ("first",)
        assert len(found.warnings) == 1 + off
    colours = attribute_of(RandomisedResponse(1.0, size=5))
    question = Question(colours, counted(colours, [200] * 5, 1000), ("s0",))
    found = question.answer_distribution("e", np.full(5, 0.5))
    assert (found.mean, found.variance, found.warnings) == (None, None, ())


TREES = {
    "hierarchy 64": (Hierarchy(1.0, branching=4, leaves=64), True),
    "hierarchy 16": (Hierarchy(1.0, branching=4, leaves=16), False),
    "haar 64": (Haar(1.0, leaves=64), True),
    "haar 32": (Haar(1.0, leaves=32), False),
    "binned 64": (Binned(1.0, bins=64, oracle="olh"), False),
}


@pytest.mark.parametrize("tree", TREES)
def test_repairing_many_leaves_one_by_one_warns(tree: str) -> None:
    mechanism, warned = TREES[tree]
    attribute = Attribute("x", UNIT, 128, (ServiceVersion("s", "", mechanism),))
    rng = np.random.default_rng(4)
    reports = mechanism.perturb(rng.beta(2, 5, 5000), rng)
    statistic = tally(attribute, 5000, [Answers(0, np.arange(5000), reports)])

    def told(name: str) -> int:
        return str(estimate(name, attribute, statistic).warnings).count("leaves")

    for name in ("norm_sub", "norm_cut", "norm_mul", "base_cut", "threshold", "iiw"):
        assert told(name) == warned, name
    # Nothing is repaired of unbiased shares, nor leaf by leaf.
    for name in ("inversion", "ems"):
        assert told(name) == 0


def of_set_bits(set_bits: Sequence[int], reports: int) -> list[int]:
    """The histogram of reports that have these bits set so often."""
    return [count for present in set_bits for count in (reports - present, present)]


@pytest.mark.parametrize("counts", [[900, 700, 400, 380, 365], [900, 500, 300, 100, 60]])
@pytest.mark.parametrize("name", ["oue", "sue"])
def test_the_closed_form_of_unary_encodings_is_where_em_of_their_set_bits_ends(
    name: str, counts: list[int]
) -> None:
    mechanism = build_mechanism(name, asked.categories(5), 1.0)
    closed = estimate(
        "mle", attribute_of(mechanism), counted(attribute_of(mechanism), of_set_bits(counts, 1500), 1500)
    )
    p, q = mechanism.support_probabilities  # type: ignore[attr-defined]
    matrix = np.where(np.eye(5, dtype=bool), p, q) / (p + 4 * q)
    fit = fit_channel(
        DenseChannel(matrix), counts, smoothing=False, tolerance=1e-12, trace=Trace(5000), accelerated=True
    )
    assert fit.converged
    assert closed.distribution is not None
    ends = [float(np.array(counts) @ np.log(matrix @ w)) for w in (closed.distribution, fit.weights)]
    assert ends[0] >= ends[1] - 1e-9
    assert ends[0] == pytest.approx(ends[1], abs=1e-7)
    np.testing.assert_allclose(closed.distribution, fit.weights, atol=1e-5)
    assert closed.details["likelihood"] == "composite: the set bits of a report as independent"
    assert closed.warnings == ()


@pytest.mark.parametrize("counts", [[900, 700, 400, 380, 365], [900, 500, 300, 100, 60]])
@pytest.mark.parametrize("name", ["oue", "sue", "olh any"])
def test_em_of_unary_encodings_ends_at_the_maximum_of_its_own_likelihood(
    name: str, counts: list[int]
) -> None:
    """That of single bits, set and unset, found by loops and a generic optimiser."""
    if name == "olh any":
        mechanism: Any = LocalHashing(1.0, size=5, seeds="any")
        p, q = math.e / (math.e + 3), 1 / 4
    else:
        mechanism = build_mechanism(name, asked.categories(5), 1.0)
        p, q = mechanism.support_probabilities  # type: ignore[attr-defined]
    attribute = attribute_of(mechanism)
    statistic = counted(attribute, of_set_bits(counts, 1500), 1500)

    def loss(weights: Floats) -> float:
        total = 0.0
        for weight, count in zip(weights.tolist(), counts, strict=True):
            present = q + (p - q) * weight
            total -= count * math.log(present) + (1500 - count) * math.log(1 - present)
        return total

    def slopes(weights: Floats) -> Floats:
        present = q + (p - q) * weights
        return -(p - q) * (np.array(counts) / present - (1500 - np.array(counts)) / (1 - present))

    best = optimize.minimize(
        loss, np.full(5, 0.2), jac=slopes, method="SLSQP", bounds=[(0.0, 1.0)] * 5,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1.0}, options={"ftol": 1e-14, "maxiter": 1000},
    )  # fmt: skip
    found = estimate("em", attribute, statistic, options={"tolerance": 1e-12})
    assert found.converged
    assert found.n_iterations < 2000
    assert found.distribution is not None
    # A gain below the tolerance does not bound the distance from the maximum: SQUAREM may end 2e-6 below it.
    assert loss(found.distribution) == pytest.approx(best.fun, abs=1e-5)
    np.testing.assert_allclose(found.distribution, best.x, atol=2e-5)
    # Of a concave likelihood: by the slopes at its end, no distribution is likelier by more than this.
    assert slopes(found.distribution) @ found.distribution - slopes(found.distribution).min() < 1e-2
    assert found.details["composite"] == "the counts of one report are taken as independent"
    assert "likelihood" not in found.details
    plain = estimate("em", attribute, statistic, options={"accelerated": False, "tolerance": 1e-3})
    assert plain.n_iterations > found.n_iterations


EMPTY = (
    OptimisedUnaryEncoding(1.0, size=5),
    SymmetricUnaryEncoding(1.0, size=5),
    LocalHashing(1.0, size=5, seeds="any"),
)


@pytest.mark.parametrize("mechanism", EMPTY, ids=lambda mechanism: mechanism.name)
def test_where_no_bit_is_set_everybody_may_have_anything(mechanism: FrequencyMechanism) -> None:
    attribute = attribute_of(mechanism)
    statistic = counted(attribute, of_set_bits([0] * 5, 40), 40)
    names = ["em", "mr", "inversion", "norm_sub", "norm_cut", "norm_mul", "base_cut", "threshold", "iiw"]
    unary = isinstance(mechanism, UnaryEncoding)
    found = {name: estimate(name, attribute, statistic) for name in (*names, *(["mle"] if unary else []))}
    for name, one in found.items():
        assert one.distribution is not None
        assert np.isfinite(one.distribution).all(), name
        assert one.converged
    for name in ("em", "mr", "norm_sub", "norm_mul", *(["mle"] if unary else [])):
        np.testing.assert_allclose(found[name].distribution, 0.2, atol=1e-12)
    assert found["em"].warnings[0].startswith("this is nearly the start, the uniform distribution")
    for name in ("norm_cut", "base_cut", "threshold"):
        np.testing.assert_array_equal(found[name].distribution, np.zeros(5))
    if unary:
        told = "no report names a category: nothing is known, and all are taken to be alike"
        assert found["mle"].warnings == (told,)
    else:
        with pytest.raises(ValueError, match=r"closed form is for one service with grr \(or oue, sue\)"):
            estimate("mle", attribute, statistic)


@pytest.mark.parametrize("accelerated", [None, True, False])
def test_only_composite_likelihoods_are_accelerated_unasked(accelerated: bool | None) -> None:
    rng = np.random.default_rng(6)
    values = rng.choice(5, 3000, p=[0.5, 0.3, 0.15, 0.05, 0.0])
    for mechanism, own in (
        (RandomisedResponse(1.0, size=5), False),
        (LocalHashing(1.0, size=5), False),
        (LocalHashing(1.0, size=5, seeds="any"), True),
        (OptimisedUnaryEncoding(1.0, size=5), True),
    ):
        attribute = attribute_of(mechanism)
        statistic = tally(attribute, 3000, [Answers(0, np.arange(3000), mechanism.perturb(values, rng))])
        found = estimate("em", attribute, statistic, options={"accelerated": accelerated})
        channel, histogram = attribute.channel(0), statistic.histograms[0]
        fit = fit_channel(
            channel, histogram, smoothing=False, tolerance=1e-3,
            trace=Trace(10_000), accelerated=own if accelerated is None else accelerated,
        )  # fmt: skip
        if accelerated and not own:
            fit = most_likely(channel, histogram.astype(np.float64), tolerance=1e-3, trace=Trace(10_000))
        assert found.n_iterations == len(fit.log_likelihoods)
        np.testing.assert_array_equal(found.distribution, fit.weights)
        assert ("composite" in found.details) == own
        assert "likelihood" not in found.details


def test_both_of_several_services_and_of_bits_are_called_composite() -> None:
    attribute, statistic = of_two(0, 3, many=1000)
    found = estimate("em", attribute, statistic)
    assert found.details["likelihood"] == "composite: reports of one user to several services as independent"
    assert found.details["composite"] == "the counts of one report are taken as independent"


WAVES = SquareWave(2.0), GeneralWave(1.5, top=0.4), DiscreteSquareWave(3.0, bins=16)


@pytest.mark.parametrize(
    ("mechanisms", "epsilon"),
    [
        *(([wave], wave.epsilon) for wave in WAVES),
        (WAVES, 1.5),
        ([*WAVES, Piecewise(1.0)], None),
        ([Hybrid(2.0)], None),
        ([Piecewise(2.0)], None),
        ([Binned(2.0, bins=16, oracle="grr")], None),
    ],
)
def test_only_em_of_waves_alone_is_stopped_as_published(mechanisms: Any, epsilon: float | None) -> None:
    versions = tuple(ServiceVersion(f"s{i}", "", m) for i, m in enumerate(mechanisms))
    attribute, rng = Attribute("x", UNIT, 32, versions), np.random.default_rng(5)
    values = rng.beta(2, 5, 2000)
    answers = [Answers(i, np.arange(2000), m.perturb(values, rng)) for i, m in enumerate(mechanisms)]
    statistic = tally(attribute, 2000, answers)
    tolerance = 1e-3 if epsilon is None else 1e-3 * math.exp(epsilon)
    found = estimate("em", attribute, statistic)
    assert found.details["tolerance"] == pytest.approx(tolerance, rel=1e-12)
    gains = np.diff(found.log_likelihoods)
    assert gains[-1] < tolerance <= gains[:-1].min()
    assert estimate("ems", attribute, statistic).details["tolerance"] == 1e-3
    assert estimate("mr", attribute, statistic).details["tolerance"] == 1e-3


def test_an_end_that_is_nearly_the_start_is_said() -> None:
    mechanism = RandomisedResponse(1.0, size=4)
    attribute, (p, q) = attribute_of(mechanism), mechanism.support_probabilities
    told = (
        "this is nearly the start, the uniform distribution: gains fell below the tolerance (1e-09) at once"
    )
    # Weights within 5% of a quarter, and just not.
    for off, near in ((0.048, True), (0.052, False), (0.0, True)):
        weights = 0.25 * np.array([1 + off, 1 - off, 1.0, 1.0])
        statistic = counted(attribute, np.rint(1e8 * (q + (p - q) * weights)), 10**8)
        found = estimate("em", attribute, statistic, options={"tolerance": 1e-9})
        assert found.converged
        np.testing.assert_allclose(found.distribution, weights, atol=1e-5)
        assert len(found.warnings) == near
        assert all(warning.startswith(told) for warning in found.warnings)
    # Where it has not converged, that is what is said.
    short = estimate("em", attribute, statistic, options={"tolerance": 1e-30, "max_iterations": 1})
    assert short.warnings[0].startswith("not converged after 1 iterations")
    assert len(short.warnings) == 1


@reproducibly
@given(shares=any_shares, low=st.floats(-1.5, 1.5), width=st.floats(0.001, 3.0))
def test_the_share_of_a_range_adds_up_parts_of_buckets(shares: list[float], low: float, width: float) -> None:
    edges, high = np.linspace(-1.0, 1.0, len(shares) + 1), low + width
    total = 0.0
    for share, left, right in zip(shares, edges[:-1], edges[1:], strict=True):
        total += share * max(0.0, min(high, right) - max(low, left)) / (right - left)
    assert range_share(shares, edges, low, high) == pytest.approx(total, abs=1e-11)


@reproducibly
@given(shares=some_shares, level=st.floats(0.05, 0.95))
def test_a_quantile_of_unbiased_shares_is_the_first_place_they_add_up_to(
    shares: Floats, level: float
) -> None:
    (found,) = quantiles(shares, np.arange(len(shares) + 1.0), [level])
    # Shares may be negative, so that sums go up and down: the first place counts.
    sums = np.concatenate(([0.0], np.cumsum(shares)))
    place = int(np.flatnonzero(sums[1:] >= level)[0])
    assert found == pytest.approx(place + (level - sums[place]) / shares[place], abs=1e-6)
