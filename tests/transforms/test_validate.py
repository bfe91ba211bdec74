"""What can be a report and what cannot, and why: every reason, which comes first, and what is kept."""

from __future__ import annotations

import hashlib
import hmac
import itertools
import json
import math
from dataclasses import replace
from decimal import Decimal
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest

from ldpbeam.schemas.reports.columns import decoded
from ldpbeam.schemas.reports.records import by_payload, columns_of
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.study import Study
from ldpbeam.transforms.joining.join import join
from ldpbeam.transforms.reports import dead_letters
from ldpbeam.transforms.reports.batches import version_index
from ldpbeam.transforms.reports.counts import COUNTS
from ldpbeam.transforms.reports.dead_letters import DEAD, OF_PAYLOADS, REASONS, Disclosure
from ldpbeam.transforms.reports.validation import wanted_columns
from ldpbeam.transforms.statistics import ValidateReports
from ldpbeam.windows import Span

STUDY = parse_study(
    """
study: validate
attributes:
  x:
    domain: {numeric: [0, 1]}
    buckets: 8
    services:
      sw: {mechanism: square_wave, epsilon: 1.0}
      pm: {mechanism: piecewise, epsilon: 1.0}
      sr: {mechanism: stochastic_rounding, epsilon: 1.0}
      noise: {mechanism: laplace, epsilon: 1.0}
      app: {mechanism: piecewise, version_field: build, versions: {old: {epsilon: 1.0}, new: {epsilon: 2.0}}}
      asked: {mechanism: piecewise, epsilon: {field: eps, values: [1.0, 2]}}
      dated:
        mechanism: piecewise
        versions:
          first: {epsilon: 1.0, until: "2026-01-01T00:00:00Z"}
          second: {epsilon: 2.0, since: "2026-06-01T00:00:00Z"}
    estimates: {mean: {estimator: ivw}}
  colour:
    domain: {categories: [red, green, blue]}
    services:
      shop: {mechanism: grr, epsilon: 1.0}
      hashed: {mechanism: olh, epsilon: 1.0}
      bits: {mechanism: oue, epsilon: 1.0}
    estimates: {all: {estimator: mle, services: [shop]}}
windows: {size: 1h}
groups: {field: city}
"""
)
TIMELESS = parse_study(
    "study: s\nattributes: {x: {domain: {numeric: [0, 1]}, services: {pm: {mechanism: piecewise, "
    "epsilon: 1.0}}, estimates: {mean: {estimator: ivw}}}}"
)
X = STUDY.attribute("x")
NOW = 1_795_168_800_000  # 2026-11-20T10:00:00Z
GOOD = {"user_id": "u1", "attribute": "x", "service": "pm", "event_time": NOW, "payload": 0.5}
HASHED = {"attribute": "colour", "service": "hashed"}
BITS = {"attribute": "colour", "service": "bits"}


class Validated(NamedTuple):
    reports: list[pa.RecordBatch]
    dead: list[dict[str, Any]]
    counts: dict[str, int]


def validated(
    records: list[dict[str, Any]] | pa.RecordBatch,
    study: Study = STUDY,
    metadata: dict[str, str] | None = None,
    attribute: str | None = None,
    service: str | None = None,
    **options: Any,
) -> Validated:
    """What validation makes of decoded records, one batch of them."""
    batches = [records]
    if isinstance(records, list):
        wanted, batches = wanted_columns(study, attribute, service), []
        for chosen in by_payload(records):
            columns = columns_of([records[index] for index in chosen], wanted.fields)
            position = pa.array([100] * len(chosen), pa.int64())
            batches.append(decoded(columns, wanted, metadata or {}, position, pa.array(chosen)))
    found = Validated([], [], {})
    function = ValidateReports(study, **options).function
    tagged = [b.replace_schema_metadata({**(b.schema.metadata or {}), b"file": b"f.jsonl"}) for b in batches]
    for item in itertools.chain.from_iterable(map(function.process, tagged)):
        if not isinstance(item, beam.pvalue.TaggedOutput):
            found.reports.append(item)
        elif item.tag == COUNTS:
            name, reports = item.value
            found.counts[name] = found.counts.get(name, 0) + reports
        else:
            assert item.tag == DEAD
            found.dead.extend(item.value.to_pylist())
    return found


