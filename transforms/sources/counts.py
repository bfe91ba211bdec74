"""Files of counts, which are read in the place of reports."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from ldpbeam.errors import UserError, naming
from ldpbeam.schemas.reports.columns import Columns
from ldpbeam.transforms.counted.columns import WINDOW
from ldpbeam.transforms.sources.batch_input import BatchInput, Reading
from ldpbeam.transforms.sources.files import entries_of
from ldpbeam.transforms.storage import open_raw

#: A zone as DuckDB writes it, which RFC 3339 writes with minutes.
_ZONE = r"(:\d\d(?:\.\d+)?[+-]\d\d)$"


def find_counts(names: Sequence[str]) -> BatchInput:
    """The files of counts that some names and globs match.

    Raises:
        UserError: if one matches no file.
    """
    matched = entries_of(names)
    for name, entries in zip(names, matched, strict=True):
        if not entries:
            raise UserError(f"--counts {name}: there is no such file")
    sizes = {entry.path: entry.size for entries in matched for entry in entries}
    return BatchInput(sorted(sizes), Reading(_read), sum(sizes.values()), tuple(names), counts=True)


def _read(path: str, columns: Columns) -> Iterator[pa.RecordBatch]:
    """The rows of a file; of CSV all columns are texts, because digits may be those of bytes.

    Raises:
        UserError: if it is no table.
    """
    with naming(path), open_raw(path) as stream:
        table = pyarrow.parquet.read_table(stream) if path.endswith(".parquet") else _of_csv(stream.read())
    ours = {field: name for name, field in columns.renamed}
    yield from table.rename_columns([ours.get(name, name) for name in table.column_names]).to_batches()


def _of_csv(data: bytes) -> pa.Table:
    names = pyarrow.csv.read_csv(io.BytesIO(data)).column_names
    texts = pyarrow.csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=True
    )
    table = pyarrow.csv.read_csv(io.BytesIO(data), convert_options=texts)
    if WINDOW in names:
        starts = pc.replace_substring_regex(table.column(WINDOW), _ZONE, r"\1:00")
        table = table.set_column(names.index(WINDOW), WINDOW, starts)
    return table
