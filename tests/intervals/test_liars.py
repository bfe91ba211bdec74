"""Certain intervals that hold the numbers of honest people although some people send anything."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support.asked import attribute_of, categories, question_of
from support.estimate_records import paid

from ldpbeam import Answers, tally
from ldpbeam.answers.before_after import of_a_population
from ldpbeam.attributes import Attribute
from ldpbeam.domains import Floats, KeyValuePairs, KeyValues, Numeric
from ldpbeam.estimators import Question, estimate
from ldpbeam.intervals import WantedIntervals
from ldpbeam.intervals.computing import StatisticIntervals, explain
from ldpbeam.intervals.key_values import FREQUENCIES, keys_intervals
from ldpbeam.intervals.liars import NO_BOUND
from ldpbeam.intervals.means import mean_interval
from ldpbeam.intervals.strict import strict_intervals
from ldpbeam.mechanisms import build_mechanism
from ldpbeam.statistics import Moments, Statistic, empty

UNIT, PEOPLE, SEEDS, SHARES = Numeric(0.0, 1.0), 10_000, 2, 12
PLAIN = WantedIntervals(0.95, False, (0.05, 0.5, 0.95), ((0.25, 0.5), (0.5, 1.0)))


def lied(attribute: Attribute, values: Any, lies: Any, seed: int) -> Statistic:
    """The statistic of people of whom the first send these reports."""
    rng, people = np.random.default_rng(seed), len(values)
    payloads = attribute.versions[0].mechanism.perturb(values, rng)
    payloads[: len(lies)] = lies
    return tally(attribute, people, [Answers(0, np.arange(people), payloads)])


def of_numbers(attribute: Attribute, statistic: Statistic, liars: float) -> dict[str, Floats]:
    wanted = replace(PLAIN, liars=liars)
    question = Question(attribute, statistic, attribute.services)
    of_mean, bounds = mean_interval(question, wanted), strict_intervals(question, wanted)
    both = of_mean.ends["certain"] | bounds.ends["certain"]
    return {part: both[part].columns for part in ("mean", "quantiles", "ranges")}


def misses(ends: dict[str, Floats], values: Floats) -> dict[str, bool]:
    """Which intervals miss a number of people's values, who have none at an end of a range."""
    truth = {
        "mean": np.array([values.mean()]),
        "quantiles": np.quantile(values, PLAIN.quantiles, method="inverted_cdf"),
        "ranges": np.array([((low < values) & (values < high)).mean() for low, high in PLAIN.ranges]),
    }
    return {
        part: bool(((truth[part] < own[:, 0]) | (own[:, 1] < truth[part])).any())
        for part, own in ends.items()
    }


@pytest.mark.parametrize(
    ("mechanism", "liars"),
    [("square_wave", 0.01), ("square_wave", 0.05), ("piecewise", 0.05), ("laplace", 0.01)],
)
def test_they_hold_the_numbers_of_honest_people_whatever_liars_send(mechanism: str, liars: float) -> None:
    """Each liar sends one report; of those that are tried, some move a number out of the plain interval.

    The furthest reports use up all that is allowed for, so that noise alone decides there: a mean then misses
    in 2.5% of runs.
    """
    attribute = attribute_of(UNIT, build_mechanism(mechanism, UNIT, 4.0), buckets=64)
    low, high = (-1.2, 1.2) if mechanism == "laplace" else attribute.versions[0].mechanism.report_range
    plain, told, runs = [], [], 0
    for part in (0.0, 0.6, 1.0):
        for seed in range(SEEDS):
            values = np.random.default_rng(seed).beta(2.0, 5.0, PEOPLE)
            lies = np.full(round(liars * PEOPLE), low + part * (high - low))
            statistic, honest = lied(attribute, values, lies, seed), values[len(lies) :]
            plain.append(misses(of_numbers(attribute, statistic, 0.0), honest))
            told.append(misses(of_numbers(attribute, statistic, liars), honest))
            runs += 1
    assert any(run["mean"] for run in plain)
    assert liars < 0.05 or any(run["ranges"] or run["quantiles"] for run in plain)
    assert not any(run["ranges"] or run["quantiles"] for run in told)
    assert np.mean([run["mean"] for run in told]) <= 0.05 + 4.0 * np.sqrt(0.05 * 0.95 / runs) / SEEDS


def of_categories(attribute: Attribute, statistic: Statistic, liars: float) -> Floats:
    wanted, found = WantedIntervals(liars=liars), estimate("inversion", attribute, statistic)
    held = StatisticIntervals(attribute, statistic).of(found, wanted)
    assert liars == 0.0 or "for honest people, if at most 5% lie" in held.methods["frequencies"]
    return held.ends["certain"]["frequencies"].columns


@pytest.mark.parametrize("mechanism", ["grr", "oue", "olh", "hadamard", "block_hadamard", "subset_selection"])
def test_shares_hold_those_of_honest_people(mechanism: str) -> None:
    """Liars send what says the most of the first category."""
    attribute = attribute_of(categories(6), build_mechanism(mechanism, categories(6), 1.0))
    built, missed = attribute.versions[0].mechanism, {0.0: [], 0.05: []}
    values = np.repeat(np.arange(6), [200, 600, 700, 800, 800, 900])
    reports = built.perturb(np.zeros(60, dtype=np.int64), np.random.default_rng(1))
    said = [
        built.unbiased_frequencies(statistic_of_reports(attribute, reports[at : at + 1]), 1)[0]
        for at in range(len(reports))
    ]
    lies = np.repeat(reports[[int(np.argmax(said))]], 200, axis=0)
    for seed in range(SHARES):
        people = np.random.default_rng(seed).permutation(values)
        statistic, truth = lied(attribute, people, lies, seed), np.bincount(people[200:], minlength=6) / 3_800
        for liars, runs in missed.items():
            low, high = of_categories(attribute, statistic, liars)[0]
            runs.append(not low <= truth[0] <= high)
    assert np.mean(missed[0.0]) > 0.7
    assert np.mean(missed[0.05]) <= 0.025 + 4.0 * np.sqrt(0.025 * 0.975 / SHARES)


