"""Intervals of the frequencies and means of keys with values."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtri
from support.asked import statistic_of

from ldpbeam.attributes import Attribute, ServiceVersion
from ldpbeam.certainty import Intervals
from ldpbeam.domains import KeyValuePairs, KeyValues, Numeric
from ldpbeam.estimators.estimate import Estimate
from ldpbeam.intervals import WantedIntervals
from ldpbeam.intervals.computing import StatisticIntervals
from ldpbeam.intervals.key_values import KeyMoments, fieller
from ldpbeam.mechanisms import build_mechanism
from ldpbeam.statistics import Answers, Statistic, tally

DOMAIN = KeyValues(("a", "b", "c", "d", "e"), Numeric(-10.0, 10.0))
#: The probability that a person has each key, and the mean of its values on [0, 1].
SHARES, CENTRES = np.array([0.7, 0.4, 0.2, 0.1, 0.05]), np.array([0.3, 0.8, 0.5, 0.9, 0.2])


def asked(*services: tuple[str, float, dict[str, Any]]) -> Attribute:
    versions = tuple(
        ServiceVersion(f"s{place}", "", build_mechanism(name, DOMAIN, epsilon, **options))
        for place, (name, epsilon, options) in enumerate(services)
    )
    return Attribute("x", DOMAIN, 32, versions)


def people(n: int, rng: np.random.Generator) -> KeyValuePairs:
    have = rng.random((n, 5)) < SHARES
    keys = np.nonzero(have)[1]
    starts = np.concatenate(([0], np.cumsum(have.sum(axis=1))))
    return KeyValuePairs(starts, keys, np.clip(rng.normal(CENTRES[keys], 0.1), 0.0, 1.0))


def found(attribute: Attribute, statistic: Statistic) -> Intervals:
    nothing = np.full(5, np.nan)
    estimate = Estimate("none", attribute.services, 0, None, frequencies=nothing, key_means=nothing)
    return StatisticIntervals(attribute, statistic).of(estimate, WantedIntervals())


@pytest.mark.parametrize(
    "services",
    [
        [("pckv_ue", 2.0, {"padding": 5})],
        [("pckv_grr", 2.0, {"padding": 5})],
        [("pckv_pm", 2.0, {"padding": 5})],
        [("privkv", 2.0, {})],
        [("pckv_ue", 3.0, {"padding": 5}), ("privkv", 2.0, {})],
    ],
    ids=["ue", "grr", "pm", "privkv", "two"],
)
def test_intervals_hold_the_frequencies_and_means_of_the_people_who_reported(
    services: list[tuple[str, float, dict[str, Any]]],
) -> None:
    attribute, rng = asked(*services), np.random.default_rng(3)
    shares, means = list[float](), list[float]()
    pairs = people(3_000, rng)
    have = np.bincount(pairs.keys, minlength=5)
    truth = have / len(pairs), -10.0 + 20.0 * np.bincount(pairs.keys, pairs.values, 5) / have
    for _ in range(150):
        intervals = found(attribute, statistic_of(attribute, pairs, rng))
        for ends, true, held in (
            (intervals.of("frequencies"), truth[0], shares),
            (intervals.of("key_means"), truth[1], means),
        ):
            assert ends is not None
            held.append(float(((ends[:, 0] <= true) & (true <= ends[:, 1])).mean()))
    for held in (shares, means):
        error = max(float(np.std(held)), math.sqrt(0.95 * 0.05 / 5)) / math.sqrt(len(held))
        # Values of people with a key differ, and their spread is not known: means may be held a little more.
        assert -4.0 * error < np.mean(held) - 0.95 < 0.02 + 4.0 * error


def test_fiellers_interval_has_the_ratios_that_are_not_refused() -> None:
    """On a fine grid of ratios, with a clear frequency, one that is not, and one that excludes one side."""
    moments = KeyMoments(
        np.array([0.5, 0.02, 0.1]), np.array([0.1, 0.01, 0.2]), np.full(3, 0.01**2) * [1, 4, 36],
        np.full(3, 0.02**2) * [1, 4, 4], np.full(3, 1e-5),
    )  # fmt: skip
    ends = fieller(moments, 0.95)
    z, ratios = float(ndtri(0.975)), np.linspace(-1.0, 1.0, 200_001)
    for place in range(3):
        f, t = moments.frequency[place], moments.total[place]
        spread = (
            moments.of_total[place]
            - 2.0 * ratios * moments.of_both[place]
            + ratios**2 * moments.of_frequency[place]
        )
        taken = ratios[(t - ratios * f) ** 2 <= z**2 * spread]
        assert ends[place] == pytest.approx([taken.min(), taken.max()], abs=1e-3)


def test_a_key_without_reports_has_every_value() -> None:
    attribute = asked(("privkv", 1.0, {}))
    pairs = KeyValuePairs(np.zeros(2, np.int64), np.zeros(0, np.int64), np.zeros(0))
    intervals = found(attribute, statistic_of(attribute, pairs, np.random.default_rng(1)))
    certain = intervals.ends["certain"]
    assert (certain["frequencies"].columns == [0.0, 1.0]).all(axis=1).sum() >= 4
    assert (certain["key_means"].columns == [-10.0, 10.0]).all(axis=1).sum() >= 4


def test_later_rounds_of_privkvm_have_none() -> None:
    attribute = asked(("privkvm", 1.0, {"round": 2}))
    pairs = people(50, np.random.default_rng(1))
    first = attribute.versions[0].mechanism
    reports = first.perturb_with(pairs, np.full(5, 0.5), np.random.default_rng(2))  # type: ignore[attr-defined]
    intervals = found(attribute, tally(attribute, 50, [Answers(0, np.arange(50), reports)]))
    assert not intervals.ends and "later rounds" in intervals.methods["frequencies"]
