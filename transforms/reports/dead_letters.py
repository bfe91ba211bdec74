"""Dead letters: inputs that could not be used, and why, as Arrow batches of ``dead_letter.avsc``."""

from __future__ import annotations

import hashlib
import hmac
import itertools
import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ldpbeam.nearest import did_you_mean
from ldpbeam.schemas.reports import event_times
from ldpbeam.schemas.reports.columns import NEAR, NEEDED, as_json_values
from ldpbeam.study import Study
from ldpbeam.transforms.reports.counts import DEAD_LETTERS, REASON
from ldpbeam.untrusted import cut_short

#: The tag of every stage's dead letters.
DEAD = "dead_letters"
#: The bytes of the shortest key that hides user ids.
SHORTEST_KEY = 16
#: The text from which the key of dead letters' hashes is derived. It is longer than any user id, so that the
#: derived key is never the HMAC of a user id.
_PURPOSE = b"ldpbeam dead letters".ljust(512, b".")

#: A batch has at most this many dead letters.
LETTERS_AT_ONCE = 5_000

#: Why a record becomes a dead letter, by code; the first that applies is given. Code 0 is a valid report.
REASONS = (
    "",
    "no_user_id",
    "user_id_too_long",
    "report_id_too_long",
    "group_too_long",
    "no_attribute",
    "unknown_attribute",
    "no_service",
    "unknown_service",
    "no_event_time",
    *(reason for reason, _ in event_times.PROBLEMS),
    "unknown_version",
    "other_stamp",
    "no_payload",
    "payload_not_a_number",
    "payload_not_bytes",
    "payload_wrong_length",
    "payload_outside_mechanism",
    "out_of_turn",
)
#: The code of each reason.
CODE = {reason: code for code, reason in enumerate(REASONS)}
#: The detail of a dead letter, for the reasons that have one.
DETAILS = dict(event_times.PROBLEMS)

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
        safe = {detail: cut_short(detail) for detail in set(details)}
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


#: This many names of the study are listed.
MOST_LISTED = 8
#: This many different names of a batch are compared with the study's names, and only names as short as this.
MOST_COMPARED, LONGEST_COMPARED = 64, 64
#: The field that is missing, by the reason.
_FIELDS = {f"no_{name}": name for name in NEEDED}


def details(
    study: Study, batch: pa.RecordBatch, bad: NDArray[np.int64], codes: NDArray[np.int8]
) -> list[str]:
    """The detail of each dead letter: what is probably meant; empty where the reason says it all.

    A detail is made of the names of fields and of the study's names. It repeats no value of a report.

    Args:
        study: the study.
        batch: a decoded batch.
        bad: the rows of the dead letters, shape (n,).
        codes: the code of the reason of each, above 0, shape (n,).
    """
    names = [_values(batch, column, bad) for column in ("attribute", "service", NEAR)]
    unknown = _Unknown(study)
    sentences = []
    for code, attribute, service, near in zip(codes.tolist(), *names, strict=True):
        reason = REASONS[code]
        if near and reason in _FIELDS:
            sentences.append(_missing(_FIELDS[reason], json.loads(near)))
        elif reason in ("unknown_attribute", "unknown_service"):
            sentences.append(unknown.sentence(reason, attribute, service))
        else:
            sentences.append(DETAILS.get(reason, ""))
    return sentences


def _values(batch: pa.RecordBatch, column: str, rows: NDArray[np.int64]) -> list[Any]:
    """The values of a column in some rows, or those of the constant that replaces it."""
    if column in batch.schema.names:
        values: list[Any] = batch.column(column).take(pa.array(rows)).to_pylist()
        return values
    constant = (batch.schema.metadata or {}).get(column.encode())
    return [constant and constant.decode()] * len(rows)


def _missing(name: str, near: dict[str, tuple[str, str]]) -> str:
    if name not in near:
        return ""
    field, missing = near[name]
    return f"the record has {field!r}; did you mean {missing!r}?"


class _Unknown:
    """Sentences on names that the study does not have; each name of a batch is compared once."""

    def __init__(self, study: Study) -> None:
        self._study = study
        self._compared: dict[tuple[str, str], str] = {}

    def sentence(self, reason: str, attribute: str, service: str) -> str:
        if reason == "unknown_attribute":
            return self._about("an unknown attribute", attribute, self._study.attributes)
        services = self._study.attributes[attribute].services
        return self._about(f"an unknown service of {attribute!r}", service, services)

    def _about(self, what: str, name: str, known: Collection[str]) -> str:
        if (what, name) in self._compared:
            return self._compared[what, name]
        listed = ", ".join([*known][:MOST_LISTED]) + (", ..." if len(known) > MOST_LISTED else "")
        there_are = f"there are: {listed}"
        if len(name) > LONGEST_COMPARED or len(self._compared) >= MOST_COMPARED:
            return f"{what}; {there_are}"
        self._compared[what, name] = f"{what}; {did_you_mean(name, known, there_are)}"
        return self._compared[what, name]
