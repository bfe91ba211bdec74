"""The tables of estimates as CSV, harmless in a spreadsheet."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.csv

from ldpbeam.schemas.outputs.records import EstimateRecord
from ldpbeam.schemas.outputs.tables import ESTIMATES_AT_ONCE, estimate_rows, share_rows
from ldpbeam.untrusted import shown

#: The functions that make a table of records, by its name.
TABLES = {"estimates": estimate_rows, "distribution": share_rows}
#: A spreadsheet takes a text that begins so (in full width, too) for a formula. An apostrophe goes before it,
#: and before a text that begins with one: taking off the first apostrophe restores every text.
_FORMULA = re.compile("['=+\\-@\uff1d\uff0b\uff0d\uff20]")


def csv_of(name: str, records: Sequence[EstimateRecord]) -> Iterator[str]:
    """The text of a table as CSV, part by part: a line of names, and a line per row.

    Args:
        name: ``estimates`` or ``distribution``.
        records: the estimates.
    """
    rows = TABLES[name]
    for start in range(0, max(len(records), 1), ESTIMATES_AT_ONCE):
        table = rows(records[start : start + ESTIMATES_AT_ONCE])
        columns = {column: _column(table[column]) for column in table.column_names}
        text = io.BytesIO()
        options = pa.csv.WriteOptions(include_header=start == 0)
        pa.csv.write_csv(pa.table(columns), text, options)
        yield text.getvalue().decode()


def harmless(text: str) -> str:
    """A text that no spreadsheet takes for a formula, and no terminal for a command."""
    text = shown(text)
    return f"'{text}" if _FORMULA.match(text) else text


def _column(column: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    """A column as CSV holds it: texts are harmless, and lists are JSON."""
    kind = column.type
    if pa.types.is_nested(kind):
        values = column.to_pylist()
        return pa.array([None if value is None else json.dumps(value) for value in values], pa.string())
    if pa.types.is_dictionary(kind):
        column, kind = column.cast(kind.value_type), kind.value_type
    if not pa.types.is_string(kind):
        return column
    different = column.dictionary_encode().combine_chunks()
    texts = pa.array([harmless(text) for text in different.dictionary.to_pylist()], pa.string())
    return texts.take(different.indices)
