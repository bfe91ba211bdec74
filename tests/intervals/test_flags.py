"""What flags say, and the table of them."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.asked import attribute_of, statistic_of

from ldpbeam.certainty import LARGEST
from ldpbeam.domains import Categories, Numeric
from ldpbeam.estimators import estimate as solve
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


def test_the_intervals_of_the_largest_shares_hold_for_all_at_once() -> None:
    attribute = attribute_of(LETTERS, build_mechanism("grr", LETTERS, 2.0))
    statistic = statistic_of(attribute, np.random.default_rng(1).integers(0, 20, 2_000), 1)
    shares, whole = solve("inversion", attribute, statistic), replace(WANTED, simultaneous=True)
    each, all_of_them = (StatisticIntervals(attribute, statistic).of(shares, of) for of in (WANTED, whole))
    largest, own, at_once = (
        each.of("frequencies", LARGEST),
        each.of("frequencies"),
        all_of_them.of("frequencies"),
    )
    assert largest is not None and own is not None and at_once is not None and shares.distribution is not None
    by_size = np.argsort(-shares.distribution, kind="stable")
    np.testing.assert_array_equal(largest, at_once[by_size])
    assert (np.diff(largest) > np.diff(own[by_size])).all()