BAD: list[tuple[str, dict[str, Any]]] = [
    ("no_user_id", {"user_id": None}),
    ("user_id_too_long", {"user_id": "u" * 257}),
    ("report_id_too_long", {"report_id": "r" * 257}),
    ("group_too_long", {"city": "c" * 257}),
    ("group_too_long", {"city": "é" * 129}),
    ("group_unreadable", {"city": ["Rome"]}),
    ("group_unreadable", {"city": "a\ud800"}),
    ("no_attribute", {"attribute": None}),
    ("unknown_attribute", {"attribute": "y"}),
    ("no_service", {"service": None}),
    ("unknown_service", {"service": "bus"}),
    ("unknown_service", {"service": "shop"}),  # a service of the other attribute
    ("no_event_time", {"event_time": None}),
    ("event_time_before_1990", {"event_time": "1989-12-31T23:59:59.999Z"}),
    ("event_time_out_of_bounds", {"event_time": "2199-12-31T23:59:59-01:00"}),
    ("event_time_looks_like_seconds", {"event_time": NOW // 1000}),
    ("event_time_looks_like_microseconds", {"event_time": NOW * 1000}),
    ("event_time_looks_like_nanoseconds", {"event_time": NOW * 1_000_000}),
    ("event_time_too_coarse", {"event_time": np.float32(NOW)}),
    ("unknown_version", {"service": "app", "build": "newest"}),
    ("unknown_version", {"service": "app"}),
    ("unknown_version", {"service": "dated", "event_time": "2026-03-01T00:00:00Z"}),
    ("unknown_channel", {"service": "asked"}),
    *(("unknown_channel", {"service": "asked", "eps": eps}) for eps in (3, 1.5, "one", "0x1", "", True)),
    *(("unknown_channel", {"service": "asked", "eps": eps}) for eps in (math.nan, math.inf, "1" * 400, [1])),
    ("no_payload", {"payload": None}),
    ("payload_not_a_number", {"payload": "0.5"}),
    ("payload_not_a_number", {"payload": True}),
    ("payload_not_a_number", {"payload": float("nan")}),
    ("payload_outside_mechanism", {"payload": float("inf")}),
    ("payload_outside_mechanism", {"payload": 4.0831}),  # C is 4.08299 at epsilon 1
    ("payload_outside_mechanism", {"service": "sw", "payload": -0.2562}),  # b is 0.256083
    ("payload_outside_mechanism", {"service": "sr", "payload": 0.0}),
    ("payload_outside_mechanism", {"service": "noise", "payload": 89.01}),  # 1 + 44 scales of 2
    ("payload_outside_mechanism", {"attribute": "colour", "service": "shop", "payload": 3}),
    ("payload_outside_mechanism", {"attribute": "colour", "service": "shop", "payload": 0.5}),
    ("payload_not_bytes", {**HASHED, "payload": 5.0}),
    ("payload_not_bytes", {**BITS, "payload": True}),
    ("payload_wrong_length", {**HASHED, "payload": "0000000001000000ff"}),
    ("payload_wrong_length", {**HASHED, "payload": "0000000001zz0000"}),
    ("payload_wrong_length", {**BITS, "payload": ""}),
    ("payload_outside_mechanism", {**HASHED, "payload": "0000000004000000"}),  # g is 4 at epsilon 1
    ("payload_outside_mechanism", {**HASHED, "payload": "0004000001000000"}),  # the family has 1024 seeds
    ("payload_outside_mechanism", {**BITS, "payload": "08"}),  # there are three categories
]


def test_every_reason_is_tried_here() -> None:
    # Tests of their own: a stamp is in the metadata of a batch, and few studies have panels.
    assert {reason for reason, _ in BAD} | {"other_stamp", "out_of_turn"} == set(REASONS[1:])


@pytest.mark.parametrize("among", [0, 3], ids=["alone", "among good ones"])
@pytest.mark.parametrize(("reason", "changes"), BAD)
def test_a_bad_record_has_its_reason(reason: str, changes: dict[str, Any], among: int) -> None:
    good = [GOOD] * among
    found = validated([*good, {**GOOD, **changes}, *good])
    assert [letter["reason"] for letter in found.dead] == [reason]
    assert [(d["file"], d["position"], d["row"], d["reports"]) for d in found.dead] == [
        ("f.jsonl", 100, among, 1)
    ]
    counts = {name: n for name, n in found.counts.items() if not name.startswith("payloads_")}
    assert counts == {f"dead_letters_by_reason/{reason}": 1, "dead_letters": 1}
    assert any(name.startswith("payloads_refused/") for name in found.counts) == (reason in OF_PAYLOADS)
    assert sum(batch.num_rows for batch in found.reports) == 2 * among


# A service whose versions a field names has no channel that numbers choose.
ALONE = ("other_stamp", "unknown_channel")
IN_RECORDS = [reason for reason in REASONS[: REASONS.index("no_payload") + 1] if reason not in ALONE]


@pytest.mark.parametrize("first", range(1, len(IN_RECORDS)))
def test_of_several_reasons_the_first_in_the_list_is_given(first: int) -> None:
    # Start from a record with everything wrong that can be wrong at once, then mend it reason by reason.
    changes: dict[str, Any] = {}
    for reason in reversed(IN_RECORDS[first:]):
        changes |= next(own for name, own in BAD if name == reason)
    found = validated([{**GOOD, **changes}])
    assert [letter["reason"] for letter in found.dead] == [IN_RECORDS[first]]


@pytest.mark.parametrize("eps", [2, 2.0, np.float32(2), "2", "2.0", "2e0", "0.2E1", Decimal("2.00")])
def test_a_number_of_a_record_chooses_its_channel_whatever_its_type(eps: object) -> None:
    (batch,) = validated([{**GOOD, "service": "asked", "eps": eps, "payload": 0.25}]).reports
    assert X.versions[version_index(batch)].label == "asked@epsilon=2"


def test_reports_that_name_nothing_are_of_the_only_attribute_and_service() -> None:
    columns = wanted_columns(TIMELESS, None, None)
    assert (columns.attribute, columns.service) == ("x", "pm")
    columns = wanted_columns(STUDY, None, None)
    assert (columns.attribute, columns.service) == (None, None)


@pytest.mark.parametrize("sent", ["1.0", "2.0", "3.0"])
def test_a_stamp_must_be_that_of_each_report_s_own_version(sent: str) -> None:
    records: list[dict[str, Any]] = [
        {**GOOD, "service": "app", "build": "old"},
        {**GOOD, "service": "app", "build": "new"},
        {**GOOD, "service": "sw"},
        {**GOOD, "service": "bus"},
        # Whatever its payload is, a report of another epsilon is one.
        {**GOOD, "service": "app", "build": "old", "payload": 99.0},
    ]
    stamp = {"ldpbeam.mechanism": "piecewise", "ldpbeam.epsilon": sent, "ldpbeam.colour": "none"}
    found = validated(records, metadata=stamp, disclosure=Disclosure(True))
    reasons = {letter["row"]: letter["reason"] for letter in found.dead}
    assert reasons == {
        **({} if sent == "1.0" else {0: "other_stamp"}),
        **({} if sent == "2.0" else {1: "other_stamp"}),
        2: "other_stamp",
        3: "unknown_service",
        4: "payload_outside_mechanism" if sent == "1.0" else "other_stamp",
    }
    assert sum(batch.num_rows for batch in found.reports) == (0 if sent == "3.0" else 1)
    # A record is as it came, without the stamp.
    letter = next(letter for letter in found.dead if letter["row"] == 2)
    assert json.loads(letter["record"]).keys() == GOOD.keys()


@pytest.mark.parametrize(
    ("service", "payload", "expected"),
    [
        ("hashed", "ff03000003000000", bytes.fromhex("ff03000003000000")),
        ("hashed", "FF03000003000000", bytes.fromhex("ff03000003000000")),
        ("hashed", bytes.fromhex("ff03000003000000"), bytes.fromhex("ff03000003000000")),
        ("bits", "05", b"\5"),
        ("bits", b"\7", b"\7"),
    ],
)
def test_bytes_are_reports_as_they_are_and_as_hexadecimal_digits(
    service: str, payload: Any, expected: bytes
) -> None:
    (batch,) = validated([{**GOOD, "attribute": "colour", "service": service, "payload": payload}]).reports
    assert batch.column("payload").to_pylist() == [expected]


@pytest.mark.parametrize("changes", [{"payload": 4.08298}, {"payload": -4.08298}, {"user_id": "ü" * 128}])
def test_what_is_just_within_the_limits_is_a_report(changes: dict[str, Any]) -> None:
    assert sum(batch.num_rows for batch in validated([{**GOOD, **changes}]).reports) == 1


def test_event_times_are_needed_only_where_something_asks_for_them() -> None:
    timeless = [{"user_id": "u1", "attribute": "x", "service": "pm", "payload": 0.5}]
    assert validated(timeless, TIMELESS).dead == []
    assert [d["reason"] for d in validated(timeless, TIMELESS, span=Span(start=0)).dead] == ["no_event_time"]


def test_the_first_and_the_last_plausible_moment_are_used() -> None:
    ends = ["1990-01-01T00:00:00Z", "2199-12-31T23:59:59.999Z"]
    assert validated([{**GOOD, "event_time": time} for time in ends]).dead == []


def test_a_span_from_before_1990_lets_old_times_in() -> None:
    old = [{**GOOD, "event_time": time} for time in ("1900-01-01T00:00:00Z", "1985-06-01T00:00:00Z", NOW)]
    found = validated(old, span=Span(start=631_151_999_999))
    assert (found.dead, found.counts["out_of_range"]) == ([], 2)
    found = validated(old, span=Span(start=631_152_000_000))
    assert [letter["reason"] for letter in found.dead] == ["event_time_before_1990"] * 2
    outside = {**GOOD, "event_time": "1900-01-01T00:00:00+01:00"}
    assert len(validated([outside], span=Span(start=0)).dead) == 1


def test_an_event_time_that_has_no_use_is_no_reason() -> None:
    times = [None, 1_763_628_000, 1_763_628_000_000_000, 2**61, -(2**61)]
    found = validated([{**GOOD, "event_time": time} for time in times], TIMELESS)
    assert (found.dead, found.reports[0].num_rows) == ([], len(times))


def test_good_records_outside_the_span_are_counted_and_bad_ones_are_dead() -> None:
    times = [NOW - 1, NOW, NOW + 9, NOW + 10, None]
    records = [{**GOOD, "event_time": time, "user_id": str(time)} for time in times]
    records.append({**GOOD, "event_time": NOW - 1, "payload": 99.0})
    found = validated(records, span=Span(NOW, NOW + 10))
    assert found.reports[0].column("user").to_pylist() == [str(NOW).encode(), str(NOW + 9).encode()]
    assert found.counts["out_of_range"] == 2
    assert [d["reason"] for d in found.dead] == ["no_event_time", "payload_outside_mechanism"]


@pytest.mark.parametrize("duplicates", ["drop", "keep"])
def test_a_report_outside_goes_on_where_one_inside_may_repeat_it(duplicates: str) -> None:
    times = [NOW - 1, NOW, NOW - 1, NOW]
    ids = ["r1", "r1", None, None]
    records = [
        {**GOOD, "event_time": time, "report_id": report_id, "user_id": str(place)}
        for place, (time, report_id) in enumerate(zip(times, ids, strict=True))
    ]
    study = replace(STUDY, duplicates=duplicates)
    found = validated(records, study, span=Span(NOW, NOW + 1))
    compared = duplicates == "drop"
    columns = found.reports[0].to_pydict()
    assert columns["event_time"] == ([NOW - 1, NOW, NOW] if compared else [NOW, NOW])
    # Who sent a report that is compared with no other goes no further.
    assert columns.get("user") == ([b"0", b"1", b"3"] if compared else None)
    assert ("report_id" in columns) == compared
    assert found.counts["out_of_range"] == (1 if compared else 2)


def test_a_dead_letter_has_the_hash_of_its_fields_and_the_fields_only_when_asked() -> None:
    record = {**GOOD, "payload": 99.0}
    text = json.dumps({**record, "user_id": b"u1".hex()}, sort_keys=True).encode()
    for keep in (False, True):
        (letter,) = validated([record], disclosure=Disclosure(records=keep)).dead
        assert letter["sha256"] == hashlib.sha256(text).hexdigest()
        assert letter["record"] == (text if keep else None)
    # The hash finds a record again: what other records of its batch have does not change it.
    beside = validated([record, {**GOOD, "report_id": "r"}]).dead
    assert [d["sha256"] for d in beside] == [hashlib.sha256(text).hexdigest()]


def test_dead_letters_are_made_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    records = [{**GOOD, "payload": 99.0 + n} if n % 3 else GOOD for n in range(20)]
    whole = validated(records)
    monkeypatch.setattr(dead_letters, "LETTERS_AT_ONCE", 4)
    assert validated(records) == whole
    batch = pa.RecordBatch.from_pylist([{**GOOD, "payload": 99.0, "position": 0, "row": n} for n in range(9)])
    parts = list(ValidateReports(STUDY).function.process(batch))
    assert [item.value.num_rows for item in parts if item.tag == DEAD] == [4, 4, 1]


def test_a_key_replaces_user_ids_and_joins_the_same_users() -> None:
    uuid = "0123abcd-4567-89ab-cdef-0123456789ab"
    ids = ["u1", "u2", uuid, uuid.upper(), "u1"]
    services = ["pm", "pm", "pm", "sw", "sw"]
    records = [{**GOOD, "user_id": u, "service": s} for u, s in zip(ids, services, strict=True)]
    plain, keyed = (
        validated(records),
        validated(records, disclosure=Disclosure(user_id_key=b"0123456789abcdef")),
    )
    raw = [b"u1", b"u2", bytes.fromhex(uuid.replace("-", ""))]
    found = [user for batch in keyed.reports for user in batch.column("user").to_pylist()]
    assert set(found) == {hmac.digest(b"0123456789abcdef", user, "sha256")[:16] for user in raw}
    assert not {*found} & {*raw}
    for answer in (plain, keyed):
        (users,), used = join(X, answer.reports)
        assert (users.users, [len(a.payloads) for a in users.answers], used) == (3, [2, 3], 5)
