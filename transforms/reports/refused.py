"""Reports that validation refuses, as dead letters: their records, and what was wrong with each in words."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ldpbeam.nearest import did_you_mean
from ldpbeam.schemas.encodings.arrow_sizes import expanded_bytes
from ldpbeam.schemas.reports import event_times
from ldpbeam.schemas.reports.columns import (
    DELIVERY,
    LETTER_BYTES,
    LETTERS_KEY,
    MEANT_KEY,
    NEAR,
    NEEDED,
    ORIGIN_KEYS,
    PLACE,
    RECORD,
    WRITER_KEY,
)
from ldpbeam.study import Study
from ldpbeam.transforms.reports.batches import WATERMARK
from ldpbeam.transforms.reports.dead_letters import LETTERS, REASONS, at_once
from ldpbeam.transforms.reports.kept_records import kept_records, most_kept
from ldpbeam.transforms.reports.record_texts import lengths_of, record_texts

#: The detail of a dead letter, for the reasons that have one.
DETAILS = dict(event_times.PROBLEMS) | {
    "group_unreadable": "no text, number, time or UUID, and no bytes of UTF-8",
    "no_event_time": "missing, without a zone, or no time; write RFC 3339 text with a zone, as in "
    "2026-11-20T10:00:00Z, or milliseconds since 1970-01-01T00:00:00Z",
}
#: Columns that decoding adds and the record did not have.
_NOT_READ = frozenset(("position", "row", DELIVERY, NEAR, PLACE, RECORD))
#: This many names of the study are listed.
MOST_LISTED = 8
#: This many different names of a batch are compared with the study's names, and only names as short as this.
MOST_COMPARED, LONGEST_COMPARED = 64, 64
#: The field that is missing, by the reason.
_FIELDS = {f"no_{name}": name for name in NEEDED}


def refused(study: Study, batch: pa.RecordBatch, reasons: NDArray[np.int8]) -> Iterator[pa.RecordBatch]:
    """Dead letters of the schema :data:`~ldpbeam.transforms.reports.dead_letters.LETTERS`.

    Args:
        study: the study.
        batch: a decoded batch.
        reasons: the code of the reason of each row, shape (rows,); 0 for a valid report.
    """
    metadata = batch.schema.metadata or {}
    constants = {key.decode(): text.decode() for key, text in metadata.items() if key != WATERMARK}
    file = constants.pop("file", "")
    constants.pop(MEANT_KEY, None)
    origin = {key: constants.pop(key) for key in (*ORIGIN_KEYS, WRITER_KEY) if key in constants}
    read = [name for name in batch.schema.names if name not in _NOT_READ]
    size = int(constants.pop(LETTERS_KEY, LETTER_BYTES * batch.num_rows))
    every, represented = _singly(reasons, max(1, size // LETTER_BYTES))
    most = most_kept(batch, origin, size) if RECORD in batch.schema.names else 0
    # Texts of records take many times the bytes that the records have in a batch.
    for place in at_once(_sizes(batch, constants)[every]):
        bad = every[place]
        chosen = batch.take(pa.array(bad))
        columns = {
            "file": pa.repeat(file, len(bad)),
            "position": chosen.column("position"),
            "row": chosen.column("row"),
            "reason": pa.array(REASONS, pa.string()).take(pa.array(reasons[bad])),
            "detail": _details(study, batch, bad, reasons[bad]),
            "reports": pa.array(represented[place]),
            "record": record_texts({name: chosen.column(name) for name in read}, constants, len(bad)),
            "whole": kept_records(chosen.column(RECORD), origin, most - place.start)
            if RECORD in chosen.schema.names
            else pa.nulls(len(bad)),
        }
        yield pa.RecordBatch.from_arrays(
            [columns[field.name].cast(field.type) for field in LETTERS], schema=LETTERS
        )


def _sizes(batch: pa.RecordBatch, constants: Mapping[str, str]) -> NDArray[np.int64]:
    """About how many bytes the record of each row has, with the constants and, if it is kept, its schema."""
    each = sum(map(len, constants.values()))
    if RECORD in batch.schema.names:
        records = batch.column(RECORD)
        fields = records.flatten() if pa.types.is_struct(records.type) else ()
        each += batch.schema.serialize().size + sum(map(expanded_bytes, fields)) // max(1, batch.num_rows)
    sizes = np.full(batch.num_rows, each, np.int64)
    for name in batch.schema.names:
        sizes += pc.fill_null(lengths_of(batch.column(name)), 0).to_numpy()
    return sizes


def _singly(reasons: NDArray[np.int8], most: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows that have dead letters, and how many reports each is of: beyond ``most``, all of a reason."""
    every = np.flatnonzero(reasons)
    first, others = every[:most], every[most:]
    _, firsts, reports = np.unique(reasons[others], return_index=True, return_counts=True)
    return np.concatenate((first, others[firsts])), np.concatenate((np.ones_like(first), reports))


