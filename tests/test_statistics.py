"""Statistics: exact integers that merge in any order, and attributes that tell channels apart."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import joint_users

from ldpbeam import Attribute, Categories, Numeric, ServiceVersion
from ldpbeam.mechanisms import Laplace, Piecewise, RandomisedResponse, SquareWave, StochasticRounding
from ldpbeam.statistics import Answers, Statistic, difference, empty, merge, tally

USERS = 40
# Service "sw" has changed its epsilon: two versions side by side.
INCOME = Attribute(
    "income",
    Numeric(0.0, 100.0),
    buckets=8,
    versions=(
        ServiceVersion("sw", "old", SquareWave(1.0)),
        ServiceVersion("sw", "new", SquareWave(0.5)),
        ServiceVersion("laplace", "", Laplace(0.7)),
        ServiceVersion("sr", "", StochasticRounding(1.5)),
        ServiceVersion("pm", "", Piecewise(2.0)),
    ),
    joint_services=("sw", "laplace", "pm"),
    joint_buckets=4,
)
COLOUR = Attribute(
    "colour",
    Categories(("red", "green", "blue")),
    buckets=0,
    versions=(
        ServiceVersion("a", "", RandomisedResponse(1.0, size=3)),
        ServiceVersion("b", "", RandomisedResponse(2.0, size=3)),
    ),
    joint_services=("a", "b"),
)


def ask(attribute: Attribute, users: int, seed: int) -> list[Answers]:
    """Reports of users who answered any subset of the services, one version of each."""
    shares = None if isinstance(attribute.domain, Numeric) else np.full(3, 1 / 3)
    return joint_users.ask(attribute, users, seed, 0.4, shares)


def part_of(
    attribute: Attribute, answers: Sequence[Answers], members: Sequence[int], rng: np.random.Generator
) -> Statistic:
    """The statistic of some of the users, in the order given and their reports in any."""
    place = np.full(USERS, -1)
    place[list(members)] = np.arange(len(members))
    own = []
    for answer in answers:
        kept = rng.permutation(np.flatnonzero(place[answer.rows] >= 0))
        if len(kept):
            own.append(Answers(answer.version, place[answer.rows[kept]], answer.payloads[kept]))
    rng.shuffle(own)  # type: ignore[arg-type]
    return tally(attribute, len(members), own)


splits = st.lists(st.integers(0, 5), min_size=USERS, max_size=USERS)
reproducibly = settings(derandomize=True, deadline=None, max_examples=25)


@pytest.mark.parametrize("attribute", [INCOME, COLOUR], ids=lambda attribute: attribute.name)
@pytest.mark.parametrize("group_users", [True, False])
@reproducibly
@given(split=splits, seed=st.integers(0, 2**32 - 1))
def test_merge_order_does_not_matter(
    attribute: Attribute, group_users: bool, split: list[int], seed: int
) -> None:
    if not group_users:
        attribute = dataclasses.replace(attribute, joint_services=(), group_users=False)
    rng = np.random.default_rng(seed)
    answers = ask(attribute, USERS, seed)
    whole = tally(attribute, USERS, answers)
    members = [[int(u) for u in rng.permutation(USERS) if split[u] == k] for k in range(6)]
    parts = [part_of(attribute, answers, chosen, rng) for chosen in members]
    assert merge(parts) == whole
    assert merge(parts[::-1]) == whole
    a, b, c = merge(parts[:2]), merge(parts[2:4]), merge(parts[4:])
    assert merge([merge([a, b]), c]) == merge([a, merge([b, c])]) == whole
    assert merge([a, b]) == merge([b, a])


def test_statistics_of_different_users_differ() -> None:
    """What the tests above call equal would not be, were a report missing or another one."""
    answers = ask(INCOME, USERS, 1)
    whole = tally(INCOME, USERS, answers)
    assert whole == tally(INCOME, USERS, answers)
    assert whole != tally(INCOME, USERS, answers[:-1])
    assert whole != tally(INCOME, USERS + 1, answers)
    other = dataclasses.replace(answers[0], payloads=answers[0].payloads + 0.2)
    assert whole != tally(INCOME, USERS, [other, *answers[1:]])


@pytest.mark.parametrize("attribute", [INCOME, COLOUR], ids=lambda attribute: attribute.name)
def test_empty_is_the_identity(attribute: Attribute) -> None:
    nothing = empty(attribute)
    whole = tally(attribute, USERS, ask(attribute, USERS, 2))
    assert merge([nothing, whole]) == merge([whole, nothing]) == merge([whole]) == whole
    assert merge([nothing, nothing]) == nothing == tally(attribute, 0, [])
    assert nothing != whole
    with pytest.raises(ValueError, match="nothing to merge"):
        merge([])


@pytest.mark.parametrize("users", [USERS, 3000])  # the larger one takes the dense way of counting
@pytest.mark.parametrize("attribute", [INCOME, COLOUR], ids=lambda attribute: attribute.name)
def test_joint_histogram_is_a_count_of_users_by_what_they_sent(attribute: Attribute, users: int) -> None:
    answers = ask(attribute, users, 4)
    found = tally(attribute, users, answers)
    sent: list[dict[str, int]] = [{} for _ in range(users)]
    for answer in answers:
        version = attribute.versions[answer.version]
        # A service's axis: no report, then the cells of its versions one after the other.
        first = 1
        for index in attribute.versions_of([version.service]):
            if index < answer.version:
                first += attribute.versions[index].mechanism.cells(attribute.joint_buckets)
        buckets = version.mechanism.bucketise(answer.payloads, attribute.joint_buckets)
        for row, bucket in zip(answer.rows.tolist(), buckets.tolist(), strict=True):
            sent[row][version.service] = first + bucket
    expected: Counter[int] = Counter()
    for one in sent:
        cell, stride = 0, 1
        for service, size in zip(attribute.joint_services, attribute.joint_shape, strict=True):
            cell += stride * one.get(service, 0)
            stride *= size
        expected[cell] += cell > 0
    assert found.joint_cells.tolist() == sorted(cell for cell in expected if cell)
    assert dict(zip(found.joint_cells.tolist(), found.joint_counts.tolist(), strict=True)) == {
        cell: count for cell, count in expected.items() if cell
    }


def test_moments_are_exact_sums_by_the_set_of_channels_answered() -> None:
    answers = ask(INCOME, USERS, 5)
    found = tally(INCOME, USERS, answers)
    grids: list[dict[int, int]] = [{} for _ in range(USERS)]
    for answer in answers:
        mechanism = INCOME.versions[answer.version].mechanism
        step = Fraction(mechanism.fixed_point_step)
        for row, payload in zip(answer.rows.tolist(), answer.payloads.tolist(), strict=True):
            grids[row][answer.version] = round(Fraction(payload) / step)
    masks = Counter(sum(1 << version for version in grid) for grid in grids)
    assert {mask: moments.users for mask, moments in found.moments.items()} == masks
    assert masks[0] > 0  # some answered nothing, and are still users
    for mask, moments in found.moments.items():
        same = [grid for grid in grids if sum(1 << version for version in grid) == mask]
        for version in range(len(INCOME.versions)):
            integers = [grid.get(version, 0) for grid in same]
            assert moments.sums[version] == sum(integers)
            assert moments.squares[version] == sum(integer**2 for integer in integers)


def test_squares_beyond_64_bits_are_exact_python_integers() -> None:
    attribute = dataclasses.replace(INCOME, joint_services=())
    rng = np.random.default_rng(6)
    pm = Piecewise(2.0)
    payloads = rng.uniform(0.99, 1.0, 1000) * pm.bound * rng.choice([-1.0, 1.0], 1000)
    found = tally(attribute, 1000, [Answers(4, np.arange(1000), payloads)])
    twice = merge([found, found])
    integers = pm.fixed_point(payloads).tolist()
    squares = sum(integer * integer for integer in integers)
    assert squares > 2**64
    moments = found.moments[1 << 4]
    assert (moments.sums[4], moments.squares[4]) == (sum(integers), squares)
    assert twice.moments[1 << 4].squares[4] == 2 * squares
    assert {type(number) for number in (*moments.sums, *moments.squares)} == {int}


def test_kept_duplicates_count_every_report_and_no_user() -> None:
    attribute = dataclasses.replace(INCOME, joint_services=(), group_users=False)
    payloads = Laplace(0.7).perturb(np.full(10, 0.5), np.random.default_rng(8))
    # Six reports of user 0: rows are not looked at.
    statistic = tally(attribute, 3, [Answers(2, np.array([0] * 6 + [1, 1, 2, 2]), payloads)])
    assert statistic.users is None
    assert empty(attribute).users is None
    assert statistic.reports == 10
    assert statistic.histograms[2].sum() == 10
    assert {mask: moments.users for mask, moments in statistic.moments.items()} == {1 << 2: 10}
    assert statistic.moments[1 << 2].sums[2] == sum(Laplace(0.7).fixed_point(payloads).tolist())
    assert merge([statistic, statistic]).users is None


def alone(attribute: Attribute) -> Attribute:
    """The attribute where users are not grouped."""
    return dataclasses.replace(attribute, joint_services=(), group_users=False)


@pytest.mark.parametrize("attribute", [INCOME, COLOUR, alone(INCOME)], ids=["income", "colour", "alone"])
@reproducibly
@given(splits, st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=4))
def test_differences_add_up_to_what_came_last(
    attribute: Attribute, split: list[int], seeds: list[int]
) -> None:
    """Each is of other users and reports than the one before, as after late reports."""
    rng = np.random.default_rng(0)
    steps = [empty(attribute)]
    for place, seed in enumerate(seeds):
        members = [user for user in range(USERS) if split[user] >= place]
        steps.append(part_of(attribute, ask(attribute, USERS, seed), members, rng))
    gains = [difference(after, before) for before, after in itertools.pairwise(steps)]
    for before, after, gain in zip(steps, steps[1:], gains, strict=False):
        assert merge([before, gain]) == merge([gain, before]) == after
        assert difference(before, after) == difference(empty(attribute), gain)
    assert merge([steps[0], *gains]) == merge([*gains[::-1], steps[0]]) == steps[-1]


@pytest.mark.parametrize("attribute", [INCOME, COLOUR, alone(INCOME)], ids=["income", "colour", "alone"])
def test_what_was_taken_away_leaves_no_trace(attribute: Attribute) -> None:
    whole = tally(attribute, USERS, ask(attribute, USERS, 9))
    lost = difference(empty(attribute), whole)
    assert lost.reports == -whole.reports < 0
    for found in (difference(whole, whole), merge([whole, lost]), merge([whole, whole, lost, lost])):
        assert found == empty(attribute)
        assert (dict(found.moments), len(found.joint_cells), len(found.joint_counts)) == ({}, 0, 0)


def test_sums_that_changed_are_kept_though_no_user_came_or_went() -> None:
    def sent(*payloads: float) -> Statistic:
        return tally(INCOME, len(payloads), [Answers(4, np.arange(len(payloads)), np.array(payloads))])

    # Another sum with the same squares, and other squares with the same sum.
    for before, after in [(sent(0.5), sent(-0.5)), (sent(0.5, -0.5), sent(0.75, -0.75))]:
        changed = difference(after, before).moments[1 << 4]
        assert (changed.users, changed.sums[4] == 0, changed.squares[4] == 0) in [
            (0, False, True),
            (0, True, False),
        ]
        assert merge([before, difference(after, before)]) == after


CHANGES = {
    "epsilon": {"versions": (ServiceVersion("sw", "old", SquareWave(1 + 1e-12)), *INCOME.versions[1:])},
    "order": {"versions": INCOME.versions[::-1]},
    "domain": {"domain": Numeric(0.0, 101.0)},
    "buckets": {"buckets": 16},
    "name": {"name": "wage"},
    "joint_services": {"joint_services": ("sw", "pm")},
    "joint_buckets": {"joint_buckets": 5},
}


@pytest.mark.parametrize("change", CHANGES)
def test_statistics_of_different_channels_refuse_to_merge(change: str) -> None:
    other, same = dataclasses.replace(INCOME, **CHANGES[change]), dataclasses.replace(INCOME)
    assert same.fingerprint == INCOME.fingerprint
    assert other.fingerprint != INCOME.fingerprint
    with pytest.raises(ValueError, match="must not be added") as caught:
        merge([empty(INCOME), empty(same), empty(other)])
    assert INCOME.fingerprint in str(caught.value)
    assert other.fingerprint in str(caught.value)


def test_attributes_of_more_channels_than_an_integer_has_bits_are_refused() -> None:
    versions = tuple(ServiceVersion(f"s{i}", "", StochasticRounding(1.0)) for i in range(63))
    with pytest.raises(ValueError, match="at most 62"):
        Attribute("many", Numeric(0.0, 1.0), 8, versions)


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (
            Answers(0, np.arange(2), np.array([0.5, 9.0])),
            "report 1 of sw@old is 9.0, which square_wave never sends",
        ),
        (Answers(0, np.arange(2), np.array([np.nan, 0.5])), "report 0 of sw@old is nan"),
        (Answers(0, np.arange(2), np.zeros(2, "V8")), "of type |V8"),
        (Answers(0, np.zeros(2, dtype=np.int64), np.zeros(2)), "must be of different users of 0 to 1, one"),
        (Answers(0, np.arange(1), np.zeros(2)), "must be of different users"),
        (Answers(0, np.array([1, 2]), np.zeros(2)), "must be of different users"),
    ],
)
def test_reports_that_cannot_be_are_refused(answer: Answers, sentence: str) -> None:
    with pytest.raises(ValueError, match=re.escape(sentence)):
        tally(INCOME, 2, [answer])


def test_a_category_that_cannot_be_sent_is_refused() -> None:
    with pytest.raises(ValueError, match="report 2 of a is 3, which grr never sends: a report is "):
        tally(COLOUR, 3, [Answers(0, np.arange(3), np.array([0, 2, 3]))])
