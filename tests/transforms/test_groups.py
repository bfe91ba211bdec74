"""One CombineFn for every statistic: merges in any tree, a coder of its own, groups capped and counted."""

from __future__ import annotations

import random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ldpbeam.schemas.outputs.snapshots import Snapshot
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.statistics import Answers, Statistic, tally
from ldpbeam.transforms.joining.join import UserReports
from ldpbeam.transforms.windows import groups as stage
from ldpbeam.transforms.windows.coders import CombineGroups
from ldpbeam.transforms.windows.groups import SIDE_BY_SIDE, Accumulator, GroupStatistics
from ldpbeam.transforms.windows.piece_keys import GroupKey, WindowKey

TEXT = """
study: aggregate
attributes:
  x:
    domain: {numeric: [0, 1]}
    buckets: 8
    services: {maps: {mechanism: piecewise, epsilon: 1.0}, taxi: {mechanism: laplace, epsilon: 0.1}}
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
        who = np.flatnonzero(rng.random(users) < 0.7)
        values = rng.random(len(who)) if attribute == "x" else rng.integers(0, 3, len(who))
        answers.append(Answers(index, who, version.mechanism.perturb(values, rng)))
    return UserReports(attribute, group, users, tuple(a for a in answers if len(a.rows)))


def tallied(users: UserReports) -> GroupStatistics:
    """What one batch of users comes to."""
    return stage.tallied(STUDY, STUDY.attribute(users.attribute), [users])


def together(batches: list[UserReports]) -> Statistic:
    """One tally of the users of all batches at once."""
    first = np.cumsum([0, *(batch.users for batch in batches)])
    answers = []
    for version in range(len(X.versions)):
        parts = [
            (at, a) for at, b in zip(first, batches, strict=False) for a in b.answers if a.version == version
        ]
        if parts:
            rows = np.concatenate([at + a.rows for at, a in parts])
            answers.append(Answers(version, rows, np.concatenate([a.payloads for _, a in parts])))
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
    # Up to 40 batches, so that accumulators are also merged on the way.
    batches = [people(users, seed + number, group) for number, (users, group) in enumerate(sizes)]
    by_group = {group: [batch for batch in batches if batch.group == group] for _, group in sizes}
    rng = random.Random(seed)
    combine = CombineGroups()
    coder = combine.get_accumulator_coder()
    leaves: list[Accumulator] = [combine.create_accumulator() for _ in range(rng.randint(1, 4))]
    for batch in rng.sample(batches, len(batches)):
        leaf = rng.randrange(len(leaves))
        leaves[leaf] = combine.add_input(leaves[leaf], tallied(batch))
        if rng.random() < 0.2:
            leaves[leaf] = combine.compact(leaves[leaf])
    while len(leaves) > 1:
        rng.shuffle(leaves)
        width = rng.randint(1, len(leaves))
        sent = [coder.decode(coder.encode(leaf)) if rng.random() < 0.5 else leaf for leaf in leaves[:width]]
        leaves = [combine.merge_accumulators(sent), *leaves[width:]]
    expected = {GroupKey("x", group): together(those) for group, those in by_group.items()}
    assert combine.extract_output(leaves[0]) == expected


def test_no_batch_is_lost_where_more_come_than_are_kept_side_by_side() -> None:
    batches = [people(3, seed) for seed in range(2 * SIDE_BY_SIDE + 1)]
    combine = CombineGroups()
    accumulator = combine.create_accumulator()
    for batch in batches:
        accumulator = combine.add_input(accumulator, tallied(batch))
        assert len(accumulator) < SIDE_BY_SIDE
    assert combine.extract_output(accumulator) == {GroupKey("x", None): together(batches)}


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
    snapshots = stage.capped(WindowKey("x", (0, 1)), GroupStatistics(groups), limit)
    # Ties by name, no name first.
    ranked = sorted(sizes, key=lambda g: (-sizes[g], g is not None, g or ""))
    largest, rest = ranked[:limit], ranked[limit:]
    assert [s.group for s in snapshots if not s.other_groups] == sorted(
        largest, key=lambda g: (g is not None, g or "")
    )
    assert all(s.statistic == statistic(sizes[s.group]) for s in snapshots if not s.other_groups)
    others = [Snapshot("x", (0, 1), None, len(rest), statistic(sum(map(sizes.__getitem__, rest))))]
    assert [s for s in snapshots if s.other_groups] == (others if rest else [])
