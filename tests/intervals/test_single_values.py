"""Certain intervals of the shares of single values of a domain with a step."""

from __future__ import annotations

import numpy as np
import pytest
from support.asked import attribute_of, question_of

from ldpbeam.domains import Floats, Numeric
from ldpbeam.intervals import WantedIntervals, numbers
from ldpbeam.intervals.numbers import MANY_VALUES, SMOOTH, of_distribution
from ldpbeam.intervals.strict import STRICT, strict_intervals
from ldpbeam.mechanisms import build_mechanism


def bounds(count: int, buckets: int, people: Floats, seed: int) -> tuple[Floats, str]:
    domain = Numeric(0.0, count - 1.0, 1.0)
    attribute = attribute_of(domain, build_mechanism("square_wave", domain, 4.0), buckets=count)
    attribute = attribute.with_value_buckets(buckets)
    found = strict_intervals(question_of(attribute, domain.to_unit(people), 100 + seed), WantedIntervals())
    ends = found.of("distribution")
    assert ends is not None
    return ends, found.methods["distribution"]


@pytest.mark.parametrize("used", [48, 450])
def test_of_450_values_each_is_held_and_where_reports_say_little_of_one_that_is_said(used: int) -> None:
    """Seats of planes: few of all values are used, and each may have many people."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        values, shares = rng.choice(450, used, replace=False), rng.gamma(0.5, size=used)
        people = rng.choice(values, 5_000, p=shares / shares.sum())
        ends, how = bounds(450, 450, people, seed)
        truth = np.bincount(people, minlength=450) / len(people)
        assert np.all(ends[:, 0] <= truth) and np.all(truth <= ends[:, 1])
        assert "the share of 8 neighbouring buckets" in how and not ends[:, 0].any()
        assert len(ends) == 450 and np.mean(ends[:, 1]) < 0.2


def test_of_few_values_both_ends_are_known() -> None:
    people = np.random.default_rng(1).choice([2, 3, 9], 20_000, p=[0.5, 0.2, 0.3])
    ends, how = bounds(25, 25, people, 1)
    truth = np.bincount(people, minlength=25) / len(people)
    assert np.all(ends[:, 0] <= truth) and np.all(truth <= ends[:, 1])
    assert how == STRICT and np.all(ends[[2, 3, 9], 0] > 0.1)


def test_it_is_said_that_of_many_values_none_has_a_height_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numbers, "MOST_VALUES", 20)
    methods = []
    for count in (20, 21):
        domain = Numeric(0.0, count - 1.0, 1.0)
        attribute = attribute_of(domain, build_mechanism("square_wave", domain, 1.0), buckets=count)
        question = question_of(attribute, np.random.default_rng(1).random(300), 1)
        methods.append(of_distribution(question, WantedIntervals()).methods["if_smooth"])
    assert methods == [SMOOTH, SMOOTH + MANY_VALUES]


def test_a_bucket_of_several_values_is_bounded_whole() -> None:
    people = np.random.default_rng(2).choice([10, 90], 20_000)
    ends, _ = bounds(128, 32, people, 2)
    truth = np.bincount(people // 4, minlength=32) / len(people)
    assert np.all(ends[:, 0] <= truth) and np.all(truth <= ends[:, 1]) and ends[5:20, 1].max() < 0.1
