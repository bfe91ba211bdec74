"""One CombineFn for every statistic: merges in any tree, a coder of its own, groups capped and counted."""

from __future__ import annotations

import random
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.testing import test_pipeline
from apache_beam.testing.util import assert_that, equal_to
from hypothesis import given, settings
from hypothesis import strategies as st

from ldpbeam.runners import direct
from ldpbeam.schemas.outputs.snapshots import Snapshot
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.statistics import Answers, Statistic, merge, tally
from ldpbeam.transforms.joining.join import UserReports
from ldpbeam.transforms.windows import groups as stage
from ldpbeam.transforms.windows.bounded import Aggregate
from ldpbeam.transforms.windows.combine import SIDE_BY_SIDE, CombineGroups
from ldpbeam.transforms.windows.groups import Accumulator, GroupStatistics
from ldpbeam.transforms.windows.keys import GroupKey, WindowKey

TEXT = """
study: aggregate
attributes:
  x:
    domain: {numeric: [0, 1]}
    buckets: 8
    services:
      maps: {mechanism: piecewise, epsilon: 1.0}
      taxi: {mechanism: laplace, epsilon: 0.1}
    estimates: {all: {estimator: ule}}
  colour:
    domain: {categories: [red, green, blue]}
    services: {shop: {mechanism: grr, epsilon: 1.0}}
    estimates: {all: {estimator: mle}}
groups: {field: region, at_most: 3}
"""
STUDY = parse_study(TEXT)
X = STUDY.attribute("x")


def people(users: int, seed: int, group: str | None = None, attribute: str = "x") -> UserReports:
    """Reports of some users, each to any of the services."""
    rng = np.random.default_rng(seed)
    described = STUDY.attribute(attribute)
    answers = []
    for index, version in enumerate(described.versions):
        own = np.flatnonzero(rng.random(users) < 0.7)
        values = rng.random(len(own)) if attribute == "x" else rng.integers(0, 3, len(own))
        answers.append(Answers(index, own, version.mechanism.perturb(values, rng)))
    return UserReports(attribute, group, users, tuple(a for a in answers if len(a.rows)))


KEY = GroupKey("x", None)


def tallied(users: UserReports) -> GroupStatistics:
    """What one batch of users comes to."""
    return stage.tallied(STUDY, STUDY.attribute(users.attribute), [users])


def together(batches: list[UserReports]) -> Statistic:
    """One tally of the users of all batches at once."""
    first = np.cumsum([0, *(batch.users for batch in batches)])
    answers = []
    for version in range(len(X.versions)):
        own = [
            (at, a) for at, b in zip(first, batches, strict=False) for a in b.answers if a.version == version
        ]
        if own:
            rows = np.concatenate([at + a.rows for at, a in own])
            answers.append(Answers(version, rows, np.concatenate([a.payloads for _, a in own])))
    return tally(X, int(first[-1]), answers)


@settings(max_examples=60, derandomize=True, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(1, 30), st.sampled_from([None, None, "", "north"])), min_size=1, max_size=40
    ),
    st.integers(0, 2**32),
)
def test_any_tree_of_merges_is_one_tally_of_each_group(
    sizes: list[tuple[int, str | None]], seed: int
) -> None:
    # Up to 40 batches, so that accumulators are also merged on the way (16 side by side).
    batches = [people(users, seed + place, group) for place, (users, group) in enumerate(sizes)]
    by_group = {group: [batch for batch in batches if batch.group == group] for _, group in sizes}
    rng = random.Random(seed)
    combine = CombineGroups()
    coder = combine.get_accumulator_coder()
    leaves: list[Accumulator] = [combine.create_accumulator() for _ in range(rng.randint(1, 4))]
    for batch in rng.sample(batches, len(batches)):
        place = rng.randrange(len(leaves))
        leaves[place] = combine.add_input(leaves[place], tallied(batch))
        if rng.random() < 0.2:
            leaves[place] = combine.compact(leaves[place])
    while len(leaves) > 1:
        rng.shuffle(leaves)
        width = rng.randint(1, len(leaves))
        sent = [coder.decode(coder.encode(leaf)) if rng.random() < 0.5 else leaf for leaf in leaves[:width]]
        leaves = [combine.merge_accumulators(sent), *leaves[width:]]
    expected = {GroupKey("x", group): together(own) for group, own in by_group.items()}
    assert combine.extract_output(leaves[0]) == expected


