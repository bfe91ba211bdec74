"""What librdkafka delivers, as messages that are decoded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ldpbeam.schemas.messages.binary import Poll, frame_of
from ldpbeam.schemas.messages.placed import Ids

#: The header of a message that names the format of its value.
CONTENT_TYPE = "content-type"
#: The header with Confluent's framing of a value: the GUID of the writer's schema, or its id.
FRAME = "__value_schema_id"


def poll_of(name: str, delivered: Sequence[Any]) -> Poll:
    """Messages of one partition as columns, without deliveries: each offset is taken once.

    Args:
        name: ``TOPIC/PARTITION``, with which their ids begin.
        delivered: the messages.
    """
    offsets = np.fromiter((message.offset() for message in delivered), np.int64, len(delivered))
    values, types = list[bytes](), list[str]()
    before: Any = ()
    kind, frame = "", b""
    for message in delivered:
        try:
            headers = message.headers()
        except SystemError:  # confluent-kafka cannot give a header whose name is not UTF-8
            headers = None
        # Most messages have the headers of the one before.
        if headers != before:
            before, (kind, frame) = headers, named_by(headers or ())
        types.append(kind)
        values.append(frame + (message.value() or b""))
    return Poll(values, types, Ids(pa.array(offsets), None, name), deliveries=False)


def named_by(headers: Sequence[tuple[str, Any]]) -> tuple[str, bytes]:
    """(the format that headers name, empty if they name none; the framing that stands in them).

    A framing stands before the bytes of a message, where Confluent's other clients write it.
    """
    named = {name.lower(): value for name, value in reversed(headers)}
    given, framing = named.get(CONTENT_TYPE) or "", named.get(FRAME)
    kind = given.decode("utf-8", "replace") if isinstance(given, bytes) else str(given)
    return kind, framing if isinstance(framing, bytes) and frame_of(framing) == len(framing) else b""
