"""What makes frequencies of unbiased shares, against loops."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats
from support import asked

from ldpbeam import Attribute, Numeric, ServiceVersion
from ldpbeam.estimators import Question, estimate
from ldpbeam.estimators.frequencies import norm_cut, norm_mul, norm_sub
from ldpbeam.mechanisms import Haar, Hierarchy, OptimisedUnaryEncoding, RandomisedResponse
from ldpbeam.mechanisms.ranges.binned import Binned
from ldpbeam.statistics import Answers, Statistic, tally

Floats = NDArray[np.float64]
UNIT = Numeric(0.0, 1.0)
reproducibly = settings(derandomize=True, deadline=None, max_examples=60)
#: Sixteenths, which are exact: many are equal, and sums of exactly one are common.
sixteenths = st.lists(st.integers(-16, 16).map(lambda i: i / 16), min_size=2, max_size=12)


some_shares = st.builds(asked.noisy_shares, st.integers(0, 2**32), st.integers(2, 40), st.floats(0.001, 3.0))
any_shares = st.one_of(sixteenths, some_shares.map(lambda values: values.tolist()))


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
    left = norm_cut(shares)
    assert left.tolist() == cut_one_by_one(shares)
    assert shares == before
    kept = left > 0
    assert left[kept].tolist() == np.asarray(shares)[kept].tolist()
    cut = np.maximum(shares, 0.0)[~kept]
    if kept.any():
        assert cut.max(initial=0.0) <= left[kept].min()
        assert left.sum() <= 1.0 + 1e-9 or kept.sum() == 1
        # No more was cut than had to be: with the largest of what was, the sum is above one.
        assert not cut.any() or left.sum() + cut.max() > 1.0


@reproducibly
@given(shares=any_shares)
def test_norm_mul_keeps_the_ratios_of_positive_shares(shares: list[float]) -> None:
    assume(max(shares) > 0)
    scaled = norm_mul(shares)
    total = math.fsum(share for share in shares if share > 0)
    np.testing.assert_allclose(scaled, [share / total if share > 0 else 0.0 for share in shares], rtol=1e-12)
    assert scaled.sum() == pytest.approx(1.0, abs=1e-12)


def test_norm_mul_of_nothing_positive_is_the_uniform_guess_with_a_warning() -> None:
    # Every bit of OUE unset: all shares are -q / (p - q).
    attribute = asked.of_categories(OptimisedUnaryEncoding(1.0, size=4))
    answer = estimate("norm_mul", attribute, asked.of_counts(attribute, [10, 0] * 4, users=10))
    assert answer.distribution.tolist() == [0.25] * 4
    assert answer.warnings == ("no share is above zero",)
    usual = estimate("norm_mul", attribute, asked.of_counts(attribute, [1, 9, 7, 3, 7, 3, 7, 3], users=10))
    assert usual.warnings == ()


def test_what_is_kept_of_a_threshold_is_unbiased_as_it_was() -> None:
    mechanism, n = RandomisedResponse(1.0, size=5), 1000
    attribute = asked.of_categories(mechanism)
    histogram = [500, 250, 120, 100, 30]
    statistic = asked.of_counts(attribute, histogram, users=n)
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
        answer = estimate(name, attribute, statistic, options=options)
        assert answer.details["threshold"] == pytest.approx(deviations * deviation, rel=1e-12, abs=1e-12)
        expected = [share if share >= deviations * deviation else 0.0 for share in shares]
        assert 0.0 in expected[1:]
        np.testing.assert_allclose(answer.distribution, expected, rtol=1e-12)
        assert answer.warnings == ()


@pytest.mark.parametrize("name", ["base_cut", "threshold"])
def test_where_nothing_is_kept_a_warning_says_so(name: str) -> None:
    attribute = asked.of_categories(RandomisedResponse(1.0, size=5))
    # Of 70 reports a category that nobody has gets 70 / (e + 4) = 10.4 by chance, of 65 9.7.
    for reports, chance in ((70, ""), (65, "9.7"), (10, "1.5")):
        counts = [reports // 5] * 5
        answer = estimate(name, attribute, asked.of_counts(attribute, counts, users=reports))
        assert answer.distribution.tolist() == [0.0] * 5
        assert answer.warnings[-1].startswith("every share is below the threshold of ")
        sentence = f"a category that nobody has is reported {chance} times by chance, too rarely"
        assert len(answer.warnings) == 1 + bool(chance)
        assert answer.warnings[0].startswith(sentence) == bool(chance)
    # Of OUE there is no such warning: only of GRR are the counts of the others so few.
    unary = asked.of_categories(OptimisedUnaryEncoding(4.0, size=5))
    assert (
        estimate(name, unary, asked.of_counts(unary, [20, 20, 35, 5, 40, 0, 39, 1, 40, 0], users=40)).warnings
        == ()
    )


# Shares of a category weigh less by what few people say of everybody, as far as they are others.
GRR, OUE = RandomisedResponse(8.0, size=10), OptimisedUnaryEncoding(4.0, size=10)


def of_two(others: int, seed: int, few: int = 1000, many: int = 40_000) -> tuple[Attribute, Statistic]:
    """GRR's few people and OUE's many, ``others`` of the few not among the many; of shares that halve."""
    attribute, rng, people = asked.of_categories(GRR, OUE), np.random.default_rng(seed), many + others
    values = rng.choice(10, people, p=HALVING)
    rows = np.arange(people - few, people), np.arange(many)
    answers = [
        Answers(i, users, m.perturb(values[users], rng))
        for i, (users, m) in enumerate(zip(rows, (GRR, OUE), strict=True))
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
    weights = [n / (of_one + apart * 0.09) for n, of_one in zip((1000, many), noise, strict=True)]
    alone = [estimate("inversion", attribute, statistic, (name,)).distribution for name in ("s0", "s1")]
    answer = estimate("inversion", attribute, statistic)
    np.testing.assert_allclose(answer.distribution, np.average(alone, axis=0, weights=weights), rtol=1e-9)
    # What a threshold is in is the perturbation alone: a category that nobody has has no sampling error.
    variance = sum(w**2 * of_one / n for w, of_one, n in zip(weights, noise, (1000, many), strict=True))
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
    answer = estimate(name, BINNED, asked.of_counts(BINNED, BIN_COUNTS, users=1000)).distribution
    np.testing.assert_allclose(answer, spread(repaired(bin_shares())), atol=1e-14)


@pytest.mark.parametrize("name", ["base_cut", "threshold", "norm_cut"])
def test_a_bin_is_kept_whole_or_not_at_all(name: str) -> None:
    # 0.68 and 0.55 are more than one, so Norm-Cut has to choose.
    answer = estimate(name, BINNED, asked.of_counts(BINNED, BIN_COUNTS, users=1000)).distribution
    shares = bin_shares()
    deviation = math.sqrt((4 - 2 + math.e) / (math.e - 1) ** 2 / 1000)
    limits = {"base_cut": 2 * deviation, "threshold": stats.norm.isf(0.05 / 4) * deviation, "norm_cut": 0.6}
    assert (shares >= limits[name]).sum() == (1 if name == "norm_cut" else 2)
    np.testing.assert_allclose(answer, spread(np.where(shares >= limits[name], shares, 0.0)), atol=1e-14)


def moments_of(shares: Floats) -> tuple[float, float]:
    """Mean and variance of shares of sum one, even within their buckets, by integrals of x and x^2."""
    edges = np.linspace(0.0, 1.0, len(shares) + 1)
    first = float(shares @ np.diff(edges**2) / 2 * len(shares))
    second = float(shares @ np.diff(edges**3) / 3 * len(shares))
    return first, second - first**2


@pytest.mark.parametrize("name", ["inversion", "norm_sub", "norm_mul", "norm_cut", "base_cut"])
def test_mean_and_variance_are_of_the_shares_scaled_to_one(name: str) -> None:
    answer = estimate(name, BINNED, asked.of_counts(BINNED, BIN_COUNTS, users=1000))
    total = float(answer.distribution.sum())
    # 0.68 alone, and 0.68 + 0.55: those two are not of sum one.
    assert (abs(total - 1) > 0.2) == (name in ("norm_cut", "base_cut"))
    mean, variance = moments_of(answer.distribution / total)
    assert answer.mean == pytest.approx(mean, rel=1e-12)
    # Unbiased shares may be negative, and then have a variance that no values have.
    assert answer.variance == pytest.approx(max(variance, 0.0), rel=1e-12)
    sentence = (
        f"the shares add up to {total:.3g}, so mean, variance and quantiles are of the shares scaled to one"
    )
    assert answer.warnings == ((sentence,) if name in ("norm_cut", "base_cut") else ())


def test_of_shares_that_add_up_to_nothing_there_is_no_mean() -> None:
    answer = estimate(
        "base_cut", BINNED, asked.of_counts(BINNED, [250] * 4, users=1000), options={"deviations": 50.0}
    )
    assert answer.distribution.tolist() == [0.0] * 16
    assert answer.mean is None
    assert answer.variance is None
    assert len(answer.warnings) == 2
    assert answer.warnings[0].startswith("every share is below the threshold of ")
    assert answer.warnings[1].startswith("the shares add up to 0")


def test_a_sum_is_off_from_a_hundredth_on_and_only_of_numbers() -> None:
    question = Question(BINNED, asked.of_counts(BINNED, BIN_COUNTS, users=1000), ("s",))
    for total, off in ((0.991, False), (1.009, False), (0.989, True), (1.011, True)):
        answer = question.answer_distribution("e", np.full(16, total / 16), warnings=("first",))
        assert answer.mean == pytest.approx(0.5, rel=1e-12)
        assert answer.warnings[:1] == ("first",)
        assert len(answer.warnings) == 1 + off
    colours = asked.of_categories(RandomisedResponse(1.0, size=5))
    question = Question(colours, asked.of_counts(colours, [200] * 5, users=1000), ("s0",))
    answer = question.answer_distribution("e", np.full(5, 0.5))
    assert (answer.mean, answer.variance, answer.warnings) == (None, None, ())


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
    attribute, rng = asked.attribute_of(UNIT, mechanism, buckets=128), np.random.default_rng(4)
    statistic = asked.statistic_of(attribute, rng.beta(2, 5, 5000), rng)

    def warnings_of_leaves(name: str) -> int:
        return str(estimate(name, attribute, statistic).warnings).count("leaves")

    for name in ("norm_sub", "norm_cut", "norm_mul", "base_cut", "threshold", "iiw"):
        assert warnings_of_leaves(name) == warned, name
    # Nothing is repaired of unbiased shares, nor leaf by leaf.
    for name in ("inversion", "ems"):
        assert warnings_of_leaves(name) == 0
