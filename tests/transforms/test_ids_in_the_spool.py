"""Reports with other ids in place of their own are kept, joined and counted like the reports themselves."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from support.encoded import arrow_stream
from support.kept_one_by_one import Sent, at_most, batches_of, cut, draw, first_of_users, without_copies
from support.pane_reports import NOT_TO_JOIN, people_report, study_of, study_text

from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.study import Study
from ldpbeam.transforms.joining import kept as kept_module
from ldpbeam.transforms.joining.hidden_ids import hidden, keyed_hashes
from ldpbeam.transforms.joining.kept import Alike, can_be_kept, concatenated
from ldpbeam.transforms.joining.report_ids import compared, first_of_ids
from ldpbeam.transforms.reports.batches import DRAW
from ldpbeam.transforms.windows.fold import Fold, JoinedFold
from ldpbeam.transforms.windows.groups import GroupStatistics
from ldpbeam.transforms.windows.piece_keys import PieceKey

#: So few reports of a user are looked at that come first together, in tests and in what they expect.
MOST_TIED = 3
#: Two versions of one service, and another service.
SERVICES = (
    "{maps: {mechanism: square_wave, version_field: app,"
    " versions: {old: {epsilon: 1.0}, new: {epsilon: 1.0}}}, taxi: {mechanism: piecewise, epsilon: 2.0}}"
)
GROUPS = "groups: {field: region}\n"
STUDIES = {
    "joined": study_text(SERVICES, more=GROUPS),
    "joined, sliding": study_text(SERVICES, windows="size: 10s, period: 4s", more=GROUPS),
    "no users": study_text(SERVICES, NOT_TO_JOIN, more=f"users: none\n{GROUPS}"),
    "all": study_text(SERVICES, NOT_TO_JOIN, more=f"repeats: all\nmost_reports: 2\n{GROUPS}"),
    "all, sliding": study_text(
        SERVICES,
        NOT_TO_JOIN,
        windows="size: 10s, period: 4s",
        more=f"repeats: all\nmost_reports: 2\n{GROUPS}",
    ),
}
JOINED_WINDOWS = study_text(
    "{maps: {mechanism: square_wave, epsilon: 1.0}}",
    "{all: {}, mean: {estimator: ivw}}",
    windows="size: 10s, joined: 30s",
    more=GROUPS,
)
KEEP = parse_study(study_text(SERVICES, NOT_TO_JOIN, more=f"duplicates: keep\n{GROUPS}"))
X = KEEP.attribute("x")
WINDOW = (0, 10_000)


def with_one_draw(name: str, some: int) -> list[bytes]:
    """So many ids, all but the last of one draw."""
    of_draw: dict[int, list[bytes]] = {}
    for number in range(100_000):
        ids = of_draw.setdefault(draw(b"%s%d" % (name.encode(), number)), [])
        ids.append(b"%s%d" % (name.encode(), number))
        if len(ids) == some - 1:
            return [*ids, b"another " + name.encode()]
    raise AssertionError


REPORTS = st.lists(
    st.builds(
        Sent,
        user=st.sampled_from(with_one_draw("u", 3)),
        time=st.sampled_from([0, 0, 1_000, 4_000, 9_999]),
        version=st.integers(0, 2),
        payload=st.sampled_from([0.1, 0.5, 0.9]),
        report_id=st.none() | st.sampled_from(with_one_draw("r", 5)),
        delivery=st.none() | st.sampled_from([b"topic/0/1", b"topic/0/2"]),
        group=st.sampled_from([None, None, "north"]),
    ).map(lambda own: own._replace(delivery=None) if own.report_id else own),
    min_size=1,
    max_size=30,
)
KEYS = st.binary(min_size=16, max_size=16)
ORDERS = st.randoms(use_true_random=False)


@pytest.fixture(autouse=True, scope="module")
def _few_are_looked_at() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kept_module, "MOST_TIED", MOST_TIED)
        patch.setattr(kept_module, "_FEW", 0)
        yield


def service(version: int) -> str:
    """The service of a channel."""
    return X.versions[version].service


def in_hiding(batches: Sequence[pa.RecordBatch], key: bytes) -> list[pa.RecordBatch]:
    """The batches with hidden ids."""
    return [hidden(batch, key) for batch in batches]


def pruned(batches: Sequence[pa.RecordBatch], alike: Alike, order: random.Random) -> list[pa.RecordBatch]:
    """The batches, one after the other, without some reports that cannot be kept."""
    state: list[pa.RecordBatch] = []
    for batch in batches:
        state.append(batch)
        if order.random() < 0.4:
            state = [can_be_kept(one, alike) for one in concatenated(order.sample(state, len(state)))]
    return state


def compared_ones(study: Study, reports: Sequence[Sent]) -> list[Sent]:
    """The reports that are compared with others; there is at least one."""
    if not study.attribute("x").has_users:
        reports = [own._replace(user=None) for own in reports if own.report_id or own.delivery]
    assume(reports)
    return list(reports)


def at_most_of(study: Study, reports: Sequence[Sent]) -> list[Sent]:
    """The reports that are not beyond the most, one by one."""
    assert study.windows is not None
    return at_most(reports, service, study.windows.steps.length, study.most_reports)


def kept_of(study: Study, reports: Sequence[Sent]) -> list[Sent]:
    """The reports that a window keeps, one by one."""
    few = at_most_of(study, reports) if study.repeats == "all" else reports
    first = without_copies(few, service, MOST_TIED)
    return first_of_users(first, service, MOST_TIED) if study.group_users else first


def of_each(study: Study, reports: Sequence[Sent]) -> GroupStatistics:
    """The statistics of reports of which each is kept."""
    folded = Fold(study).fold_window(study.attribute("x"), batches_of(reports), None)
    assert folded.in_window == len(reports)
    return folded.statistics


def first_of_all(study: Study, batches: Sequence[pa.RecordBatch]) -> tuple[GroupStatistics, int, int]:
    """(statistics without duplicates by id, how many of these there are, how many are beyond the most)."""
    kept, counts = [], Counter[str]()
    for first, dropped in first_of_ids(study, study.attribute("x"), batches):
        kept += first
        for what, reports in dropped:
            counts[what] += reports
    statistics = Fold(KEEP).fold_window(KEEP.attribute("x"), kept, None).statistics
    return statistics, counts["duplicates"], counts["beyond_most_reports"]


@pytest.mark.parametrize("name", STUDIES)
@settings(max_examples=25, derandomize=True, deadline=None)
@given(REPORTS, ORDERS, KEYS)
def test_a_fold_of_hidden_reports_in_any_order_is_of_those_that_are_kept_one_by_one(
    name: str, reports: list[Sent], order: random.Random, key: bytes
) -> None:
    study = parse_study(STUDIES[name])
    reports = compared_ones(study, reports)
    fold, attribute = Fold(study, report_ids=True), study.attribute("x")
    plain = fold.fold_window(attribute, cut(reports, order), WINDOW)
    assert fold.fold_window(attribute, in_hiding(cut(reports, order), key), WINDOW) == plain
    kept = kept_of(study, reports)
    assert (plain.statistics, plain.in_window) == (of_each(study, kept), len(kept))
    few = pruned(in_hiding(cut(reports, order), key), fold.alike("x"), order)
    assert fold.fold_window(attribute, few, WINDOW).statistics == plain.statistics


@pytest.mark.parametrize("name", STUDIES)
@settings(max_examples=20, derandomize=True, deadline=None)
@given(REPORTS, ORDERS, KEYS)
def test_ids_that_are_compared_over_all_windows_may_be_hidden(
    name: str, reports: list[Sent], order: random.Random, key: bytes
) -> None:
    study = parse_study(STUDIES[name])
    if study.repeats == "first":
        reports = [own for own in reports if own.report_id or own.delivery]
    reports = compared_ones(study, reports)
    plain = first_of_all(study, cut(reports, order))
    assert first_of_all(study, in_hiding(cut(reports, order), key)) == plain
    few = at_most_of(study, reports) if study.repeats == "all" else reports
    kept = without_copies(few, service, MOST_TIED)
    assert plain == (of_each(KEEP, kept), len(reports) - len(kept), len(reports) - len(few))
    pieces = pruned(in_hiding(cut(reports, order), key), compared(study), order)
    assert first_of_all(study, pieces)[0] == plain[0]


@settings(max_examples=60, derandomize=True, deadline=None)
@given(REPORTS, ORDERS, KEYS)
def test_longer_windows_have_what_the_windows_inside_keep_whether_ids_were_compared_or_not(
    reports: list[Sent], order: random.Random, key: bytes
) -> None:
    study = parse_study(JOINED_WINDOWS)
    reports = [own._replace(version=0, time=own.time * 3) for own in reports]
    fold, attribute = JoinedFold(study), study.attribute("x")
    inside = [[own for own in reports if own.time // 10_000 == window] for window in range(3)]
    kept = [
        one
        for own in inside
        for one in first_of_users(without_copies(own, service, MOST_TIED), service, MOST_TIED)
    ]
    plain = fold.fold_window(attribute, cut(reports, order), (0, 30_000))
    assert fold.fold_window(attribute, in_hiding(cut(reports, order), key), (0, 30_000)) == plain
    assert fold.fold_window(attribute, batches_of(kept), (0, 30_000)) == plain
    assert plain.in_window == len(kept)


@pytest.mark.parametrize(
    "name", ["a vector", "categories", "keys with values", "groups, two at most", "eleven services joined"]
)
def test_reports_of_any_payload_may_be_hidden(name: str) -> None:
    study = study_of(name)
    fold, attribute = Fold(study, report_ids=True), study.attribute(next(iter(study.attributes)))
    # Half of the reports come again at the time of another one, so that several are tied.
    sent = people_report(study)
    at_once = [
        batch.set_column(
            batch.schema.get_field_index("event_time"),
            "event_time",
            pa.array(batch.column("event_time").to_numpy() // 5_000 * 5_000),
        )
        for batch in sent
    ]
    batches = [*sent, *at_once]
    key = PieceKey(attribute.name, 0, None)
    plain = list(fold.fold(key, batches))
    assert sum(folded.duplicates for _, folded in plain) > 50
    assert list(fold.fold(key, in_hiding(batches[::-1], bytes(16)))) == plain


IDS = [b"", b"a", b"a\x00", b"12345678", bytes(15), bytes(16), bytes(17), b"a longer one " * 9, b"a"]


def test_a_keyed_hash_is_the_last_block_of_the_library_s_own_chain() -> None:
    for key in (bytes(range(16)), bytes(range(32))):
        expected = []
        for one in IDS:
            text = len(one).to_bytes(16, "big") + one + bytes(-len(one) % 16)
            chain = Cipher(algorithms.AES(key), modes.CBC(bytes(16))).encryptor()
            expected.append(chain.update(text)[-16:])
        hashes = keyed_hashes(pa.array(IDS, pa.binary()), key)
        assert [bytes(row) for row in hashes.view(np.uint8)] == expected
        assert len(set(expected)) == len(set(IDS))


def test_ids_are_gone_and_the_rest_stays() -> None:
    reports = [
        Sent(b"somebody", 5, 0, 0.5, b"id of a report", None, "north"),
        Sent(b"0123456789abcdef", 6, 0, 0.25, None, b"topic/0/1"),
        Sent(b"somebody", 7, 0, 0.5, b"id of a report"),
    ]
    (batch,) = batches_of(reports)
    changed = hidden(batch, bytes(16))
    assert changed.schema.metadata == batch.schema.metadata
    users, ids = changed.column("user"), changed.column("report_id")
    assert users.type == ids.type == pa.binary(16)
    assert users[0] == users[2] != users[1] and ids[0] == ids[2]
    assert ids.is_null().to_pylist() == [False, True, False]
    others = hidden(batch, bytes(15) + b"1")
    assert not {*users.to_pylist()} & {*others.column("user").to_pylist()}
    draws = [draw(own.user) | draw(own.report_id) << 8 for own in reports]
    assert changed.column(DRAW).to_pylist() == others.column(DRAW).to_pylist() == draws
    rest = [name for name in batch.schema.names if name not in ("user", "report_id")]
    assert changed.select(rest) == batch.select(rest)
    for one in (b"somebody", b"0123456789abcdef", b"id of a report"):
        assert one not in arrow_stream(changed)
    (nobody,) = batches_of([Sent(None, 5, delivery=b"topic/0/1")])
    assert hidden(nobody, bytes(16)).drop_columns([DRAW]) == nobody
    assert hidden(batch.slice(0, 0), bytes(16)).num_rows == 0
