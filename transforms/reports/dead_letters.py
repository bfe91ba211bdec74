"""Dead letters: inputs that could not be used, as Arrow batches of the schema ``dead_letter.avsc``."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import apache_beam as beam
import pyarrow as pa

from ldpbeam.transforms.reports.counts import DEAD_LETTERS, REASON, count

#: The tag of every stage's dead letters.
DEAD = "dead_letters"
#: The text from which the key of dead letters' hashes is derived. It is longer than any user id, so that the
#: derived key is never the HMAC of a user id.
_PURPOSE = b"ldpbeam dead letters".ljust(512, b".")

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


@dataclass(frozen=True)
class Disclosure:
    """What dead letters may reveal about their inputs.

    Attributes:
        records: whether dead letters hold the whole record.
        user_id_key: the key that hides user ids; None if they are not hidden. With a key, a
            dead letter cannot confirm a guessed id: its hash is an HMAC under a key derived from this one. It
            has no detail then, because the text of a problem may repeat bytes of the input.

    Raises:
        ValueError: if ``records`` is true and a key is given.
    """

    records: bool = False
    user_id_key: bytes | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.records and self.user_id_key is not None:
            raise ValueError("records hold user ids as they came, which the user-id key is to hide")

    def hashes(self, records: Sequence[bytes]) -> list[str]:
        """The hash of each record, 64 hexadecimal digits: SHA-256, or with a key HMAC-SHA-256."""
        if self.user_id_key is None:
            return [hashlib.sha256(record).hexdigest() for record in records]
        derived = hmac.digest(self.user_id_key, _PURPOSE, "sha256")
        return [hmac.digest(derived, record, "sha256").hex() for record in records]

    def details(self, details: Sequence[str]) -> list[str]:
        """The details as they are, or empty texts if user ids are hidden."""
        return list(details) if self.user_id_key is None else [""] * len(details)


#: Plain hashes, which anybody can recompute from a record, and no records.
PLAIN = Disclosure()


def record_bytes(record: dict[str, object]) -> bytes:
    """A decoded record as canonical JSON without nulls: the bytes that a dead letter hashes or holds."""
    present = {name: value for name, value in record.items() if value is not None}
    return json.dumps(present, sort_keys=True, default=_jsonable).encode()


def _jsonable(value: object) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


def emit(letters: Sequence[DeadLetter], disclosure: Disclosure) -> Iterator[beam.pvalue.TaggedOutput]:
    """The outputs of a DoFn for dead letters: one batch (``DEAD``), and counts by reason (``COUNTS``)."""
    if not letters:
        return
    columns: dict[str, Any] = dict(zip(DeadLetter._fields, zip(*letters, strict=True), strict=True))
    columns["sha256"] = disclosure.hashes(columns["record"])
    columns["detail"] = disclosure.details(columns["detail"])
    if not disclosure.records:
        columns["record"] = [None] * len(letters)
    arrays = [pa.array(columns[field.name], type=field.type) for field in _SCHEMA]
    yield beam.pvalue.TaggedOutput(DEAD, pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA))
    reasons: Counter[str] = Counter()
    for letter in letters:
        reasons[letter.reason] += letter.reports
    for reason, reports in reasons.items():
        yield count(REASON + reason, reports)
    yield count(DEAD_LETTERS, reasons.total())
