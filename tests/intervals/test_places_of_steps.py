"""The places of a domain with a step that certain intervals are asked at: each is one of the values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from types import SimpleNamespace

import numpy as np
import pytest
from support.asked import attribute_of, question_of

from ldpbeam.certainty import Intervals
from ldpbeam.domains import Floats, Integers, Numeric
from ldpbeam.intervals import WantedIntervals, split_reports
from ldpbeam.intervals.numbers import of_distribution
from ldpbeam.intervals.strict import cdf_places, strict_intervals
from ldpbeam.mechanisms import build_mechanism

#: A low end and a step, as a study has them.
STEPS = [
    ("0", "1"), ("0", "0.1"), ("-7.3", "0.1"), ("-50", "0.25"), ("0.1", "0.01"), ("1000", "5"),
    ("-2", "0.3333"), ("20000101.05", "0.05"), ("20000101", "0.001"),
]  # fmt: skip
#: No count of people is exactly this part of all.
LEVELS = (0.0507, 0.2513, 0.5003, 0.7519, 0.9531)


def domain_of(low: str, step: str, count: int) -> tuple[Numeric, Floats]:
    """A domain of so many values, and the values as they are written."""
    values = np.array([float(Decimal(low) + place * Decimal(step)) for place in range(count)])
    return Numeric(values[0], values[-1], float(step)), values


def domains(counts: range) -> Iterator[tuple[Numeric, Floats]]:
    for low, step in STEPS:
        for count in counts:
            # Narrower ones have too few digits, and are refused.
            if (count - 1) * float(step) > 1e-9 * (abs(float(low)) + count * float(step)):
                yield domain_of(low, step, count)


def bounds(intervals: Intervals, part: str) -> Floats:
    return intervals.ends["certain"][part].columns


@pytest.fixture
def exactly(monkeypatch: pytest.MonkeyPatch) -> Callable[[Numeric, Floats, Integers], Intervals]:
    """Certain intervals of a count of people at each value, as if reports showed each asked sum exactly."""
    people = {}

    def sums(reports: split_reports.SplitReports, weights: Floats) -> tuple[Floats, Floats]:
        # People are at a point, but for rounding, or between two of them.
        above = np.searchsorted(reports.points, people["unit"] - 1e-9)
        below = above - (reports.points[above] - people["unit"] > 1e-9)
        found = np.minimum(weights[:, below], weights[:, above]) @ people["shares"]
        return found, np.zeros_like(found)

    def shares_alone(channel: Floats, shares: Floats, reports: Floats) -> SimpleNamespace:
        return SimpleNamespace(shares=shares)

    monkeypatch.setattr(split_reports.SplitReports, "_at_most", sums)
    monkeypatch.setattr(split_reports, "noise", shares_alone)
    monkeypatch.setattr(split_reports, "_suggested", lambda channel, counts: np.ones(channel.shape[1]))

    def computed(domain: Numeric, ranges: Floats, counts: Integers) -> Intervals:
        people["unit"] = np.linspace(0.0, 1.0, domain.count)
        people["shares"] = counts / counts.sum()
        attribute = attribute_of(domain, build_mechanism("square_wave", domain, 2.0), buckets=domain.count)
        wanted = WantedIntervals(0.95, False, LEVELS, tuple(map(tuple, ranges.tolist())))
        return strict_intervals(question_of(attribute, np.zeros(200), 1), wanted)

    return computed


def test_of_all_domains_of_up_to_130_values_an_exact_sum_gives_the_exact_share_and_quantile(
    exactly: Callable[[Numeric, Floats, Integers], Intervals],
) -> None:
    rng = np.random.default_rng(1)
    for domain, values in domains(range(2, 131)):
        counts = rng.integers(1, 1_000, len(values))
        # Ends of ranges at values, and beside them, where it is outside; by a little if there are digits.
        first, last = np.sort(rng.integers(0, len(values), (2, 6)), axis=0)
        little = 5e-5 if domain.step > 1e-9 * domain.high else 0.3
        beside = domain.step * np.array([0.0, 0.0, 0.0, little, -0.4, 0.4])
        ranges = np.column_stack((values[first] + beside, values[last] + beside))
        intervals = exactly(domain, ranges, counts)
        below = np.cumsum(counts) / counts.sum()
        assert list(intervals.at) == values[np.unique(np.arange(32) * len(values) // 32)].tolist()
        shares = [below[values.tolist().index(at)] for at in intervals.at]
        np.testing.assert_allclose(bounds(intervals, "cdf")[:, 0], shares, atol=1e-3)
        np.testing.assert_allclose(bounds(intervals, "cdf")[:, 1], shares, atol=1e-3)
        expected = np.quantile(np.repeat(values, counts), LEVELS, method="inverted_cdf")
        assert bounds(intervals, "quantiles").T.tolist() == [expected.tolist()] * 2
        starts, stops = first + [0, 0, 0, 1, 0, 1], last + [0, 0, 0, 0, -1, 0]
        inside = np.append(0.0, below)[stops + 1] - np.append(0.0, below)[np.minimum(starts, stops + 1)]
        np.testing.assert_allclose(bounds(intervals, "ranges"), np.column_stack((inside, inside)), atol=1e-3)


def test_of_more_values_than_points_people_at_a_place_count_or_not(
    exactly: Callable[[Numeric, Floats, Integers], Intervals],
) -> None:
    rng = np.random.default_rng(2)
    for domain, values in domains(range(258, 1_300, 173)):
        counts = rng.integers(1, 1_000, len(values))
        first, last = np.sort(rng.integers(0, len(values), (2, 4)), axis=0)
        intervals = exactly(domain, np.column_stack((values[first], values[last])), counts)
        below = np.append(0.0, np.cumsum(counts) / counts.sum())
        places = [values.tolist().index(at) for at in intervals.at]
        ends = np.column_stack((below[places], below[np.array(places) + 1]))
        np.testing.assert_allclose(bounds(intervals, "cdf"), ends, atol=1e-3)
        np.testing.assert_allclose(
            bounds(intervals, "ranges")[:, 1], below[last + 1] - below[first], atol=1e-3
        )


def test_the_distribution_function_is_given_at_values() -> None:
    for domain, values in domains(range(2, 131)):
        at, places, parts = cdf_places(domain)
        assert set(at) <= set(values)
        index = [values.tolist().index(value) for value in at]
        np.testing.assert_allclose(places, np.array(index) / (len(values) - 1), rtol=1e-12)
        np.testing.assert_allclose(parts, (np.array(index) + 1) / len(values), rtol=1e-12)
    domain, values = domain_of("0", "1", 24)
    attribute = attribute_of(domain, build_mechanism("square_wave", domain, 4.0), buckets=24)
    people = np.random.default_rng(3).beta(2.0, 4.0, 2_000)
    parts_of = of_distribution(question_of(attribute, domain.to_unit(24 * people), 3), WantedIntervals())
    assert list(parts_of.at) == values.tolist()
