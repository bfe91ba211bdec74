"""The messages of Beam's readers of Pub/Sub and Kafka, for the decoder that the commands use, too."""

from __future__ import annotations

from typing import Any, NamedTuple

from apache_beam.io.gcp.pubsub import PubsubMessage

from ldpbeam.schemas.messages.binary import Message
from ldpbeam.transforms.sources.kafka_messages import named_by
from ldpbeam.transforms.sources.pubsub import content_type_of

#: Messages of a bundle are decoded when they have this many bytes, however few they are.
BATCH_BYTES = 16 * 2**20
#: The file in dead letters of a message without a source.
UNNAMED = "messages"
#: The fields of the Rows of ``ReadFromKafka(with_metadata=True)`` that are read here.
_OF_KAFKA = ("topic", "partition", "offset", "value", "headers")


class Arrived(NamedTuple):
    """A message, and what its reader knows about it.

    Attributes:
        source: ``TOPIC/PARTITION`` for Kafka, else :data:`UNNAMED`.
        repeats: whether it may be delivered twice, with the same id.
        message: its id, bytes and content type.
    """

    source: str
    repeats: bool
    message: Message


def message_of(element: Any) -> Arrived | None:
    """An element as a message; None if it is a report with fields.

    Messages are ``PubsubMessage``, Rows with Kafka's metadata, bytes, and pairs of a key and bytes, the
    output of ``ReadFromKafka`` without metadata. Bytes alone have no content type: it is recognised from
    them.
    """
    if isinstance(element, PubsubMessage):
        number = element.message_id or ""
        kind = content_type_of(element.attributes or {})
        return Arrived(UNNAMED, bool(number), Message(number, element.data, kind))
    if isinstance(element, bytes):
        return Arrived(UNNAMED, False, Message("", element, ""))
    if isinstance(element, tuple) and len(element) == 2 and not hasattr(element, "_asdict"):
        value = element[1]
        return Arrived(UNNAMED, False, Message("", value, "")) if isinstance(value, bytes) else None
    if not all(hasattr(element, name) for name in _OF_KAFKA):
        return None
    source = f"{element.topic}/{element.partition}"
    kind, frame = named_by([(header.key, header.value) for header in element.headers or ()])
    message = Message(f"{source}/{element.offset}", frame + (element.value or b""), kind)
    return Arrived(source, False, message)