def test_no_batch_is_lost_where_more_come_than_are_kept_side_by_side() -> None:
    batches = [people(3, seed) for seed in range(2 * SIDE_BY_SIDE + 1)]
    combine = CombineGroups()
    accumulator = combine.create_accumulator()
    for batch in batches:
        accumulator = combine.add_input(accumulator, tallied(batch))
        assert len(accumulator) <= SIDE_BY_SIDE
    assert combine.extract_output(accumulator) == {KEY: together(batches)}


def test_an_accumulator_crosses_the_wire_merged_and_nothing_is_nothing() -> None:
    combine = CombineGroups()
    coder = combine.get_accumulator_coder()
    assert coder.decode(coder.encode(combine.create_accumulator())) == []
    batches = [people(20, seed) for seed in range(3)]
    accumulator = combine.create_accumulator()
    for batch in batches:
        accumulator = combine.add_input(accumulator, tallied(batch))
    (sent,) = coder.decode(coder.encode(accumulator))
    assert sent == {KEY: together(batches)}
    back = sent[KEY]
    # Squares of Laplace reports at epsilon 0.1 outgrow 64 bits: sums cross as whole numbers.
    many = merge([back] * 2000)
    assert max(moments.squares[1] for moments in many.moments.values()) > 2**64
    assert coder.decode(coder.encode([GroupStatistics({KEY: many})])) == [{KEY: many}]


def test_no_group_the_empty_name_and_other_groups_are_aggregated_apart() -> None:
    batches = [people(5, 1), people(6, 2, ""), people(7, 3, "north"), people(8, 4)]
    batches.append(people(9, 5, "north", "colour"))
    expected = [
        ("colour", [("north", 9)]),
        ("x", [(None, 13), ("", 6), ("north", 7)]),
    ]
    with test_pipeline.TestPipeline(runner=direct.runner()) as pipeline:
        found = (
            pipeline
            | beam.Create([(WindowKey(b.attribute, None), tallied(b)) for b in batches])
            | Aggregate(STUDY)
            | beam.MapTuple(lambda name, some: (name, [(s.group, s.statistic.users) for s in some]))
        )
        assert_that(found, equal_to(expected))


def test_every_window_has_its_own_snapshots() -> None:
    by_window = {(0, 3600): [people(5, 1), people(6, 2)], (3600, 7200): [people(7, 3)]}
    expected = [(bounds, together(own)) for bounds, own in by_window.items()]

    def same(found: list[Any]) -> None:
        pairs = [(snapshot.window, snapshot.statistic) for _, (snapshot,) in found]
        assert sorted(pairs, key=lambda p: p[0]) == expected

    with test_pipeline.TestPipeline(runner=direct.runner()) as pipeline:
        found = (
            pipeline
            | beam.Create(
                [(WindowKey("x", bounds), tallied(b)) for bounds, own in by_window.items() for b in own]
            )
            | Aggregate(STUDY)
        )
        assert_that(found, same)


def statistic(reports: int) -> Statistic:
    answer = Answers(0, np.arange(reports), np.zeros(reports))
    return tally(X, reports, [answer])


@settings(derandomize=True, deadline=None)
@given(
    st.dictionaries(st.none() | st.text("abc", max_size=2), st.integers(1, 4), min_size=1),
    st.integers(1, 5),
    st.integers(0, 2**32),
)
def test_the_groups_with_most_reports_stand_alone_and_the_rest_are_counted(
    sizes: dict[str | None, int], limit: int, seed: int
) -> None:
    groups = [(GroupKey("x", group), statistic(reports)) for group, reports in sizes.items()]
    random.Random(seed).shuffle(groups)
    found = stage.capped(WindowKey("x", (0, 1)), GroupStatistics(groups), limit)
    # Ties by name, no name first.
    ranked = sorted(sizes, key=lambda g: (-sizes[g], g is not None, g or ""))
    own, rest = ranked[:limit], ranked[limit:]
    assert [s.group for s in found if not s.other_groups] == sorted(
        own, key=lambda g: (g is not None, g or "")
    )
    assert all(s.statistic == statistic(sizes[s.group]) for s in found if not s.other_groups)
    others = [Snapshot("x", (0, 1), None, len(rest), statistic(sum(map(sizes.__getitem__, rest))))]
    assert [s for s in found if s.other_groups] == (others if rest else [])
