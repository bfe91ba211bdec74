"""Reports as Arrow columns, the same for every file format.

A decoded batch has these columns. A value is null where the input has no usable value:

=============  ==========================================  ==============================================
``user_id``    binary                                      the user key; absent if no reports have users
``attribute``  string                                      absent if the batch's metadata names it
``service``    string                                      absent if the batch's metadata names it
``event_time`` int64                                       milliseconds since 1970-01-01T00:00:00Z
``report_id``  binary                                      absent if the file has no report ids
``payload``    float64, int64, uint32, or the file's type  the mechanism's output: bytes stay bytes
others         string                                      the study's group and version fields
``position``   int64                                       byte offset of the block or line, or row group
``row``        int64                                       the record's index there; 0 for a line
``DELIVERY``   binary                                      in messages: see :data:`DELIVERY`
=============  ==========================================  ==============================================
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ldpbeam.cells import Clock
from ldpbeam.schemas.reports.casts import cast_column, is_list, is_null
from ldpbeam.schemas.reports.fields import meant, meant_fields
from ldpbeam.schemas.writer_schemas import NO_SCHEMAS, WriterSchemas

#: Metadata keys of a report file that give the attribute and the service for records without them.
ATTRIBUTE_KEY = "ldpbeam.attribute"
SERVICE_KEY = "ldpbeam.service"
#: Metadata keys of a report file that state the mechanism of its reports; a decoded batch keeps them in its
#: own metadata (:mod:`ldpbeam.schemas.reports.stamps`).
MECHANISM_KEY, EPSILON_KEY = "ldpbeam.mechanism", "ldpbeam.epsilon"
OPTIONS_KEY, DOMAIN_KEY = "ldpbeam.options", "ldpbeam.domain"
STAMP_KEYS = (MECHANISM_KEY, EPSILON_KEY, OPTIONS_KEY, DOMAIN_KEY)
#: In the metadata of a decoded batch with whole records: the schema of the Avro file that they come from.
WRITER_KEY = "ldpbeam.writer"
#: What the metadata of an input say of its records, which whole records keep.
ORIGIN_KEYS = (ATTRIBUTE_KEY, SERVICE_KEY, *STAMP_KEYS)
#: The column that identifies a report without a ``report_id`` by its message and row, so that a message that
#: is delivered twice counts once; null for a report with an id. Nothing that a client writes reaches it.
DELIVERY = "ldpbeam.delivery"
#: The column of a decoded batch with the fields, as :func:`meant` gives them, that probably stand for missing
#: ones of a record. It is there if a record has such fields.
NEAR = "ldpbeam.near"
#: The column with whole records, where :class:`Columns` asks for them: their bytes as they came or, of files
#: and messages that hold columns, a struct of all fields that are not nested, and the payload.
RECORD = "ldpbeam.record"
#: The column with the place of a report in its record's list, where a record is one to several attributes; of
#: records that are read again the one place that is read, and null for all.
PLACE = "ldpbeam.place"
#: In the metadata of a decoded batch, as JSON: the field that its records have, by each of the study's fields
#: (groups and versions) that none of them has and that is probably meant.
MEANT_KEY = "ldpbeam.meant"
#: In the metadata of a decoded batch: the most dead letters that it has, if not one for each report.
LETTERS_KEY = "ldpbeam.letters"
#: A report in fewer bytes of its input than these has no dead letter by itself: a hash takes more of a disk.
LETTER_BYTES = 4
#: The most characters of the name of an attribute or a service (``schemas/study/parts.py``).
LONGEST_NAME = 64
#: The columns that reports of every study have.
OURS = ("user_id", "attribute", "service", "event_time", "report_id", "payload")
#: The types of columns that a decoded batch has even where the input has not.
_ALWAYS = {"user_id": pa.binary(), "payload": pa.float64(), "event_time": pa.int64()}
#: The fields without which a record is no report; event_time where the study needs it.
NEEDED = tuple(name for name in OURS if name != "report_id")


@dataclass(frozen=True)
class Columns:
    """Which columns of a file are read.

    Attributes:
        attribute: the attribute of a record if neither the record nor its file names one.
        service: the service of a record if neither the record nor its file names one.
        extras: further fields that the study uses: its group field and version fields.
        timed: whether a record without an event time is no report.
        whole: whether batches have whole records, in the column :data:`RECORD`.
        users: the attributes whose reports have users; None if all do. Of other reports no user id is kept.
        renamed: (column, field of the input that has it) for the columns whose fields have other names; what
            :func:`ldpbeam.schemas.reports.fields.check` lets pass.
        schemas: where the writers' schemas are that messages of Avro name by an id.
        clock: what shows event times without a zone; None if such times are none.
    """

    attribute: str | None = None
    service: str | None = None
    extras: tuple[str, ...] = ()
    timed: bool = True
    whole: bool = False
    renamed: tuple[tuple[str, str], ...] = ()
    schemas: WriterSchemas = NO_SCHEMAS
    clock: Clock | None = None
    users: tuple[str, ...] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all columns that are read."""
        return (*(name for name in OURS if name != "user_id" or self.users != ()), *self.extras)

    @property
    def needed(self) -> tuple[str, ...]:
        """The columns without which no record is a report, but for the attribute and the service."""
        alone = self.users is not None and (self.attribute not in self.users)
        users = () if alone else ("user_id",)
        return (*users, "payload", *(("event_time",) if self.timed else ()))

    @property
    def fields(self) -> dict[str, str]:
        """The field of the input that each column is read from, by the column's name."""
        return {name: name for name in self.names} | dict(self.renamed)


