"""Statistics, keys and batches come back from their coders as they were, whatever groups are called."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam import typehints
from hypothesis import given, settings
from hypothesis import strategies as st
from support.inputs import answered

from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.statistics import Statistic, difference, empty, merge
from ldpbeam.transforms.reports.dead_letters import DEAD, DeadLetter, Disclosure, disclosed, in_columns
from ldpbeam.transforms.reports.emitted import BatchCoder
from ldpbeam.transforms.reports.validation import wanted_columns
from ldpbeam.transforms.sources.read import file_input
from ldpbeam.transforms.sources.read_input import ReadInput
from ldpbeam.transforms.statistics import ValidateReports
from ldpbeam.transforms.windows import coders
from ldpbeam.transforms.windows import piece_keys as keys
from ldpbeam.transforms.windows.coders import CombineGroups, KeyCoder, StatisticsCoder
from ldpbeam.transforms.windows.groups import GroupStatistics
from ldpbeam.transforms.windows.piece_keys import GroupKey

STUDY = parse_study(
    """
study: coders
attributes:
  x:
    domain: {numeric: [0, 1]}
    buckets: 8
    services: {maps: {mechanism: piecewise, epsilon: 1.0}, taxi: {mechanism: laplace, epsilon: 0.1}}
    estimates: {all: {estimator: ule}}