def _details(
    study: Study, batch: pa.RecordBatch, bad: NDArray[np.int64], codes: NDArray[np.int8]
) -> pa.Array:
    """The detail of each dead letter: what is probably meant; empty where the reason says it all.

    A detail is made of the names of fields and of the study's names. It repeats no value of a report.

    Args:
        study: the study.
        batch: a decoded batch.
        bad: the rows of the dead letters, shape (n,).
        codes: the code of the reason of each, above 0, shape (n,).
    """
    compared = dict[tuple[str, str], str]()
    given = [_values(batch, name, bad).dictionary_encode() for name in (NEAR, "attribute", "service", PLACE)]
    places = [pc.fill_null(column.indices, -1).to_numpy() for column in given]
    # Each different case has one sentence; the cases that come first are explained first.
    _, firsts, cases = np.unique(
        np.column_stack((codes, *places)), axis=0, return_index=True, return_inverse=True
    )
    sentences = [""] * len(firsts)
    for case in np.argsort(firsts).tolist():
        row = firsts[case]
        names = [column[int(row)].as_py() for column in given]
        *named, at = names
        sentence = _detail(study, compared, REASONS[codes[row]], *named)
        # Who reads the record again reads the report at this place alone.
        place = study.attributes[named[1]].place if at is not None else None
        sentences[case] = f"{place[0]}[{at}]: {sentence}".removesuffix(": ") if place else sentence
    return pa.array(sentences, pa.string()).take(pa.array(cases.reshape(-1)))


def _detail(
    study: Study,
    compared: dict[tuple[str, str], str],
    reason: str,
    near: str | None,
    attribute: str,
    service: str,
) -> str:
    if near and reason in _FIELDS:
        field, missing = json.loads(near).get(_FIELDS[reason], ("", ""))
        if field:
            return f"the record has {field!r}; did you mean {missing!r}?"
    if reason == "unknown_attribute":
        return _unknown(compared, "an unknown attribute", attribute, study.attributes)
    if reason == "unknown_service":
        services = study.attributes[attribute].services
        return _unknown(compared, f"an unknown service of {attribute!r}", service, services)
    return DETAILS.get(reason, "")


def _values(batch: pa.RecordBatch, column: str, rows: NDArray[np.int64]) -> pa.Array:
    """The values of a column in some rows, or those of the constant that replaces it."""
    if column in batch.schema.names:
        return batch.column(column).take(pa.array(rows))
    constant = (batch.schema.metadata or {}).get(column.encode())
    return pa.repeat(pa.scalar(constant and constant.decode(), pa.string()), len(rows))


def _unknown(compared: dict[tuple[str, str], str], what: str, name: str, known: Collection[str]) -> str:
    """A sentence on a name that the study does not have; each name of a batch is compared once."""
    if (what, name) in compared:
        return compared[what, name]
    listed = ", ".join([*known][:MOST_LISTED]) + (", ..." if len(known) > MOST_LISTED else "")
    there_are = f"there are: {listed}"
    if len(name) > LONGEST_COMPARED or len(compared) >= MOST_COMPARED:
        return f"{what}; {there_are}"
    return compared.setdefault((what, name), f"{what}; {did_you_mean(name, known, there_are)}")
