"""What DuckDB is asked of the rows of the ledger over periods, which may be more than fit into memory.

Rows come and go as Arrow batches. So DuckDB opens no file but those it spills to, and no value of a row, no
name and no path is a part of a query.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from ldpbeam.errors import UserError
from ldpbeam.interrupts import sigterm_is_ctrl_c
from ldpbeam.schemas.outputs.ledger_format import RECEIVED_SCHEMA, sums_schema
from ldpbeam.spent import services_of
from ldpbeam.study import Study
from ldpbeam.temporary import temporary_folder

Rows = Iterable[pa.RecordBatch]

#: What DuckDB holds in memory at most, besides the batches that come and go.
MEMORY = "512MB"
#: One thread, and nothing from anywhere: no extension, no secret, no variable of Python.
SETTINGS: Mapping[str, Any] = {
    "threads": 1,
    "preserve_insertion_order": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_persistent_secrets": False,
    "python_enable_replacements": False,
}
#: At most how many rows of an answer come at once.
ANSWER_ROWS = 2**18
_COLUMNS = ", ".join(f'"{name}"' for name in RECEIVED_SCHEMA.names)
#: In the order of users, files are half as large where a user has many rows.
_FIRST_RECEIVED = (
    f"SELECT DISTINCT {_COLUMNS} FROM parts ANTI JOIN others USING ({_COLUMNS}) ORDER BY high, low"
)
_WITH_PERIOD = RECEIVED_SCHEMA.append(pa.field("period", pa.int64()))


def check_duckdb() -> Any:
    """Import DuckDB.

    Raises:
        UserError: if it is not installed.
    """
    try:
        import duckdb
    except ImportError:
        raise UserError(
            "the ledger over periods (ledger: in the study) needs DuckDB: pip install 'ldpbeam[ledger]'"
        ) from None
    return duckdb


def first_received(parts: Sequence[Rows], others: Sequence[Rows] = ()) -> Iterator[pa.RecordBatch]:
    """The rows of all parts, each once, without those that others have."""
    chained = (itertools.chain.from_iterable(rows) for rows in (parts, others))
    return _answer(
        _FIRST_RECEIVED, dict(zip(("parts", "others"), ((RECEIVED_SCHEMA, r) for r in chained), strict=True))
    )


def reports_of_users(
    study: Study, more: Sequence[Rows], less: Sequence[Rows] = (), sums: Rows = ()
) -> Iterator[pa.RecordBatch]:
    """How many distinct reports each user sent to each service in each period: rows of a file of sums.

    Args:
        study: the study, which has a ledger over periods.
        more: received reports, those of each file; a report that is in several of them counts once.
        less: received reports that no longer count, as they were counted before.
        sums: what was counted before.
    """
    schema = sums_schema(len(services_of(study)))
    counts = schema.names[3:]
    selected = [f"SELECT high, low, period, {', '.join(counts)} FROM sums"]
    for name, sign, rows in (("more", "", more), ("less", "-", less)):
        signed = ", ".join(f"{sign}CAST(service = {i} AS BIGINT)" for i in range(len(counts)))
        # The rows of one file are distinct.
        distinct = "DISTINCT " if len(rows) > 1 else ""
        selected.append(f"SELECT high, low, period, {signed} FROM (SELECT {distinct}* FROM {name})")
    summed = ", ".join(f"CAST(sum({name}) AS BIGINT) AS {name}" for name in counts)
    some = " OR ".join(f"sum({name}) <> 0" for name in counts)
    query = (
        f"SELECT high, low, period, {summed} FROM ({' UNION ALL '.join(selected)}) "
        f"GROUP BY high, low, period HAVING {some}"
    )
    sources = {"sums": (schema, sums)}
    sources |= {
        name: (_WITH_PERIOD, _with_periods(study, rows)) for name, rows in (("more", more), ("less", less))
    }
    return _answer(query, sources)


def _with_periods(study: Study, parts: Sequence[Rows]) -> Iterator[pa.RecordBatch]:
    """The rows of all parts, with the start of the period of each."""
    assert study.ledger is not None
    periods = study.ledger.periods
    for batch in itertools.chain.from_iterable(parts):
        starts = periods.starts(periods.numbers(batch["window"].to_numpy()))
        yield pa.RecordBatch.from_arrays([*batch.columns, pa.array(starts)], schema=_WITH_PERIOD)


def _answer(query: str, sources: dict[str, tuple[pa.Schema, Rows]]) -> Iterator[pa.RecordBatch]:
    """The rows that a query gives.

    Args:
        query: the query, in which a source is a table.
        sources: the schema and the rows of each source, by its name; each is read once.

    Raises:
        UserError: if DuckDB is missing, a disk is full, or a source raises it.
    """
    duckdb = check_duckdb()
    failed: list[BaseException] = []
    with sigterm_is_ctrl_c(), temporary_folder() as folder:
        config = {**SETTINGS, "memory_limit": MEMORY, "temp_directory": str(folder)}
        with duckdb.connect(":memory:", config=config) as connection:
            connection.execute("SET enable_progress_bar = false")
            for name, (schema, rows) in sources.items():
                reader = pa.RecordBatchReader.from_batches(schema, _heard(rows, failed))
                connection.register(name, reader)
            try:
                yield from connection.sql(query).to_arrow_reader(ANSWER_ROWS)
            except (duckdb.Error, pa.ArrowException, OSError) as error:
                if failed:
                    raise failed[0] from None
                reason = str(error).partition("\n")[0]
                raise UserError(
                    f"the ledger could not be added up, with temporary files in {folder.parent}: {reason}"
                ) from None


def _heard(rows: Rows, failed: list[BaseException]) -> Iterator[pa.RecordBatch]:
    """The rows; the error of one who gives them is kept, because DuckDB makes it a text."""
    try:
        yield from rows
    except BaseException as error:
        failed.append(error)
        raise
