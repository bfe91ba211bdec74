"""Reports without users: which are duplicates, who can remove one, and attributes with and without users."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest
from support.keyed_state import StreamByHand
from support.pane_runs import Streamed, in_batch
from support.pane_scripts import Step

from ldpbeam.attributes import Attribute
from ldpbeam.schemas.messages.decode import JSON, Message, decode_messages
from ldpbeam.schemas.reports.columns import DELIVERY
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.study import Study
from ldpbeam.transforms.reports.batches import tagged
from ldpbeam.transforms.reports.validation import Validation, wanted_columns
from ldpbeam.windows import Span

NUMBERS = "{domain: {numeric: [0, 1]}, services: {a: {mechanism: piecewise, epsilon: 1.0}}}"
TEXT = f"""\
study: some
attributes:
  alone: {NUMBERS.replace("{domain", "{users: none, domain")}
  joined: {NUMBERS}
windows: {{size: 10s, allowed_lateness: 20s, max_age: 300000d}}
intervals: false
"""
NOBODY = TEXT.replace("intervals", "users: none\nintervals")
SOME = parse_study(TEXT)


def batch_of(attribute: str, reports: list[dict[str, Any]]) -> pa.RecordBatch:
    """A batch of a channel, as it leaves validation; without a user if no report has one."""
    kinds = {"user": pa.binary(), "event_time": pa.int64(), "payload": pa.float64()}
    kinds |= {"report_id": pa.binary(), DELIVERY: pa.binary()}
    given = {"event_time": 0, "payload": 0.5}
    rows = [given | report for report in reports]
    columns = {
        name: pa.array([row.get(name) for row in rows], kind)
        for name, kind in kinds.items()
        if any(row.get(name) is not None for row in rows)
    }
    return tagged(pa.RecordBatch.from_pydict(columns), attribute, 0)


def streamed(study: Study, *batches: pa.RecordBatch, shards: int = 2, seed: int = 0) -> Streamed:
    """What a stream makes of batches that come in time, one after the other."""
    steps = [Step(-1, [batch]) for batch in batches]
    return StreamByHand(study, shards, random.Random(seed)).run(steps)


def used(found: Streamed) -> tuple[int, int]:
    return found.counts["used"], found.counts["duplicates"]


@pytest.mark.parametrize("shards", [1, 3])
def test_a_message_that_is_delivered_twice_counts_once(shards: int) -> None:
    study = parse_study(NOBODY)
    deliveries = [b"topic/0/7", b"topic/0/8", b"topic/0/7"]
    batches = [batch_of("alone", [{DELIVERY: delivery}]) for delivery in deliveries]
    assert used(streamed(study, *batches, shards=shards)) == (2, 1)
    # A client cannot write a delivery: an id that looks like one is another thing.
    named = batch_of("alone", [{"report_id": b"topic/0/7"}])
    assert used(streamed(study, *batches, named, shards=shards)) == (3, 1)
    # In files, reports without an id are compared with none.
    assert used(in_batch(study, [batch_of("alone", [{}, {}, {}])])) == (3, 0)
    kept = parse_study(f"{NOBODY}duplicates: keep\n")
    assert used(streamed(kept, *batches, named, shards=shards)) == (4, 0)


@pytest.mark.parametrize("text", [NOBODY, TEXT], ids=["no users", "some users"])
def test_who_knows_a_report_id_can_remove_the_report_by_an_earlier_one(text: str) -> None:
    study = parse_study(text)
    honest = batch_of("alone", [{"report_id": b"known", "event_time": 5000, "payload": 0.25}])
    later = batch_of("alone", [{"report_id": b"known", "event_time": 6000, "payload": 0.75}])
    earlier = batch_of("alone", [{"report_id": b"known", "event_time": 4000, "payload": 0.75}])
    for made in (streamed, lambda study, *batches: in_batch(study, list(batches))):
        alone = made(study, honest)
        assert made(study, honest, later).last == made(study, later, honest).last == alone.last
        assert made(study, honest, earlier).last == made(study, earlier).last != alone.last
    # Where there are users, only who knows the user's id can.
    of_users = [
        batch_of("joined", [{"user": user, "report_id": b"known", "event_time": time}])
        for user, time in ((b"ann", 5000), (b"bob", 4000))
    ]
    if text == TEXT:
        assert used(streamed(study, *of_users)) == (2, 0)


def test_validation_gives_no_user_to_attributes_without() -> None:
    text = b'{"user_id": "ann", "attribute": "%s", "service": "a", "event_time": 1, "payload": 0.5}'
    names = ["alone", "joined", "alone", "other"]
    messages = [Message(str(n), text % name.encode(), JSON) for n, name in enumerate(names)]
    for study, with_users in ((SOME, {"joined"}), (parse_study(NOBODY), set())):
        validation = Validation(study, Span(start=0))
        for decoded in decode_messages(messages, wanted_columns(study, None, None)):
            assert isinstance(decoded, pa.RecordBatch)
            validated = validation.validate(decoded)
            having = {
                b.schema.metadata[b"attribute"].decode()
                for b in validated.reports
                if "user" in b.schema.names
            }
            assert having == with_users
            assert sum(batch.num_rows for batch in validated.reports) == 3
            # What names no attribute of the study is refused for that, and its record shows no id.
            (letters,) = list(validated.letters)
            (letter,) = letters.to_pylist()
            assert letter["reason"] == "unknown_attribute"
            assert b"ann" not in letter["record"] and b"616e6e" not in letter["record"]


def test_an_attribute_without_users_has_the_channel_of_reports_that_are_counted_alone() -> None:
    (alone,) = (SOME.attribute("alone"),)
    kept = parse_study(f"{TEXT.replace('users: none, ', '')}duplicates: keep\n").attribute("alone")
    assert isinstance(alone, Attribute)
    # Their statistics are of the same kind, so that they can be added up.
    assert alone.fingerprint == kept.fingerprint != SOME.attribute("joined").fingerprint
