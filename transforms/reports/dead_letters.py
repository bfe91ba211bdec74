"""Dead letters: inputs that could not be used, as Arrow batches of the schema ``dead_letter.avsc``."""

from __future__ import annotations

import hashlib
import hmac
import itertools
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa

from ldpbeam.schemas.reports.columns import as_json_values
from ldpbeam.transforms.reports.counts import DEAD_LETTERS, REASON
from ldpbeam.untrusted import told

#: The tag of every stage's dead letters.
DEAD = "dead_letters"
#: The bytes of the shortest key that hides user ids.
SHORTEST_KEY = 16
#: The text from which the key of dead letters' hashes is derived. It is longer than any user id, so that the
#: derived key is never the HMAC of a user id.
_PURPOSE = b"ldpbeam dead letters".ljust(512, b".")

#: A batch has at most this many dead letters.
LETTERS_AT_ONCE = 5_000

#: The columns of a batch of dead letters.
SCHEMA = pa.schema(
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
    """An input that could not be used; the fields are those of ``dead_letter.avsc``.

    ``record`` is what is hashed: the bytes that do not decode, or the fields that the study reads. ``whole``
    is the whole record, if it is kept and differs.
    """

    file: str
    position: int | None
    row: int | None
    reason: str
    detail: str
    reports: int
    record: bytes
    whole: bytes | None = None


@dataclass(frozen=True)
class Disclosure:
    """What dead letters may reveal about their inputs.

    Attributes:
        records: whether dead letters hold the whole record.
        user_id_key: the key that hides user ids, of :data:`SHORTEST_KEY` bytes or more; None if they are not
            hidden. With a key, a dead letter cannot confirm a guessed id: its hash is an HMAC under a key
            derived from this one. It has no detail then, because the text of a problem may repeat bytes of
            the input.

    Raises:
        ValueError: if the key is shorter, or if ``records`` is true and a key is given.
    """

    records: bool = False
    user_id_key: bytes | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.user_id_key is None:
            return
        if len(self.user_id_key) < SHORTEST_KEY:
            raise ValueError(
                f"user_id_key has {len(self.user_id_key)} bytes: {SHORTEST_KEY} or more are needed"
            )
        if self.records:
            raise ValueError("records hold user ids as they came, which the user-id key is to hide")

    def hashes(self, records: Sequence[bytes]) -> list[str]:
        """The hash of each record, 64 hexadecimal digits: SHA-256, or with a key HMAC-SHA-256."""
        if self.user_id_key is None:
            return [hashlib.sha256(record).hexdigest() for record in records]
        derived = hmac.digest(self.user_id_key, _PURPOSE, "sha256")
        return [hmac.digest(derived, record, "sha256").hex() for record in records]

    def details(self, details: Sequence[str]) -> list[str]:
        """The details, escaped and cut, or empty texts if user ids are hidden."""
        if self.user_id_key is not None:
            return [""] * len(details)
        safe = {detail: told(detail) for detail in set(details)}
        return [safe[detail] for detail in details]


#: Plain hashes, which anybody can recompute from a record, and no records.
PLAIN = Disclosure()


def record_bytes(record: Mapping[str, object]) -> bytes:
    """A decoded record as canonical JSON without nulls: the bytes that a dead letter hashes."""
    present = {name: value for name, value in record.items() if value is not None}
    return json.dumps(present, sort_keys=True, default=_jsonable).encode()


def whole_records(column: pa.Array) -> list[bytes]:
    """Whole records, n values of the column :data:`RECORD`, as dead letters hold them.

    Bytes stay as they came. Fields of columns become a JSON object.
    """
    if not pa.types.is_struct(column.type):
        records: list[bytes] = column.to_pylist()
        return records
    names = [column.type.field(index).name for index in range(column.type.num_fields)]
    values = [as_json_values(part).to_pylist() for part in column.flatten()]
    return [record_bytes(dict(zip(names, row, strict=True))) for row in zip(*values, strict=True)]


def _jsonable(value: object) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


def as_batches(
    letters: Iterable[DeadLetter], disclosure: Disclosure
) -> Iterator[tuple[pa.RecordBatch, dict[str, int]]]:
    """(a batch, its counts by reason and in all) for each part of the dead letters."""
    left = iter(letters)
    while part := list(itertools.islice(left, LETTERS_AT_ONCE)):
        yield as_batch(part, disclosure), _counts_of(part)


def as_batch(letters: Sequence[DeadLetter], disclosure: Disclosure) -> pa.RecordBatch:
    """Dead letters as a batch of the schema ``dead_letter.avsc``, which tells no more than is disclosed."""
    columns: dict[str, Any] = {
        name: [getattr(letter, name) for letter in letters] for name in DeadLetter._fields if name != "whole"
    }
    columns["sha256"] = disclosure.hashes(columns["record"])
    columns["detail"] = disclosure.details(columns["detail"])
    columns["record"] = [
        (one.record if one.whole is None else one.whole) if disclosure.records else None for one in letters
    ]
    arrays = [pa.array(columns[field.name], type=field.type) for field in SCHEMA]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _counts_of(letters: Sequence[DeadLetter]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for letter in letters:
        counts[REASON + letter.reason] += letter.reports
    return {**counts, DEAD_LETTERS: counts.total()}
