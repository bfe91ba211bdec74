"""What librdkafka delivers, as messages that are decoded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ldpbeam.schemas.messages.binary import Message, Poll
from ldpbeam.schemas.messages.placed import Ids

#: The header of a message that names the format of its value.
CONTENT_TYPE = "content-type"


def poll_of(name: str, delivered: Sequence[Any]) -> Poll:
    """Messages of one partition as columns, without deliveries: each offset is taken once.

    Args:
        name: ``TOPIC/PARTITION``, with which their ids begin.
        delivered: the messages.
    """
    offsets = np.fromiter((message.offset() for message in delivered), np.int64, len(delivered))
    values = [message.value() or b"" for message in delivered]
    return Poll(values, _content_types(delivered), Ids(pa.array(offsets), None, name), deliveries=False)


def message_of(delivered: Any) -> Message:
    """A message with ``TOPIC/PARTITION/OFFSET`` as its id."""
    number = f"{delivered.topic()}/{delivered.partition()}/{delivered.offset()}"
    return Message(number, delivered.value() or b"", *_content_types([delivered]))


def _content_types(delivered: Sequence[Any]) -> list[str]:
    """The formats that messages name; empty for one that names none."""
    types: list[str] = []
    before: Any = ()
    kind = ""
    for message in delivered:
        try:
            headers = message.headers()
        except SystemError:  # confluent-kafka cannot give a header whose name is not UTF-8
            headers = None
        # Most messages have the headers of the one before.
        if headers != before:
            before, kind = headers, _named_by(headers or ())
        types.append(kind)
    return types


def _named_by(headers: Sequence[tuple[str, Any]]) -> str:
    for header, value in headers:
        if header.lower() == CONTENT_TYPE:
            return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value or "")
    return ""