def statistic_of_reports(attribute: Attribute, reports: Any) -> Any:
    return tally(attribute, len(reports), [Answers(0, np.arange(len(reports)), reports)]).histograms[0]


def test_liars_can_all_answer_the_service_that_few_answer_and_several_at_once() -> None:
    attribute = attribute_of(UNIT, *(build_mechanism("square_wave", UNIT, 1.0) for _ in range(3)))
    zeros = (0, 0, 0)
    users = {0b001: 900, 0b011: 90, 0b100: 10}
    statistic = replace(
        empty(attribute),
        reports=1_090,
        users=1_000,
        moments={k: Moments(n, zeros, zeros) for k, n in users.items()},
    )
    question = Question(attribute, statistic, attribute.services)
    shares = [question.false_share(of, 0.05) for of in ([0], [1], [2], [0, 1], [0, 1, 2])]
    np.testing.assert_allclose(shares, [50 / 990, 50 / 90, 1.0, 100 / 1_080, 100 / 1_090], atol=1e-5)
    assert question.false_share([2], 0.0) == 0.0


def test_services_of_which_half_may_be_false_count_for_nothing() -> None:
    """60 of 4,000 people answer a service of little noise; 1% of all may be 40 of them."""
    precise, other = (build_mechanism("piecewise", UNIT, epsilon) for epsilon in (8.0, 1.0))
    attribute, rng = attribute_of(UNIT, other, precise, buckets=64), np.random.default_rng(1)
    few = np.arange(200)
    values = rng.beta(2.0, 5.0, 8_000)
    answers = [
        Answers(0, np.arange(8_000), other.perturb(values, rng)),
        Answers(1, few, np.where(few < 100, precise.report_range[1], precise.perturb(values[few], rng))),
    ]
    statistic, both = tally(attribute, 8_000, answers), []
    for services in (("s0",), attribute.services):
        found = estimate("ivw", attribute, statistic, services)
        wanted = replace(PLAIN, liars=0.0125)
        both.append(
            StatisticIntervals(attribute, statistic).of(found, wanted).ends["certain"]["mean"].columns
        )
    np.testing.assert_allclose(both[0], both[1], atol=1e-3)
    assert not misses(of_numbers(attribute, statistic, 0.0125), values[100:])["ranges"]


def test_nobody_who_lies_is_as_if_nothing_were_said() -> None:
    """Also of few reports, whose functions are chosen without them."""
    attribute = attribute_of(UNIT, build_mechanism("square_wave", UNIT, 1.0), buckets=64)
    wanted = [replace(PLAIN, liars=liars) for liars in (0.0, 0.02)]
    for people in (5_000, 1_000):
        question = question_of(attribute, np.random.default_rng(1).random(people), 1)
        plain, none, some = (strict_intervals(question, asked) for asked in (PLAIN, *wanted))
        assert plain == none
        widths = [np.diff(one.ends["certain"]["cdf"].columns).mean() for one in (plain, some)]
        assert 1.05 * widths[0] < widths[1] < 3.0 * widths[0]
    found = estimate("ems", attribute, question.statistic)
    plain, some = (StatisticIntervals(attribute, question.statistic).of(found, asked) for asked in wanted)
    # What no bound is known of has no certain interval, and says so.
    assert "variance" not in some.ends["certain"] and some.methods["variance"] == NO_BOUND
    assert (plain.liars, some.liars, some.blurred) == (None, 0.02, {})


def test_keys_with_values_have_none() -> None:
    domain = KeyValues(("a", "b"), UNIT)
    attribute = attribute_of(domain, build_mechanism("pckv_ue", domain, 2.0))
    values = KeyValuePairs(np.arange(501), np.arange(500) % 2, np.random.default_rng(1).random(500))
    question = question_of(attribute, values, 1)
    how = keys_intervals(question, WantedIntervals()).methods["frequencies"]
    assert how == f"{FREQUENCIES}; if nobody has more keys than the padding, 1"
    assert explain(attribute, WantedIntervals(named_only=True)).count("certain ones") == 0
    assert explain(attribute, WantedIntervals(liars=0.01)) == (
        "Estimates of 'x' have no intervals (nothing bounds what liars can do to it)."
    )
    numbers = attribute_of(UNIT, build_mechanism("square_wave", UNIT, 1.0), buckets=64)
    both = explain(numbers, WantedIntervals(liars=0.01, named_only=True))
    assert "Only the mean, and named quantiles" in both and both.endswith("honest people, if at most 1% lie.")
    held = keys_intervals(question, WantedIntervals(liars=0.01))
    assert not held.ends and {*held.methods.values()} == {NO_BOUND}


def test_shares_of_a_larger_population_add_what_liars_do_to_the_error_of_drawing_people() -> None:
    record = paid(reports=100)
    assert record.intervals is not None
    lied = replace(record, intervals=replace(record.intervals, liars=0.01))
    wide, wider = (of_a_population(one).intervals for one in (record, lied))
    assert wide is not None and wider is not None
    drawn = 1.96 * np.sqrt(0.9 * 0.1 / 100)
    assert wide.ends["certain"]["frequencies"].high[0] == pytest.approx(0.1 + np.hypot(0.1, drawn), abs=1e-4)
    assert wider.ends["certain"]["frequencies"].high[0] == pytest.approx(0.1 + 0.1 + drawn, abs=1e-4)
