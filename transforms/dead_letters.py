"""Dead letters: inputs that could not be used, as Arrow batches of the DeadLetter schema."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import apache_beam as beam
import pyarrow as pa

from ldpbeam.transforms.counts import DEAD_LETTERS, REASON, count

#: The tag of every stage's dead letters.
DEAD = "dead_letters"

_SCHEMA = pa.schema(
    [
        ("file", pa.string()),
        ("position", pa.int64()),
        ("row", pa.int64()),
        ("reason", pa.string()),
        ("detail", pa.string()),
        ("reports", pa.int64()),
        ("sha256", pa.string()),
        ("record", pa.binary()),
    ]
)


class DeadLetter(NamedTuple):
    """An input that could not be used; the fields are those of ``dead_letter.avsc``."""

    file: str
    position: int | None
    row: int | None
    reason: str
    detail: str
    reports: int
    record: bytes


def record_bytes(record: dict[str, object]) -> bytes:
    """A decoded record as canonical JSON without its nulls: what is hashed, and kept on request."""
    present = {name: value for name, value in record.items() if value is not None}
    return json.dumps(present, sort_keys=True, default=_jsonable).encode()


def _jsonable(value: object) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


def emit(letters: Sequence[DeadLetter], keep: bool) -> Iterator[beam.pvalue.TaggedOutput]:
    """Dead letters and their counts, to emit from a DoFn; the records only where they are kept."""
    if not letters:
        return
    columns = [list(column) for column in zip(*(letter[:6] for letter in letters), strict=True)]
    records = [letter.record for letter in letters]
    columns.append([hashlib.sha256(record).hexdigest() for record in records])
    columns.append(records if keep else [None] * len(records))
    arrays = [pa.array(c, type=f.type) for c, f in zip(columns, _SCHEMA, strict=True)]
    yield beam.pvalue.TaggedOutput(DEAD, pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA))
    reasons: Counter[str] = Counter()
    for letter in letters:
        reasons[letter.reason] += letter.reports
    for reason, reports in reasons.items():
        yield count(REASON + reason, reports)
    yield count(DEAD_LETTERS, reasons.total())
