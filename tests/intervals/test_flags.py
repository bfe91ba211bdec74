"""What flags say, and the table of them."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.asked import attribute_of, statistic_of

from ldpbeam.domains import Categories, Numeric
from ldpbeam.estimators import estimate as solve
from ldpbeam.estimators.estimate import Estimate
from ldpbeam.estimators.means import far_outside
from ldpbeam.intervals import WantedIntervals, flags
from ldpbeam.intervals.computing import StatisticIntervals
from ldpbeam.mechanisms import build_mechanism

PAGE = Path(__file__).parents[2] / "docs" / "formulas.md"
EVERY = [text for name, text in vars(flags).items() if name.isupper() and name[0] != "_" and ": " in text]
EVERY.append(far_outside(Numeric(0.0, 1.0), 2.0, 0.01))
WANTED = WantedIntervals(0.95, False, (0.05, 0.5, 0.95), ((0.0, 2.5), (2.5, 10.0)))
LETTERS = Categories(tuple("abcdefghijklmnopqrst"))


def test_the_table_has_every_flag_and_no_other() -> None:
    section = PAGE.read_text(encoding="utf-8").split("### What a flag says")[1].split("###")[0]
    assert sorted(re.findall("^\\| `(.*?)` \\|", section, re.M)) == sorted(
        text.split(": ")[0] for text in EVERY
    )


@pytest.mark.parametrize("text", EVERY)
def test_a_flag_says_what_it_means_and_what_to_do_and_names_its_page(text: str) -> None:
    _, what_it_means = text.split(": ", 1)
    assert re.fullmatch(r"[^;]{10,}; [^;]{10,} \(docs/formulas\.md#what-a-flag-says\)", what_it_means)


def test_a_number_that_lies_outside_is_flagged_by_itself() -> None:
    """Two of twenty shares are moved, one by less than anybody would act on."""
    attribute = attribute_of(LETTERS, build_mechanism("grr", LETTERS, 8.0))
    statistic = statistic_of(attribute, np.random.default_rng(1).integers(0, 20, 200_000), 1)
    shares = solve("inversion", attribute, statistic).distribution
    assert shares is not None
    intervals = StatisticIntervals(attribute, statistic)
    ends = intervals.of(Estimate("biased", ("s0",), 1, 1, distribution=shares), WANTED).distribution
    assert ends is not None
    moved = shares.copy()
    moved[3], moved[4] = ends[3, 1] + 2e-4, ends[4, 1] + 5e-5
    told = intervals.of(Estimate("biased", ("s0",), 1, 1, distribution=moved), WANTED)
    assert dict(told.flags) == {"distribution d": flags.OUTSIDE.format(estimator="biased")}


def test_the_intervals_of_the_largest_shares_hold_for_all_at_once() -> None:
    attribute = attribute_of(LETTERS, build_mechanism("grr", LETTERS, 2.0))
    statistic = statistic_of(attribute, np.random.default_rng(1).integers(0, 20, 2_000), 1)
    shares, at_once = solve("inversion", attribute, statistic), replace(WANTED, simultaneous=True)
    each, all_of_them = (StatisticIntervals(attribute, statistic).of(shares, of) for of in (WANTED, at_once))
    assert each.largest is not None and each.distribution is not None and all_of_them.distribution is not None
    np.testing.assert_array_equal(each.largest, all_of_them.distribution)
    assert (np.diff(each.largest) > np.diff(each.distribution)).all()


def test_reports_that_do_not_tell_categories_apart_are_flagged_and_others_are_not() -> None:
    attribute = attribute_of(LETTERS, build_mechanism("grr", LETTERS, 0.5))
    for people, heavy, flagged in ((500, 0.0, True), (200_000, 0.0, False), (5_000, 0.9, False)):
        rng = np.random.default_rng(people)
        values = np.where(rng.random(people) < heavy, 7, rng.integers(0, 20, people))
        statistic = statistic_of(attribute, values, 2)
        told = StatisticIntervals(attribute, statistic).of(solve("auto", attribute, statistic), WANTED)
        assert (told.flags.get("distribution") == flags.FEW_REPORTS) == flagged


@pytest.mark.parametrize(("epsilon", "people"), [(1.0, 100_000), (15.0, 20_000)])
def test_everybody_at_one_value_is_no_shape_that_the_reports_do_not_show(epsilon: float, people: int) -> None:
    domain = Numeric(0.0, 10.0)
    attribute = attribute_of(domain, build_mechanism("square_wave", domain, epsilon), buckets=64)
    statistic = statistic_of(attribute, np.full(people, 0.43), 2)
    told = StatisticIntervals(attribute, statistic).of(solve("auto", attribute, statistic), WANTED)
    assert not any("no detail finer" in text or "outside" in text for text in told.flags.values()), told.flags
