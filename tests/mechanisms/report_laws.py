"""Laws of what mechanisms send, and of what is counted and estimated of it."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from cases import (
    MODERATE,
    Case,
    counted,
    has_whole_reports,
    populations,
    some_values,
    value_buckets,
    whole_reports,
)
from law import counts_frequencies, is_estimated_whole, law, reports_indexes, reports_numbers
from scipy import stats

from ldpbeam import Answers, Attribute, Categories, ServiceVersion, tally
from ldpbeam.counted import tally_counted
from ldpbeam.domains import Floats
from ldpbeam.mechanisms import (
    CategoricalMechanism,
    Mechanism,
    NumericMechanism,
    SecureUniforms,
    UnbiasedMechanism,
)
from ldpbeam.mechanisms.numbers.discrete_square_wave import DiscreteSquareWave
from ldpbeam.mechanisms.ranges.binned import BinMechanism
from ldpbeam.statistics import merge

#: Reports of a sample.
N = 20_000


# Samplers


def pooled_chi_square(sampler: Mechanism, claimed: Mechanism, people: int = N) -> tuple[float, int]:
    """Chi-square and its degrees of freedom, added up over groups of people who are alike.

    Cells that expect few reports are taken together, in the order of their probability, until they expect
    five, or a 500th of all where cells are thousands (OLH's).
    """
    matrix = whole_reports(claimed, value_buckets(claimed), 8)
    total, freedom = 0.0, 0
    for seed, (values, weights) in enumerate(populations(claimed, people), 2):
        reports = sampler.perturb(values, np.random.default_rng([seed, round(1000 * claimed.epsilon)]))
        counts = np.bincount(claimed.bucketise(reports, 8), minlength=claimed.cells(8))
        expected = people * (matrix @ weights)
        order = np.argsort(expected, kind="stable")
        group = np.floor(np.cumsum(expected[order]) / max(5.0, people / 500)).astype(int)
        seen, likely = np.bincount(group, counts[order]), np.bincount(group, expected[order])
        some = likely > 0.0
        total += float(np.square(seen[some] - likely[some]) @ (1.0 / likely[some]))
        freedom += int(some.sum()) - 1
    return total, freedom


def p_value(pairs: list[tuple[Mechanism, Mechanism]]) -> float:
    """How well samplers fit the channels of claimed mechanisms, all of them at once."""
    sums = [pooled_chi_square(sampler, claimed) for sampler, claimed in pairs]
    return float(stats.chi2.sf(sum(total for total, _ in sums), sum(freedom for _, freedom in sums)))


@law(lambda case: has_whole_reports(case.at(1.0)))
def the_sampler_follows_the_channel(case: Case) -> None:
    mechanisms = [case.at(epsilon) for epsilon in case.epsilons(0.01, 0.5, 1.0, 5.0, 20.0)]
    assert p_value([(mechanism, mechanism) for mechanism in mechanisms]) > 1e-4


@law(lambda case: has_whole_reports(case.at(1.0)))
def a_sampler_of_another_epsilon_does_not_follow_it(case: Case) -> None:
    # OLH has as many hash values at both epsilons: round(exp(1.25)) = round(exp(1)) = 3.
    assert p_value([(case.at(1.25), case.at(1.0))]) < 1e-6


@law()
def the_same_draws_give_the_same_reports(case: Case) -> None:
    mechanism = case.at(1.0)
    values = some_values(mechanism, 500)
    one, same, other = (
        mechanism.perturb(values, np.random.default_rng(seed)).tobytes() for seed in (3, 3, 4)
    )
    assert one == same
    assert one != other


# Reports


class Extremes:
    """Draws that are the least or the largest there can be."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(5)

    def random(self, size: int) -> Floats:
        return self.rng.choice([0.0, 1.0 - 2.0**-53], size)


@law()
def every_report_is_accepted_and_counted(case: Case) -> None:
    for epsilon in case.epsilons(2e-6, 0.01, 0.5, 1.0, 5.0, 12.0, 20.0):
        mechanism = case.at(epsilon)
        values = some_values(mechanism, 2000)
        for source in (np.random.default_rng(6), SecureUniforms(), Extremes()):
            reports = mechanism.perturb(values, source)
            assert reports.dtype == mechanism.payload_dtype
            assert reports.shape == (2000,)
            forms = [reports, np.frombuffer(reports.tobytes(), mechanism.payload_dtype)]
            if reports.dtype.kind in "fu":
                # As other clients and other formats send them.
                forms += [reports.astype(np.float64)]
            if reports.dtype.kind == "f":
                forms += [reports.astype(np.float32).astype(np.float64)]
            for payloads in forms:
                assert mechanism.is_report(payloads).all()
                check_counts(mechanism, payloads)


def check_counts(mechanism: Mechanism, reports: np.ndarray) -> None:
    """A histogram has each report in its cell, or each part of it in one of the part's."""
    histogram = mechanism.histogram(reports, 9)
    assert histogram.shape == (mechanism.histogram_cells(9),)
    assert histogram.sum() == len(reports) * counted(mechanism)
    if not mechanism.composite:
        cells = mechanism.bucketise(reports, 9)
        assert 0 <= cells.min() <= cells.max() < mechanism.cells(9)
        np.testing.assert_array_equal(histogram, np.bincount(cells, minlength=len(histogram)))


@law(reports_numbers)
def numbers_out_of_range_are_refused(case: Case) -> None:
    for epsilon in MODERATE:
        mechanism = case.at(epsilon)
        low, high = ends = np.array(mechanism.report_range)
        wrong = [math.nan, math.inf, -math.inf, low - 0.001 * (high - low), high + 0.001 * (high - low)]
        if mechanism.cells(9) == 2:
            wrong += [0.0, 0.999 * high, 0.999 * low]
        assert not mechanism.is_report(np.array(wrong)).any()
        # A 32-bit float may lie this far outside.
        assert mechanism.is_report(ends).all()
        assert mechanism.is_report(ends * (1.0 + 1e-7)).all()


@law(reports_indexes)
def indexes_out_of_range_are_refused(case: Case) -> None:
    mechanism = case.at(1.0)
    cells = mechanism.cells(9)
    for every in (np.arange(cells), np.arange(cells, dtype=np.float64)):
        assert mechanism.is_report(every).all()
        assert mechanism.bucketise(every, 9).tolist() == list(range(cells))
    assert not mechanism.is_report(np.array([-1, cells, 2**32 - 1])).any()
    assert not mechanism.is_report(np.array([math.nan, math.inf, -math.inf, 0.5, -1.0, cells])).any()


@law(lambda case: isinstance(case.at(1.0), NumericMechanism | BinMechanism | DiscreteSquareWave))
def values_outside_the_domain_are_taken_for_its_ends(case: Case) -> None:
    mechanism = case.at(1.0)
    outside, ends = (
        mechanism.perturb(np.resize(values, 1000), np.random.default_rng(7))
        for values in ([-5.0, 9.0], [0.0, 1.0])
    )
    assert outside.tobytes() == ends.tobytes()


@law(reports_numbers)
def a_cells_representative_lies_in_it(case: Case) -> None:
    for epsilon in (0.5, 1.0, 5.0):
        mechanism = case.at(epsilon)
        representatives = mechanism.representatives(50)
        assert mechanism.is_report(representatives).all()
        assert mechanism.bucketise(representatives, 50).tolist() == list(range(mechanism.cells(50)))


@law(reports_numbers)
def fixed_point_is_off_by_half_a_step_at_most(case: Case) -> None:
    for epsilon in MODERATE:
        mechanism = case.at(epsilon)
        reports = mechanism.perturb(np.linspace(0.0, 1.0, 500), np.random.default_rng(8))
        reports = np.concatenate((reports, mechanism.report_range))
        grid = mechanism.fixed_point(reports)
        assert np.abs(grid).max() == 2**30
        step = Fraction(mechanism.fixed_point_step)
        # Exact arithmetic; the quotient itself is rounded once, by 2^-53 of at most 2^30 steps.
        for integer, report in zip(grid.tolist(), reports.tolist(), strict=True):
            assert abs(integer * step - Fraction(report)) <= step / 2 + step * Fraction(1, 2**22)


# Averages


@law(lambda case: isinstance(case.at(1.0), UnbiasedMechanism))
def unbiased_reports_average_to_the_value_with_the_stated_variance(case: Case) -> None:
    for epsilon in (0.05, 1.0, 5.0):
        mechanism = case.at(epsilon)
        # With bins, it is the midpoint of the value's bin.
        half = 0.5 / mechanism.granularity
        for x in (0.0, 0.3, 1.0) if reports_numbers(case) else (half, 7 * half, 1.0 - half):
            y = mechanism.unbiased(mechanism.perturb(np.full(N, x), np.random.default_rng(9)))
            variance = float(mechanism.variance(x))
            assert abs(y.mean() - x) < 4 * math.sqrt(variance / N)
            # The standard error of a mean of squares (y - x)^2 is their own deviation over sqrt(n); where
            # all squares are nearly equal (SR) rounding is what is left.
            squares = (y - x) ** 2
            assert abs(squares.mean() - variance) < 4 * squares.std() / math.sqrt(N) + 1e-9 * variance


@law(lambda case: isinstance(case.at(1.0), CategoricalMechanism) and case.at(1.0).tells_supports)
def reports_support_categories_as_often_as_stated(case: Case) -> None:
    mechanism = case.at(1.0)
    reports = mechanism.perturb(np.zeros(N, dtype=np.int64), np.random.default_rng(13))
    own, *others = mechanism.supported(reports).mean(axis=0)
    # A family of few seeds has a few more or fewer collisions.
    assert (own, np.mean(others)) == pytest.approx(mechanism.support_probabilities, abs=0.05)


@law(counts_frequencies)
def the_average_histogram_gives_the_true_shares(case: Case) -> None:
    # Shares are linear in the histogram, so this is to be unbiased.
    for epsilon in case.epsilons(0.1, 1.0, 4.0, 20.0):
        mechanism = case.at(epsilon)
        truth = np.random.default_rng(10).dirichlet(np.ones(mechanism.bins))
        counts = counted(mechanism) * mechanism.histogram_channel(mechanism.bins, 1).matvec(truth)
        # 10^13 reports, as counts are whole; rounding costs 1e-13 a cell, which a small epsilon and
        # thousands of cells raise to 1e-9.
        histogram = np.rint(1e13 * counts).astype(np.int64)
        np.testing.assert_allclose(
            mechanism.unbiased_frequencies(histogram, 10**13), truth, rtol=0, atol=1e-8
        )


# Names


@law()
def an_epsilon_out_of_range_is_refused(case: Case) -> None:
    for epsilon in (0.0, -1.0, 1e-6, math.nan, math.inf, 20.1, 50.0):
        with pytest.raises(ValueError, match="epsilon must be above 1e-06 and at most 20"):
            case.at(epsilon)


@law()
def parameters_tell_two_epsilons_apart(case: Case) -> None:
    mechanism = case.at(1.0)
    assert mechanism.parameters == case.at(1.0).parameters
    assert mechanism.parameters != case.at(1.0 + 1e-12).parameters
    named = mechanism.parameters.get("inner", mechanism.parameters)
    assert named["mechanism"] == case.name
    assert mechanism.output()


# Statistics


@law(is_estimated_whole)
def statistics_of_parts_merge_to_that_of_the_whole(case: Case) -> None:
    mechanism = case.at(1.0)
    buckets = 0 if isinstance(case.domain, Categories) else value_buckets(mechanism)
    attribute = Attribute("x", case.domain, buckets, (ServiceVersion("s", "", mechanism),))
    reports = mechanism.perturb(some_values(mechanism, 100), np.random.default_rng(11))
    whole = tally(attribute, 100, [Answers(0, np.arange(100), reports)])
    assert whole.reports == whole.users == 100
    parts = [
        tally(attribute, len(part), [Answers(0, np.arange(len(part)), part)])
        for part in np.split(reports, [10, 60])
    ]
    assert merge(parts) == merge(parts[::-1]) == whole
    assert merge(parts[:2]) != whole


@law(is_estimated_whole)
def counts_of_reports_are_the_reports(case: Case) -> None:
    mechanism, rng = case.at(1.0), np.random.default_rng(12)
    buckets = 0 if isinstance(case.domain, Categories) else value_buckets(mechanism)
    attribute = Attribute("x", case.domain, buckets, (ServiceVersion("s", "", mechanism),))
    reports, counts = mechanism.perturb(some_values(mechanism, 40), rng), rng.integers(0, 70, 40)
    every = np.arange(counts.sum())
    whole = tally(attribute, len(every), [Answers(0, every, np.repeat(reports, counts))])
    assert tally_counted(attribute, counts, [Answers(0, np.arange(40), reports)]) == whole
