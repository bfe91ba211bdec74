"""Statistics cross the wire whole, whatever their groups are called and whichever counts are below zero."""

from __future__ import annotations

import apache_beam as beam
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.statistics import Answers, Statistic, difference, empty, merge, tally
from ldpbeam.transforms.windows.coders import GroupKey, Statistics, StatisticsCoder

STUDY = parse_study(
    """
study: coders
attributes:
  x:
    domain: {numeric: [0, 1]}
    buckets: 8
    services:
      maps: {mechanism: piecewise, epsilon: 1.0}
      taxi: {mechanism: laplace, epsilon: 0.1}
    estimates: {all: {estimator: ule}}
"""
)
X = STUDY.attribute("x")


def statistic(users: int, seed: int) -> Statistic:
    """Of users who answer any of the services."""
    rng = np.random.default_rng(seed)
    answers = []
    for index, version in enumerate(X.versions):
        rows = np.flatnonzero(rng.random(users) < 0.7)
        answers.append(Answers(index, rows, version.mechanism.perturb(rng.random(len(rows)), rng)))
    return tally(X, users, answers)


# What one partition gained or lost: sums, differences, and nothing at all.
STATISTIC = st.builds(
    lambda users, others, sign: difference(statistic(users, 1), statistic(others, 2 - sign)),
    st.integers(0, 20),
    st.integers(0, 20),
    st.sampled_from([0, 1]),
)
KEYS = st.tuples(st.sampled_from(["x", "v.north"]), st.none() | st.text(max_size=3))


@settings(derandomize=True, deadline=None)
@given(st.dictionaries(KEYS, STATISTIC, max_size=5))
def test_statistics_come_back_with_their_keys(by_key: dict[tuple[str, str | None], Statistic]) -> None:
    given_ = Statistics({GroupKey(key): own for key, own in by_key.items()})
    coder = beam.coders.registry.get_coder(Statistics)
    assert isinstance(coder, StatisticsCoder)
    back = coder.decode(coder.encode(given_))
    assert back == given_
    assert list(back) == list(given_)
    assert (type(back), {type(key) for key in back}) in [(Statistics, {GroupKey}), (Statistics, set())]


def test_losses_beyond_64_bits_come_back_as_they_were() -> None:
    many = merge([statistic(50, 3)] * 2000)
    lost = difference(empty(X), many)
    assert min(own.squares[1] for own in lost.moments.values()) < -(2**64)
    coder = StatisticsCoder()
    (back,) = coder.decode(coder.encode(Statistics({GroupKey(("x", None)): lost}))).values()
    assert back == lost
    assert merge([back, many]) == empty(X)


def test_equal_statistics_may_have_unequal_bytes_and_the_coder_says_so() -> None:
    keys = [GroupKey(("x", None)), GroupKey(("x", ""))]
    one, other = (Statistics({key: empty(X) for key in order}) for order in (keys, keys[::-1]))
    coder = StatisticsCoder()
    assert one == other
    assert coder.encode(one) != coder.encode(other)
    assert not coder.is_deterministic()
