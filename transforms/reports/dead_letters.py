"""Dead letters: inputs that could not be used, as Arrow batches of the DeadLetter schema."""

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
#: What the key of dead letters' hashes is derived from. It is longer than any user id, so that it is no id
#: whose HMAC under the same key stands for a user.
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
    """What dead letters may say of their inputs.

    Attributes:
        records: whether they have the whole record.
        user_id_key: the key that hides user ids, None where they are not hidden. With a key nothing in a dead
            letter can be rebuilt from a guessed id: its hash is an HMAC under a key derived from this one,
            and it has no detail, because the text of a problem may repeat bytes of the input.

    Raises:
        ValueError: if records are asked for although ids are to be hidden.
    """

    records: bool = False
    user_id_key: bytes | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.records and self.user_id_key is not None:
            raise ValueError("records hold user ids as they came, which the user-id key is to hide")

    def hashes(self, records: Sequence[bytes]) -> list[str]:
        """What stands for each record, as hexadecimal digits."""
        if self.user_id_key is None:
            return [hashlib.sha256(record).hexdigest() for record in records]
        derived = hmac.digest(self.user_id_key, _PURPOSE, "sha256")
        return [hmac.digest(derived, record, "sha256").hex() for record in records]

    def details(self, details: Sequence[str]) -> list[str]:
        """The details that may be shown."""
        return list(details) if self.user_id_key is None else [""] * len(details)


#: Hashes that anybody can make, and no records.
PLAIN = Disclosure()


def record_bytes(record: dict[str, object]) -> bytes:
    """A decoded record as canonical JSON without its nulls: what is hashed, and kept on request."""
    present = {name: value for name, value in record.items() if value is not None}
    return json.dumps(present, sort_keys=True, default=_jsonable).encode()


def _jsonable(value: object) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


def emit(letters: Sequence[DeadLetter], disclosure: Disclosure) -> Iterator[beam.pvalue.TaggedOutput]:
    """Dead letters and their counts, to emit from a DoFn."""
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
