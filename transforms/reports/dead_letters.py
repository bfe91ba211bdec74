"""Dead letters: inputs that could not be used, and why, as Arrow batches of ``dead_letter.avsc``."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ldpbeam.schemas.reports import event_times
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

#: A batch has at most this many dead letters, and no more when their records have this many bytes.
LETTERS_AT_ONCE, BYTES_AT_ONCE = 5_000, 2**21

#: The reasons that depend on the payload, and so on the noise: what is left of the reports is biased.
OF_PAYLOADS = (
    "no_payload",
    "payload_not_a_number",
    "payload_not_bytes",
    "payload_wrong_length",
    "payload_outside_mechanism",
)
#: Why a record becomes a dead letter, by code; the first that applies is given. Code 0 is a valid report.
REASONS = (
    "",
    "no_user_id",
    "user_id_too_long",
    "report_id_too_long",
    "group_too_long",
    "group_unreadable",
    "no_attribute",
    "unknown_attribute",
    "no_service",
    "unknown_service",
    "no_event_time",
    *(reason for reason, _ in event_times.PROBLEMS),
    "unknown_version",
    "unknown_channel",
    "other_stamp",
    *OF_PAYLOADS,
    "out_of_turn",
)
#: The code of each reason.
CODE = {reason: code for code, reason in enumerate(REASONS)}

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
#: The columns of dead letters before it is decided what they may reveal: the fields of :class:`DeadLetter`.
LETTERS = pa.schema([*(field for field in SCHEMA if field.name != "sha256"), pa.field("whole", pa.binary())])


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
        undecoded: whether dead letters of what does not decode have a hash of its bytes, which confirms a
            guess of them, and a detail, which may repeat some.

    Raises:
        ValueError: if the key is no bytes or shorter, or if ``records`` is true and a key is given.
    """

    records: bool = False
    user_id_key: bytes | None = field(default=None, repr=False)
    undecoded: bool = True

    def __post_init__(self) -> None:
        if self.user_id_key is None:
            return
        if not isinstance(self.user_id_key, bytes):
            raise ValueError(f"user_id_key is of type {type(self.user_id_key).__name__}: give bytes")
        if len(self.user_id_key) < SHORTEST_KEY:
            raise ValueError(
                f"user_id_key has {len(self.user_id_key)} bytes: {SHORTEST_KEY} or more are needed"
            )
        if self.records:
            raise ValueError("records hold the original user ids, which the user-id key is meant to hide")

    @property
    def hides(self) -> bool:
        """Whether no text of the input may be shown, as it could have a user id in it."""
        return self.user_id_key is not None or not self.undecoded

    def hashes(self, records: Sequence[bytes]) -> list[str]:
        """The hash of each record, 64 hexadecimal digits: SHA-256, or with a key HMAC-SHA-256."""
        if self.user_id_key is None:
            return [hashlib.sha256(record).hexdigest() for record in records]
        derived = hmac.digest(self.user_id_key, _PURPOSE, "sha256")
        return [hmac.digest(derived, record, "sha256").hex() for record in records]

    def details(self, details: pa.Array) -> pa.Array:
        """The details, escaped and cut, or empty texts if user ids are hidden."""
        if self.user_id_key is not None:
            return pa.repeat("", len(details))
        encoded = details.dictionary_encode()
        safe = [cut_short(detail) for detail in encoded.dictionary.to_pylist()]
        return pa.array(safe, pa.string()).take(encoded.indices)


#: Plain hashes, which anybody can recompute from a record, and no records.
PLAIN = Disclosure()


def disclosure_for(study: Study, records: bool, user_id_key: bytes | None) -> Disclosure:
    """What the dead letters of a study may reveal; never a user id of an attribute without users.

    Args:
        study: the study.
        records: whether dead letters are to hold whole records.
        user_id_key: as :class:`Disclosure` has it.

    Raises:
        ValueError: if records would hold user ids that are to be hidden, or the key cannot be one.
    """
    if records and study.without_users:
        raise ValueError(
            f"bad records are kept as they came, with user ids that reports of {study.without_users[0]!r} "
            "must not have (users: none): leave it out, and read the input again when the study is fixed"
        )
    return Disclosure(records, user_id_key, undecoded=not study.without_users)


def at_once(sizes: Sequence[int] | NDArray[np.int64]) -> Iterator[slice]:
    """The places of the letters of each batch, by the bytes of the record of each letter."""
    ends, start = np.cumsum(sizes, dtype=np.int64), 0
    while start < len(ends):
        most = BYTES_AT_ONCE + (ends[start - 1] if start else 0)
        stop = max(start + 1, min(start + LETTERS_AT_ONCE, int(np.searchsorted(ends, most, "right"))))
        yield slice(start, stop)
        start = stop


def in_columns(letters: Iterable[DeadLetter], disclosure: Disclosure = PLAIN) -> Iterator[pa.RecordBatch]:
    """Batches of :data:`LETTERS` from what decoders give."""
    every = list(letters)
    for place in at_once([len(letter.record) for letter in every]):
        part = every[place]
        if not disclosure.undecoded:
            part = [letter._replace(detail="", record=b"", whole=None) for letter in part]
        columns = zip(LETTERS, zip(*part, strict=True), strict=True)
        arrays = [pa.array(values, type=field.type) for field, values in columns]
        yield pa.RecordBatch.from_arrays(arrays, schema=LETTERS)


def disclosed(letters: pa.RecordBatch, disclosure: Disclosure) -> pa.RecordBatch:
    """Dead letters as a batch of the schema ``dead_letter.avsc``, which tells no more than is disclosed.

    Args:
        letters: of the schema :data:`LETTERS`.
        disclosure: what may be revealed.
    """
    columns = dict(zip(letters.schema.names, letters.columns, strict=True))
    columns["sha256"] = pa.array(disclosure.hashes(columns["record"].to_pylist()), pa.string())
    columns["detail"] = disclosure.details(columns["detail"])
    columns["record"] = (
        pc.coalesce(columns["whole"], columns["record"])
        if disclosure.records
        else pa.nulls(letters.num_rows, pa.binary())
    )
    return pa.RecordBatch.from_arrays([columns[field.name] for field in SCHEMA], schema=SCHEMA)


def counts_of(letters: pa.RecordBatch) -> dict[str, int]:
    """How many reports dead letters are of, by reason and in all."""
    reasons = letters.column("reason").dictionary_encode()
    reports = letters.column("reports").to_numpy()
    by_reason = np.bincount(reasons.indices.to_numpy(), reports).astype(np.int64).tolist()
    names = [REASON + reason for reason in reasons.dictionary.to_pylist()]
    return {**dict(zip(names, by_reason, strict=True)), DEAD_LETTERS: int(reports.sum())}
