"""Elements that somebody else made: Arrow batches that are broken or of other types, and framed messages."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.io.gcp.pubsub import PubsubMessage
from apache_beam.utils.timestamp import Timestamp
from google.pubsub_v1.types import PubsubMessage as PubSubMessages
from google.pubsub_v1.types import ReceivedMessage

from ldpbeam.beam.elements import _Decode
from ldpbeam.beam.messages import message_of
from ldpbeam.schemas.messages.binary import Message
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.transforms.reports.dead_letters import DEAD, Disclosure, disclosed
from ldpbeam.transforms.reports.kept_records import KEPT_FOR_EACH_BYTE
from ldpbeam.transforms.reports.validation import Validation, wanted_columns
from ldpbeam.transforms.sources.pubsub import _received

STUDY = parse_study("""\
study: strangers
groups: {field: city}
attributes:
  x: {domain: {numeric: [0, 1]}, services: {a: {mechanism: piecewise, epsilon: 1.0}}}
windows: {size: 1h}
""")
#: The first report is valid, and the other names a service that the study does not have.
COLUMNS = {
    "user_id": pa.array([b"u", b"v"]),
    "payload": pa.array([0.5, 0.5]),
    "event_time": pa.array([1_795_168_800_000] * 2),
    "attribute": pa.array(["x", "x"]),
    "service": pa.array(["a", "b"]),
}


def text_of(data: bytes, *ends: int) -> pa.Array:
    """Text of these bytes, which nobody has checked."""
    offsets = b"".join(end.to_bytes(4, "little") for end in (0, *ends))
    return pa.Array.from_buffers(pa.string(), len(ends), [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def decoded_of(batch: pa.RecordBatch, *, whole: bool = False) -> tuple[list[pa.RecordBatch], list[Any]]:
    """What is decoded of an element: batches, and dead letters of what is not."""
    disclosure = Disclosure(records=whole)
    decode = _Decode(wanted_columns(STUDY, None, None, whole=whole), False, disclosure)
    decode.start_bundle()
    outputs = list(decode.process(batch))
    return (
        [each for each in outputs if isinstance(each, pa.RecordBatch)],
        [row for each in outputs if getattr(each, "tag", "") == DEAD for row in each.value.to_pylist()],
    )


def judged(batch: pa.RecordBatch, *, whole: bool = False) -> tuple[int, list[dict[str, Any]]]:
    """How many reports of an element are valid, and the dead letters of the others."""
    (decoded,), letters = decoded_of(batch, whole=whole)
    validated = Validation(STUDY).validate(decoded)
    shown = [disclosed(each, Disclosure(records=whole)) for each in validated.letters]
    letters += [row for each in shown for row in each.to_pylist()]
    return sum(each.num_rows for each in validated.reports), letters


OF_OTHER_TYPES = {
    "event times as text": {"event_time": pa.array(["a", "b"])},
    "ids in lists": {"user_id": pa.array([[1], [2]])},
    "attributes as numbers": {"attribute": pa.array([1, 2])},
    "groups in lists": {"city": pa.array([["a"], ["b"]])},
    "report ids as numbers": {"report_id": pa.array([1, 2])},
}  # fmt: skip


def test_where_elements_have_the_time_every_report_of_a_batch_has_that_of_its_batch() -> None:
    decode = _Decode(wanted_columns(STUDY, None, None), True, Disclosure())
    decode.start_bundle()
    outputs = decode.process(pa.RecordBatch.from_pydict(COLUMNS), Timestamp(1_795_172_400))
    (found,) = (each for each in outputs if isinstance(each, pa.RecordBatch))
    assert found["event_time"].to_pylist() == [1_795_172_400_000] * 2


def test_a_batch_with_two_columns_of_one_name_is_named() -> None:
    batch = pa.RecordBatch.from_arrays([COLUMNS["user_id"]] * 2, names=["user_id", "user_id"])
    with pytest.raises(ValueError, match="a RecordBatch has several columns 'user_id': leave one"):
        decoded_of(batch)


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("name", OF_OTHER_TYPES)
def test_a_batch_whose_columns_have_other_types_is_judged(name: str, whole: bool) -> None:
    batch = pa.RecordBatch.from_pydict(COLUMNS | OF_OTHER_TYPES[name])
    used, letters = judged(batch, whole=whole)
    assert used + len(letters) == 2


@pytest.mark.parametrize("texts", [text_of(b"\xff\xfe", 1, 2), text_of(b"ab", 2**27, 2)])
def test_a_broken_batch_is_a_dead_letter(texts: pa.Array) -> None:
    batch = pa.RecordBatch.from_pydict(COLUMNS | {"payload": texts})
    decoded, (letter,) = decoded_of(batch)
    assert (decoded, letter["reason"], letter["reports"]) == ([], "corrupt_block", 2)


def test_a_batch_of_few_bytes_has_few_dead_letters() -> None:
    batch = pa.RecordBatch.from_pydict({"payload": pa.nulls(5_000)})
    _, letters = judged(batch, whole=True)
    size = batch.schema.serialize().size
    assert len(letters) <= size // 4 + 1
    assert sum(letter["reports"] for letter in letters) == 5_000
    assert sum(len(letter["record"] or b"") for letter in letters) <= KEPT_FOR_EACH_BYTE * size


def test_the_framing_in_a_header_of_kafka_stands_before_the_bytes_as_a_stream_reads_it() -> None:
    frame = b"\1" + bytes(range(16))
    headers = [beam.Row(key="__value_schema_id", value=frame), beam.Row(key="trace", value=None)]
    row = beam.Row(topic="t", partition=1, offset=7, key=None, value=b"record", timestamp=0, headers=headers)
    arrived = message_of(row)
    assert arrived is not None
    assert arrived.message == Message("t/1/7", frame + b"record", "")


@pytest.mark.parametrize(
    ("attributes", "kind"),
    [
        (None, ""),
        ({"trace": "7"}, ""),
        # As CloudEvents writes it into attributes.
        ({"trace": "7", "Content-Type": "application/x-ndjson"}, "application/x-ndjson"),
        ({"Content-Type": "text/plain", "content-type": "application/json"}, "application/json"),
    ],
)
def test_an_attribute_of_pubsub_names_the_format_in_small_or_capital_letters(
    attributes: dict[str, str] | None, kind: str
) -> None:
    arrived = message_of(PubsubMessage(b"{}", attributes, "17"))
    assert arrived is not None
    assert arrived.message == Message("17", b"{}", kind)
    delivered = PubSubMessages(data=b"{}", attributes=attributes or {}, message_id="17")
    received = _received(ReceivedMessage(ack_id="a", message=delivered)._pb, True)
    assert received.message == arrived.message
