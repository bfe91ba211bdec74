"""Certain intervals, which hold whatever people's values are."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

import numpy as np
import pytest
from scipy.special import ndtri
from support.asked import attribute_of, statistic_of

from ldpbeam.attributes import Attribute, ServiceVersion
from ldpbeam.certainty import CERTAIN, WITHOUT_NOISE, Intervals
from ldpbeam.domains import Floats, Numeric
from ldpbeam.estimators import Question, estimate
from ldpbeam.intervals import WantedIntervals, certain, split_reports, strict
from ldpbeam.intervals.computing import StatisticIntervals
from ldpbeam.intervals.finest_detail import expected_intervals
from ldpbeam.intervals.strict import strict_intervals
from ldpbeam.mechanisms import build_mechanism
from ldpbeam.memoised.lifetime import Lifetime
from ldpbeam.statistics import empty, merge

DAYS = Numeric(0.0, 10.0)
WANTED = WantedIntervals(0.95, False, (0.05, 0.5, 0.95), ((2.5, 5.0), (0.0, 10.0)))
EDGE = 1e-9


def asked(*services: tuple[str, float], buckets: int = 64) -> Attribute:
    return attribute_of(
        DAYS, *(build_mechanism(name, DAYS, epsilon) for name, epsilon in services), buckets=buckets
    )


def of_people(attribute: Attribute, values: Floats, seed: int, wanted: WantedIntervals = WANTED) -> Intervals:
    question = Question(attribute, statistic_of(attribute, DAYS.to_unit(values), seed), attribute.services)
    return strict_intervals(question, wanted)


def bounds(intervals: Intervals, part: str, condition: str = CERTAIN) -> Floats:
    return intervals.ends[condition][part].columns


def held(intervals: Intervals, values: Floats) -> Floats:
    """Whether each interval holds the truth: of the distribution function, the quantiles, and the ranges.

    People exactly at the ends of a range may count or not, but for those at an end of the domain.
    """
    values = np.sort(values)
    below = np.searchsorted(values, intervals.at, "right") / len(values)
    quantiles = np.quantile(values, WANTED.quantiles, method="inverted_cdf")
    low, high = np.array(WANTED.ranges).T
    with_ends = np.searchsorted(values, high, "right") - np.searchsorted(values, low, "left")
    inside = np.where(low <= DAYS.low, -np.inf, low), np.where(high >= DAYS.high, np.inf, high)
    without = np.searchsorted(values, inside[1], "left") - np.searchsorted(values, inside[0], "right")
    pairs = [
        (bounds(intervals, "cdf"), below, below),
        (bounds(intervals, "quantiles"), quantiles, quantiles),
        (bounds(intervals, "ranges"), without / len(values), with_ends / len(values)),
    ]
    return np.concatenate([
        (ends[:, 0] <= least + EDGE) & (most <= ends[:, 1] + EDGE) for ends, least, most in pairs
    ]).astype(float)  # fmt: skip


HOSTILE: Mapping[str, Callable[[np.random.Generator], Floats]] = {
    "spikes on ends of ranges": lambda rng: rng.choice([2.5, 5.0, 7.5], 4_000),
    "nine spikes": lambda rng: rng.choice(np.arange(1.0, 10.0), 4_000),
    "everybody at one value": lambda rng: np.full(4_000, 5.0),
    "at both ends of the domain": lambda rng: rng.choice([0.0, 10.0, 3.0], 4_000),
    "a gap": lambda rng: np.where(
        rng.random(4_000) < 0.5, rng.uniform(0, 2, 4_000), rng.uniform(6, 9, 4_000)
    ),
}
DESIGNS = {
    "square_wave": asked(("square_wave", 2.0)),
    "piecewise": asked(("piecewise", 2.0)),
    "several": asked(("square_wave", 1.0), ("piecewise", 2.0), ("stochastic_rounding", 1.0)),
    "hybrid": asked(("hybrid", 2.0)),
    "laplace": asked(("laplace", 3.0)),
    "general_wave": asked(("general_wave", 3.0)),
}


@pytest.mark.parametrize("design", DESIGNS)
def test_they_hold_whatever_peoples_values_are(design: str) -> None:
    """The misses of all runs, of shapes that a smooth density does not fit.

    Each end misses in at most 2.5% of runs. The 37 intervals of a run depend on each other, so the sum over
    runs is compared with four standard errors of runs that miss all or nothing.
    """
    runs, rng = [], np.random.default_rng(7)
    for draw in HOSTILE.values():
        for seed in range(6):
            values = draw(rng)
            runs.append(1.0 - held(of_people(DESIGNS[design], values, seed), values).mean())
    most = 0.05 + 4.0 * np.sqrt(0.05 * 0.95 / len(runs))
    assert np.mean(runs) <= most
    # What is certain is held: nobody is outside of the domain.
    assert max(runs) < 1.0


@pytest.mark.parametrize(
    ("high", "mechanisms"),
    [(20.0, ("square_wave", "piecewise")), (20.0, ("laplace",)), (300.0, ("piecewise",))],
)
def test_with_a_step_they_hold_and_count_the_values_at_both_ends(
    high: float, mechanisms: tuple[str, ...]
) -> None:
    """People have whole numbers from 0 to 20, half of them 5, 10 and 15; 301 values are too many points."""
    domain = Numeric(0.0, high, 1.0)
    attribute = attribute_of(
        domain, *(build_mechanism(name, domain, 3.0) for name in mechanisms), buckets=domain.count
    )
    wanted = dataclasses.replace(WANTED, ranges=((5.0, 10.0), (4.5, 5.5), (10.2, 10.8)))
    missed = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        values = rng.integers(0, 21, 6_000)
        values[:3_000] = rng.choice([5, 10, 15], 3_000)
        statistic = statistic_of(attribute, domain.to_unit(values), seed)
        found = strict_intervals(Question(attribute, statistic, attribute.services), wanted)
        ranges = bounds(found, "ranges")
        assert {*bounds(found, "quantiles").ravel(), *found.at} <= {*range(int(high) + 1)}
        truth = [
            *((values <= at).mean() for at in found.at),
            *np.quantile(values, wanted.quantiles, method="inverted_cdf"),
            *(((low <= values) & (values <= stop)).mean() for low, stop in wanted.ranges),
        ]
        ends = np.concatenate((bounds(found, "cdf"), bounds(found, "quantiles"), ranges))
        missed.append(np.mean((truth < ends[:, 0] - EDGE) | (ends[:, 1] + EDGE < truth)))
        # Nobody has a value between 10.2 and 10.8.
        assert ranges[2].tolist() == [0.0, 0.0]
    assert np.mean(missed) <= 0.05 + 4.0 * np.sqrt(0.05 * 0.95 / len(missed))
    # The share of the value 5 alone is known where values are the points.
    assert (ranges[1, 0] > 0.05) == (high == 20.0 and "laplace" not in mechanisms)


def test_all_of_an_estimate_hold_together_and_a_share_that_noise_takes_below_zero_is_as_uncertain() -> None:
    """If each interval were at a level of its own, a quarter of these runs would miss one of the 37."""
    attribute, missed = asked(("square_wave", 1.0)), []
    for seed in range(20):
        values = np.random.default_rng(seed).choice(np.arange(1.0, 10.0), 20_000)
        intervals = of_people(attribute, values, seed)
        missed.append(not held(intervals, values).all())
        assert np.all(bounds(intervals, "ranges")[:, 1] > 0.0)
    assert np.mean(missed) <= 0.05
    of_one = split_reports.Bounds(np.array([[0.0, 0.0]]), np.array([[0.01, 0.01]]))
    assert of_one.within(2.0).tolist() == [[0.0, 0.02]]


def test_the_halves_swap_roles_so_that_every_report_counts() -> None:
    """Bounds of one half alone are wider, and the shares up to values rise with them."""
    values = np.random.default_rng(1).beta(2.0, 5.0, 40_000)
    attribute = asked(("square_wave", 4.0))
    question = Question(attribute, statistic_of(attribute, values, 1), attribute.services)
    both = split_reports.split(question, 2.8, np.linspace(0.0, 1.0, 9))
    assert both is not None and sum(part.totals[0] for part in both.parts) == 40_000
    starts, stops = np.full(8, -1.0), np.arange(1, 9) / 9.0
    stops = both.points[np.searchsorted(both.points, stops)]
    widths = [
        np.ptp(dataclasses.replace(both, parts=parts).shares(starts, stops).within(2.8), axis=1).mean()
        for parts in (both.parts, both.parts[:1], both.parts[1:])
    ]
    assert widths[0] < 0.95 * min(widths[1:])
    assert (np.diff(bounds(strict_intervals(question, WANTED), "cdf"), axis=0) >= 0.0).all()


def test_the_ends_of_shares_without_noise_vary_by_as_much_as_is_allowed_for() -> None:
    attribute, draws, allowed = asked(("square_wave", 1.0)), [], []
    for seed in range(30):
        values = np.random.default_rng(1).beta(2.0, 5.0, 20_000) * 10.0
        intervals = of_people(attribute, values, seed)
        draws.append(bounds(intervals, "ranges", WITHOUT_NOISE))
        allowed.append(np.abs(bounds(intervals, "ranges") - draws[-1]))
    # The first range alone is not all of the domain.
    deviations, _ = strict._deviations(WANTED, DAYS, strict.PLACES)
    ratios = deviations * np.std(draws, axis=0)[0] / np.mean(allowed, axis=0)[0]
    assert np.abs(ratios - 1.0).max() < 4.0 / np.sqrt(2.0 * len(draws))


def test_few_named_numbers_are_narrower_than_many() -> None:
    values, few = np.random.default_rng(1).beta(3.0, 5.0, 20_000) * 10.0, WantedIntervals(0.95, False, (0.5,))
    many = dataclasses.replace(few, quantiles=(0.5, *np.linspace(0.1, 0.9, 30)))
    widths = [
        np.diff(bounds(of_people(DESIGNS["square_wave"], values, 1, wanted), "quantiles")[0])
        for wanted in (few, many)
    ]
    assert widths[0] < widths[1] < 1.5 * widths[0]


def test_numbers_that_a_study_names_hold_together_and_are_narrower_than_beside_all_others() -> None:
    """The mean, the median and a range, on nine spikes: their noise is 1.22 times that of one number."""
    attribute = asked(("square_wave", 1.0))
    three = WantedIntervals(0.95, False, (0.5,), ((2.5, 5.2),), named_only=True)
    assert strict._deviations(three, DAYS, 32)[0] == pytest.approx(-ndtri(0.025 / 3))
    missed, widths = [], []
    for seed in range(8):
        values = np.random.default_rng(seed).choice(np.arange(1.0, 10.0), 4_000)
        statistic = statistic_of(attribute, DAYS.to_unit(values), seed)
        found = estimate("ems", attribute, statistic)
        named, whole = (
            StatisticIntervals(attribute, statistic).of(found, wanted)
            if seed == 0 or wanted.named_only
            else None
            for wanted in (three, WANTED)
        )
        truth = {
            "mean": values.mean(),
            "quantiles": np.median(values),
            "ranges": ((values > 2.5) & (values < 5.2)).mean(),
        }
        assert named is not None and {*named.ends["certain"]} == {*truth}
        ends = {part: bounds(named, part)[0] for part in truth}
        missed.append(any(not low <= truth[part] <= high for part, (low, high) in ends.items()))
        if whole is not None:
            assert np.diff(bounds(named, "quantiles")[0]) < np.diff(bounds(whole, "quantiles")[1])
            widths = [np.diff(bounds(one, "mean")[0])[0] for one in (named, whole)]
            assert {named.methods[part] for part in ("cdf", "variance")} == {strict.NOT_NAMED}
    assert np.mean(missed) <= 0.05 + 4.0 * np.sqrt(0.05 * 0.95 / len(missed))
    assert widths[0] == pytest.approx(widths[1] * ndtri(0.025 / 3) / ndtri(0.025), rel=1e-6)


@pytest.mark.parametrize("design", ["square_wave", "several", "laplace"])
def test_of_few_reports_the_functions_are_those_of_the_design_and_they_hold(design: str) -> None:
    """Of 1,000 people each function is chosen without a look at the reports, which all have its mean."""
    attribute, rng, missed = DESIGNS[design], np.random.default_rng(8), []
    for draw in HOSTILE.values():
        for seed in range(6):
            values = rng.permutation(draw(rng))[:1_000]
            missed.append(1.0 - held(of_people(attribute, values, seed), values).mean())
    assert np.mean(missed) <= 0.05 + 4.0 * np.sqrt(0.05 * 0.95 / len(missed))
    reports = [
        split_reports.split(
            Question(attribute, statistic_of(attribute, values, 1), attribute.services), 2.8, np.zeros(1)
        )
        for values in (np.full(900, 0.1), np.full(1_000, 0.9))
    ]
    assert [own is not None and [part.noise for part in own.parts] for own in reports] == [[None], [None]]


def test_a_range_holds_people_at_an_end_that_has_no_short_decimal() -> None:
    third = 10.0 / 3.0
    wanted = dataclasses.replace(WANTED, ranges=((third, 2.0 * third),))
    for place in (third, 2.0 * third):
        intervals = of_people(DESIGNS["square_wave"], np.full(20_000, place), 1, wanted)
        # They may count or not.
        assert bounds(intervals, "ranges")[0, 0] < 0.01 and bounds(intervals, "ranges")[0, 1] > 0.99


def test_people_at_the_ends_of_the_domain_are_inside_of_ranges_that_reach_them() -> None:
    wanted = dataclasses.replace(WANTED, ranges=((-3.0, 5.0), (5.0, 30.0)))
    values = np.repeat([0.0, 10.0], [30_000, 10_000])
    low, high = of_people(DESIGNS["square_wave"], values, 1, wanted).ends["certain"]["ranges"].columns.T
    assert 0.6 < low[0] <= 0.75 <= high[0] and 0.1 < low[1] <= 0.25 <= high[1]


def test_the_few_who_do_not_have_the_common_value_are_held() -> None:
    """At a large epsilon a part of 150 reports often has none of the 1% who are elsewhere."""
    attribute, wanted = asked(("square_wave", 15.0)), dataclasses.replace(WANTED, ranges=((8.0, 10.0),))
    ends = [
        of_people(attribute, np.repeat([4.0, 9.0], [148, 2]), seed, wanted)
        .ends["certain"]["ranges"]
        .columns[0]
        for seed in range(40)
    ]
    assert np.mean([low <= 2 / 150 <= high for low, high in ends]) >= 0.9


def test_few_cells_where_their_number_has_no_divisor() -> None:
    """4,093 is a prime number."""
    values = np.random.default_rng(3).choice([2.5, 5.0, 7.5], 4_000)
    attribute = asked(("square_wave", 2.0), buckets=4_093)
    statistic = statistic_of(attribute, DAYS.to_unit(values), 1)
    reports = split_reports.split(Question(attribute, statistic, attribute.services), 2.8, np.zeros(1))
    assert reports is not None and len(reports.channel) <= 2 * split_reports.CELLS
    assert held(of_people(attribute, values, 1), values).mean() > 0.9


def test_services_of_one_mechanism_are_counted_together_and_few_mechanisms_are_used() -> None:
    epsilons = [0.5, 1.0, 1.0, 1.5, 2.0, 2.5, 3.0, 3.0]
    attribute = asked(*(("square_wave", epsilon) for epsilon in epsilons))
    statistic = statistic_of(attribute, np.random.default_rng(2).beta(3.0, 5.0, 2_000), 1)
    reports = split_reports.split(Question(attribute, statistic, attribute.services), 2.8, np.zeros(1))
    assert reports is not None and len(reports.starts) == split_reports.MECHANISMS
    # Of the largest epsilon first; two services have it. Half of the reports choose functions for the others.
    for part in reports.parts:
        np.testing.assert_allclose(part.totals / 1_000, [2.0, 1.0, 1.0, 1.0], rtol=0.1)


def test_windows_with_the_same_noise_have_none_and_one_window_is_wider_by_what_clients_round() -> None:
    lifetime = Lifetime(build_mechanism("square_wave", DAYS, 2.0), 3.0, False, 8)
    attribute = Attribute("x", DAYS, 8, (ServiceVersion("s", "", lifetime.window, lifetime),), (), 8)
    middles = np.full(20_000, 3.125)
    statistic = statistic_of(attribute, DAYS.to_unit(middles), 1)
    question = Question(attribute, statistic, ("s",))
    # The clients of people at 2.6 and at 3.7 round their values to 3.125.
    wanted = dataclasses.replace(WANTED, ranges=((2.5, 3.0), (3.5, 5.0)))
    assert np.all(bounds(strict_intervals(question, wanted), "ranges")[:, 1] > 0.9)
    told = strict_intervals(dataclasses.replace(question, windows=2), wanted)
    assert not told.ends and {*told.methods.values()} == {strict.REMEMBERED}


def test_they_narrow_as_more_people_report() -> None:
    widths = []
    for people in (1_000, 16_000, 256_000):
        values = np.random.default_rng(1).beta(3.0, 5.0, people) * 10.0
        intervals = of_people(DESIGNS["square_wave"], values, 1)
        widths.append(
            (np.diff(bounds(intervals, "cdf")).mean(), np.diff(bounds(intervals, "quantiles")).mean())
        )
    # The resolution falls as the cube root of the number: 16 times as many people, 2.5 times as narrow.
    cdf, quantiles = np.array(widths).T
    assert np.all(cdf[:-1] / cdf[1:] > 1.5) and np.all(quantiles[:-1] / quantiles[1:] > 1.5)


def test_a_function_chosen_badly_gives_a_wide_interval_and_no_false_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    values = np.random.default_rng(2).beta(3.0, 5.0, 20_000) * 10.0
    good = of_people(DESIGNS["square_wave"], values, 1)

    def badly(wanted: Floats, noise: certain.Noise, deviations: float) -> Floats:
        rng = np.random.default_rng(3)
        return 0.1 * rng.normal(size=(len(wanted), len(noise.functions)))

    monkeypatch.setattr(split_reports, "functions", badly)
    bad = of_people(DESIGNS["square_wave"], values, 1)
    assert np.diff(bounds(bad, "cdf")).mean() > 2.0 * np.diff(bounds(good, "cdf")).mean()
    assert held(bad, values).all()


def test_they_depend_on_the_counts_alone() -> None:
    attribute, rng = DESIGNS["square_wave"], np.random.default_rng(4)
    parts = [statistic_of(attribute, rng.random(3_000), rng) for _ in range(3)]
    first = strict_intervals(Question(attribute, merge(parts), attribute.services), WANTED)
    assert first == strict_intervals(Question(attribute, merge(parts[::-1]), attribute.services), WANTED)


def test_the_quantile_is_where_the_distribution_function_may_be_its_level() -> None:
    """By a search over all points, which bisection must agree with."""
    values = np.random.default_rng(5).beta(2.0, 2.0, 30_000)
    attribute = DESIGNS["piecewise"]
    question = Question(attribute, statistic_of(attribute, values, 5), attribute.services)
    reports = split_reports.split(question, 2.8, np.arange(strict.PLACES) / strict.PLACES)
    assert reports is not None
    named, _ = strict._deviations(WANTED, DAYS, strict.PLACES)
    below, intervals = (
        reports.below(reports.points, np.ones((len(reports.points), 2), dtype=bool)).within(named),
        strict_intervals(question, WANTED),
    )
    quantiles = DAYS.to_unit(bounds(intervals, "quantiles"))
    for level, (low, high) in zip(WANTED.quantiles, quantiles, strict=True):
        assert low == pytest.approx(reports.points[np.flatnonzero(below[:, 1] >= level)[0] - 1], abs=0.02)
        assert high == pytest.approx(reports.points[np.flatnonzero(below[:, 0] > level)[0]], abs=0.02)


@pytest.mark.parametrize("people", [0, 1, 10, 99])
def test_too_few_reports_have_none(people: int) -> None:
    attribute = DESIGNS["square_wave"]
    statistic = statistic_of(attribute, np.full(people, 0.5), 1) if people else empty(attribute)
    told = strict_intervals(Question(attribute, statistic, attribute.services), WANTED)
    assert not told.ends and {*told.methods.values()} == {strict.TOO_FEW}


def test_reports_of_whole_bins_have_none() -> None:
    attribute = asked(("discrete_square_wave", 2.0))
    statistic = statistic_of(attribute, np.full(1_000, 0.5), 1)
    told = strict_intervals(Question(attribute, statistic, attribute.services), WANTED)
    assert not told.ends and {*told.methods.values()} == {strict.TOO_FEW}


def test_what_a_design_shows_is_what_people_who_are_spread_evenly_give() -> None:
    attribute = DESIGNS["several"]
    expected = expected_intervals(attribute, dict.fromkeys(range(3), 20_000), WANTED)
    even = [of_people(attribute, np.linspace(0.0, 10.0, 20_000), seed) for seed in range(6)]
    for name in ("quantiles", "ranges"):
        widths = np.diff([bounds(one, name) for one in even])
        # Four standard errors of the mean of as many drawn parts.
        apart = np.abs(np.diff(bounds(expected, name)) - widths.mean(axis=0))
        assert (apart <= 4.0 * widths.std(axis=0, ddof=1) / np.sqrt(len(even)) + 1e-9).all()
    # Reports of whole bins say nothing of single values.
    assert not expected_intervals(asked(("discrete_square_wave", 2.0)), {0: 20_000}, WANTED).ends