def text_of(metadata: Mapping[bytes, bytes] | None) -> dict[str, str]:
    """The metadata of an Arrow schema as text; what is not UTF-8 is replaced."""
    entries = (metadata or {}).items()
    return {key.decode("utf-8", "replace"): value.decode("utf-8", "replace") for key, value in entries}


def is_nested(kind: pa.DataType) -> bool:
    """Whether a type has other types in it, in which Arrow does not take single rows of every kind."""
    if isinstance(kind, pa.BaseExtensionType):
        return is_nested(kind.storage_type)
    return bool(pa.types.is_nested(kind) or pa.types.is_run_end_encoded(kind))


def whole_of(columns: Mapping[str, pa.Array], payload: str) -> pa.Array | None:
    """Whole records, as :data:`RECORD` has them, of columns by the names of fields; None without any.

    Nested columns are left out, as to take rows of a union ends the process; a list in the field ``payload``
    is a text.
    """
    flat = {name: column for name, column in columns.items() if not is_nested(column.type)}
    if payload in columns and is_list(columns[payload].type):
        flat.setdefault(payload, cast_column("payload", columns[payload]))
    return pa.StructArray.from_arrays([*flat.values()], [*flat]) if flat else None


def decoded(
    columns: Mapping[str, pa.Array],
    wanted: Columns,
    metadata: Mapping[str, str],
    position: pa.Array,
    row: pa.Array,
    fields: Callable[[int], Iterable[str]] | None = None,
    records: pa.Array | None = None,
) -> pa.RecordBatch:
    """Cast a file's columns to the types of a decoded batch.

    A value that cannot be cast becomes null, and its report a dead letter later. The attribute and the
    service come from the record, else from the file's metadata, else from ``wanted``.

    Args:
        columns: the file's columns by the names of its fields, each of length n.
        wanted: which columns are read.
        metadata: the file's metadata.
        position: int64, shape (n,).
        row: int64, shape (n,).
        fields: gives the names of the fields of the record at an index, among which misspelt ones are looked
            for.
        records: whole records, as :data:`RECORD` describes them, n values; None without them.
    """
    length = len(position)
    result: dict[str, pa.Array] = {}
    for name, field in wanted.fields.items():
        if field in columns:
            result[name] = cast_column(name, columns[field], wanted.clock)
    for name, kind in _ALWAYS.items():
        if name not in result and name in wanted.names:
            result[name] = pa.nulls(length, kind)
    # A longer name is none of a study's, and would be in every row.
    names = {
        key: metadata[key][: LONGEST_NAME + 1] for key in (ATTRIBUTE_KEY, SERVICE_KEY) if key in metadata
    }
    given = {
        "attribute": names.get(ATTRIBUTE_KEY, wanted.attribute),
        "service": names.get(SERVICE_KEY, wanted.service),
    }
    for name, value in given.items():
        if name in result and value is not None and result[name].null_count:
            result[name] = result[name].fill_null(value)
        if name in result and result[name].null_count == length:
            del result[name]
    constants = {name: value for name, value in given.items() if value and name not in result}
    constants |= {key: text for key, text in metadata.items() if key in STAMP_KEYS}
    result = without_users(result, wanted, constants.get("attribute"))
    lacking = [wanted.fields[name] for name in wanted.extras if name not in result]
    if lacking and length and fields is not None and (found := meant_fields(lacking, fields(0))):
        constants[MEANT_KEY] = json.dumps(found)
    near = None if fields is None else _near(result, constants, wanted, fields)
    if near is not None:
        result[NEAR] = near
    if records is not None:
        result[RECORD] = records
        constants |= {key: text for key, text in metadata.items() if key in (*ORIGIN_KEYS, WRITER_KEY)}
    result["position"], result["row"] = position, row
    batch = pa.RecordBatch.from_pydict(result)
    return batch.replace_schema_metadata(constants)


def without_users(
    columns: Mapping[str, pa.Array], wanted: Columns, attribute: str | None
) -> dict[str, pa.Array]:
    """Columns of a decoded batch without the user ids of reports to attributes that have no users.

    Args:
        columns: by name.
        wanted: which columns are read.
        attribute: the attribute of all reports, where no column names it.
    """
    kept = dict(columns)
    users = kept.get("user_id")
    if wanted.users is None or users is None:
        return kept
    if not wanted.users:
        del kept["user_id"]
    elif "attribute" in kept:
        named = pc.is_in(kept["attribute"], value_set=pa.array(wanted.users, pa.string()))
        kept["user_id"] = pc.if_else(named, users, pa.scalar(None, users.type))
    elif attribute not in wanted.users:
        kept["user_id"] = pa.nulls(len(users), users.type)
    return kept


def with_most_letters(batch: pa.RecordBatch, reports: int, size: int) -> pa.RecordBatch:
    """A batch of input with ``reports`` in ``size`` bytes: it has at most one dead letter for each few bytes.

    Whole records have schemas beside them, whose bytes are bounded by those of the input, too.
    """
    most = max(1, batch.num_rows * size // reports)
    return batch.replace_schema_metadata({**(batch.schema.metadata or {}), LETTERS_KEY.encode(): str(most)})


def _near(
    columns: Mapping[str, pa.Array],
    constants: Mapping[str, str],
    wanted: Columns,
    fields: Callable[[int], Iterable[str]],
) -> pa.Array | None:
    """The column :data:`NEAR` of a batch, or None if no record has such fields."""
    length = len(columns["payload"])
    missing = {
        name: is_null(columns[name]) if name in columns else np.ones(length, bool)
        for name in (*wanted.needed, "attribute", "service")
        if name not in constants
    }
    return meant(missing, wanted.fields, fields)