"""
)
X = STUDY.attribute("x")


# What one partition gained or lost: sums, differences, and nothing at all.
STATISTIC = st.builds(
    lambda users, others, sign: difference(answered(X, 1, users), answered(X, 2 - sign, others)),
    st.integers(0, 20),
    st.integers(0, 20),
    st.sampled_from([0, 1]),
)
KEYS = st.tuples(st.sampled_from(["x", "v.north"]), st.none() | st.text(max_size=3))


@settings(derandomize=True, deadline=None)
@given(st.dictionaries(KEYS, STATISTIC, max_size=5))
def test_statistics_come_back_with_their_keys(by_key: dict[tuple[str, str | None], Statistic]) -> None:
    given_ = GroupStatistics({GroupKey(*key): own for key, own in by_key.items()})
    coder = beam.coders.registry.get_coder(GroupStatistics)
    assert isinstance(coder, StatisticsCoder)
    back = coder.decode(coder.encode(given_))
    assert back == given_
    assert list(back) == list(given_)
    assert type(back) is GroupStatistics
    assert {type(key) for key in back} <= {GroupKey}


def test_losses_beyond_64_bits_come_back_as_they_were() -> None:
    many = merge([answered(X, 3, 50)] * 2000)
    lost = difference(empty(X), many)
    assert min(own.squares[1] for own in lost.moments.values()) < -(2**64)
    coder = StatisticsCoder()
    (back,) = coder.decode(coder.encode(GroupStatistics({GroupKey("x", None): lost}))).values()
    assert back == lost
    assert merge([back, many]) == empty(X)


def test_groups_of_one_report_take_few_bytes() -> None:
    groups = {GroupKey("x", f"group {place}"): answered(X, place, 1) for place in range(200)}
    assert len(StatisticsCoder().encode(GroupStatistics(groups))) < 200 * 200


def test_the_size_of_statistics_is_known_without_encoding_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coders, "encode_statistic", None)
    statistics = GroupStatistics({GroupKey("x", group): answered(X, 3, 50) for group in ("a", "b")})
    counts = [part for own in statistics.values() for part in (own.joint_cells, own.joint_counts)]
    counts += [histogram for own in statistics.values() for histogram in own.histograms]
    size = 8 * sum(map(len, counts))
    assert size > 0
    assert beam.coders.registry.get_coder(GroupStatistics).get_impl().estimate_size(statistics) == size
    coder = CombineGroups().get_accumulator_coder()
    assert coder.get_impl().estimate_size([statistics, statistics]) == 2 * size


BOUNDS = st.none() | st.tuples(st.integers(-(2**53), 2**53), st.integers(-(2**53), 2**53))
NAMES = st.text(max_size=4) | st.sampled_from(["x/0", "x/0/10", "x.up"])
SOME_KEYS = (
    st.builds(keys.PieceKey, NAMES, st.integers(0, 65_535), BOUNDS)
    | st.builds(keys.GroupKey, NAMES, st.none() | NAMES)
    | st.builds(keys.WindowKey, NAMES, BOUNDS)
    | st.builds(keys.WindowGroupKey, NAMES, BOUNDS, st.none() | NAMES)
)


@settings(deadline=None)
@given(SOME_KEYS, SOME_KEYS)
def test_a_key_comes_back_as_it_was_and_no_other_has_its_bytes(
    key: keys.PieceKey, other: keys.PieceKey
) -> None:
    coder = beam.coders.registry.get_coder(type(key))
    assert isinstance(coder, KeyCoder)
    assert coder.is_deterministic()
    back = coder.decode(coder.encode(key))
    assert (back, type(back)) == (key, type(key))
    if type(other) is type(key):
        assert (coder.encode(other) == coder.encode(key)) == (other == key)


@pytest.mark.parametrize("kind", [keys.PieceKey, keys.GroupKey, keys.WindowKey, keys.WindowGroupKey])
def test_a_pair_with_a_key_is_encoded_with_the_keys_coder(kind: Any) -> None:
    pair = beam.coders.registry.get_coder(typehints.Tuple[kind, GroupStatistics])
    assert pair.key_coder() == KeyCoder(kind)
    assert isinstance(pair.value_coder(), StatisticsCoder)


OTHER_COLUMNS = (
    {"user": pa.array(["a" * 16, "b" * 16]), "event_time": pa.array(["10:00", None])},
    {"user": pa.array([b"a" * 16, None], pa.binary()), "event_time": pa.array([1, None], pa.int64())},
    {"user": pa.array([b"a" * 16, b"b" * 16], pa.binary(16)), "event_time": pa.array([1.5, 2.5])},
    {"user": pa.array([b"a" * 16, b"b" * 16], pa.binary()), "event_time": pa.array([5, 7], pa.int64())},
    {"event_time": pa.array([], pa.int64())},
)


@pytest.mark.parametrize("columns", OTHER_COLUMNS, ids=lambda columns: str(next(iter(columns.values())).type))
def test_batches_of_any_columns_come_back_as_they_were(columns: dict[str, pa.Array]) -> None:
    """The coder is registered for all RecordBatches of a process, not only for ours."""
    batch = pa.RecordBatch.from_pydict(columns).replace_schema_metadata({"of": "somebody else"})
    back = BatchCoder().decode(BatchCoder().encode(batch))
    assert back.equals(batch, check_metadata=True)


LETTERS = disclosed(
    next(
        in_columns(
            DeadLetter(
                "/a/long/path/of/a/file", n, None, "unknown_service", "there are: pm, sr", 1, n.to_bytes(4)
            )
            for n in range(1000)
        )
    ),
    Disclosure(),
)


@pytest.mark.parametrize(
    "batch",
    [
        LETTERS,
        LETTERS.slice(10, 7),
        LETTERS.slice(5, 0),
        LETTERS.set_column(6, "sha256", pa.array(["0A" * 32] * 1000)),
        LETTERS.set_column(6, "sha256", pa.array(["0a", None] * 500)),
    ],
    ids=["all", "a part", "none", "other digits", "no hashes"],
)
def test_dead_letters_come_back_as_they_were(batch: pa.RecordBatch) -> None:
    assert BatchCoder().decode(BatchCoder().encode(batch)).equals(batch, check_metadata=True)


def test_an_encoded_dead_letter_has_few_bytes() -> None:
    """A hash, four numbers, and the places of its texts: a client that sends a million fills little."""
    assert len(BatchCoder().encode(LETTERS)) < 80 * LETTERS.num_rows


def test_dead_letters_have_the_coder_of_batches() -> None:
    pipeline = beam.Pipeline()
    read = pipeline | ReadInput(file_input(), wanted_columns(STUDY, None, None), Disclosure())
    validated = read.decoded | ValidateReports(STUDY)
    for letters in (read[DEAD], validated[DEAD], (read[DEAD], validated[DEAD]) | beam.Flatten()):
        assert isinstance(beam.coders.registry.get_coder(letters.element_type), BatchCoder)
