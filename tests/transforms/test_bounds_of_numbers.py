"""The table of ``docs/limits.md``: what is beyond the most that a client can make is refused."""

from __future__ import annotations

import gzip
import re
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.encoded import arrow_stream
from support.security_page import rows_of, section

import ldpbeam as ldp
from ldpbeam.schemas.encodings import avro, per_byte
from ldpbeam.schemas.encodings.avro import WHOLE_REPORTS
from ldpbeam.schemas.encodings.avro_headers import SYNC_SIZE, write_block, write_header
from ldpbeam.schemas.files import parquet as parquet_files
from ldpbeam.schemas.messages import binary
from ldpbeam.schemas.messages.decode import ARROW, BadMessage, Message, decode_messages
from ldpbeam.schemas.reports.columns import LETTER_BYTES
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.study import MOST_REPORTS
from ldpbeam.transforms.joining.kept import MOST_TIED, PART_REPORTS, Alike, can_be_kept
from ldpbeam.transforms.reports.batches import tagged
from ldpbeam.transforms.reports.counts import BEYOND_MOST
from ldpbeam.transforms.reports.dead_letters import DeadLetter
from ldpbeam.transforms.reports.validation import Validation, wanted_columns
from ldpbeam.transforms.sources.files import match, sniff_all
from ldpbeam.transforms.sources.read import DAMAGE, read_range, split_or_keep

STUDY = parse_study(
    """
study: bounds
attributes:
  x: {domain: {categories: [tea, coffee]}, services: {app: {mechanism: grr, epsilon: 1.0}}}
"""
)
COLUMNS = wanted_columns(STUDY, None, None)
GROUP_BYTES, FEW_GROUPS = parquet_files.GROUP_BYTES, parquet_files.FEW_GROUPS
TABLE = {row[0]: row[1:] for row in rows_of(section("How many a client can make"))}


def decoded(path: Path) -> list[Any]:
    good, bad = sniff_all(match([str(path)]))
    return [
        item for file in [*good, *bad] for part in split_or_keep(file) for item in read_range(part, COLUMNS)
    ]


def outcome(items: list[Any]) -> Counter[str]:
    """How many reports decode, and how many dead letters there are of each reason."""
    found: Counter[str] = Counter()
    for item in items:
        if isinstance(item, DeadLetter | BadMessage):
            found[item.reason] += 1
        else:
            found["decoded"] += item.num_rows
    return found


def number(text: str) -> int:
    """The first number of a cell."""
    return int(re.search(r"[\d,]+", text)[0].replace(",", ""))  # type: ignore[index]


#: Makes input of a number of reports, and gives what is decoded of it; how many the bound permits.
Made = tuple[Callable[[int], list[Any]], int]


def lines(folder: Path, most: int) -> Made:
    path = folder / "in.gz"
    size = 5_000

    def of(count: int) -> list[Any]:
        packed = gzip.compress(b"{}\n" * count, 9)
        # Empty members of gzip fill the file to its size.
        filled = packed + gzip.compress(b"") * ((size - len(packed)) // 20)
        path.write_bytes(filled + bytes(size - len(filled)))
        return decoded(path)

    return of, most * size


def avro_blocks(folder: Path, most: int, width: int = 1, size: int = 2_000) -> Made:
    fields = [{"name": "user_id", "type": "string"}]
    fields += [{"name": f"f{index}", "type": "null"} for index in range(width - 1)]
    schema = {"type": "record", "name": "R", "fields": fields}
    path = folder / "in.avro"

    def of(count: int) -> list[Any]:
        deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
        packed = deflate.compress(bytes(count)) + deflate.flush()
        # Bytes behind the deflated ones are ignored, as other readers ignore them.
        block = packed + bytes(size - SYNC_SIZE - len(packed))
        with path.open("wb") as stream:
            write_header(stream, schema, {}, bytes(range(SYNC_SIZE)), "deflate")
            write_block(stream, count, block, bytes(range(SYNC_SIZE)))
        return decoded(path)

    return of, most * size // (1 if width == 1 else width + 1)


def parquet(folder: Path, most: int) -> Made:
    path = folder / "in.parquet"
    padding = pa.array([np.random.default_rng(1).bytes(10_000)])

    def of(count: int) -> list[Any]:
        table = pa.table({"user_id": pa.nulls(count, pa.int32()), "p": pa.repeat(padding[0], count)})
        pq.write_table(table, path, store_schema=False)
        return decoded(path)

    of(1)
    most_rows = most * path.stat().st_size
    of(most_rows)
    return of, most * path.stat().st_size


def arrow(folder: Path, most: int) -> Made:
    def message(count: int) -> bytes:
        return arrow_stream(pa.record_batch({"user_id": pa.nulls(count, pa.null())}))

    def of(count: int) -> list[Any]:
        return list(decode_messages([Message("1", message(count), ARROW)], COLUMNS))

    return of, most * len(message(1))


BOUNDS: dict[str, tuple[Any, int]] = {
    "lines of gzipped JSON lines": (lines, per_byte.OF_LINES),
    "reports of Avro, of any codec": (avro_blocks, per_byte.OF_RECORDS),
    "reports of Parquet, of any codec and encoding": (parquet, per_byte.OF_COLUMNS),
    "reports of an Arrow message": (arrow, per_byte.OF_COLUMNS),
    "values of Avro records, and of Parquet columns that are read": (
        lambda folder, most: avro_blocks(folder, most, width=500),
        per_byte.VALUES,
    ),
}


#: The rows that have a test of their own.
OTHERS = (
    "dead letters of reports that decode",
    "row groups of Parquet",
    "reports of a user that come first together, which are looked at",
    "reports of a user that count, where several do",
    "reports of a shard that are compared at once",
)


@pytest.mark.parametrize("row", BOUNDS)
def test_what_is_within_the_bound_is_read_and_one_more_is_refused(row: str, tmp_path: Path) -> None:
    at_most, beyond, _ = TABLE[row]
    make, most = BOUNDS[row]
    assert number(at_most) == most
    of, bound = make(tmp_path, number(at_most))
    assert outcome(of(bound)) == {"decoded": bound}
    assert outcome(of(bound + 1)) == {"too_many_reports": 1}
    assert "too_many_reports" in beyond and "too_many_reports" in DAMAGE


@pytest.mark.parametrize("width, most", [(1, per_byte.OF_RECORDS / 2), (9, per_byte.VALUES / 2 / (9 + 1))])
def test_a_block_that_is_decoded_twice_has_half_as_much(
    width: int, most: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert f"A block of Avro with more than {WHOLE_REPORTS:,} records" in section(
        "How many a client can make"
    )
    monkeypatch.setattr(avro, "WHOLE_REPORTS", 100)
    of, _ = avro_blocks(tmp_path, 0, width, size=100)
    assert outcome(of(int(100 * most))) == {"decoded": int(100 * most)}
    assert outcome(of(int(100 * most) + 1)) == {"too_many_reports": 1}
    of, _ = avro_blocks(tmp_path, 0, width, size=int(90 / most))
    assert outcome(of(100)) == {"decoded": 100}


def test_an_arrow_message_has_no_more_reports_than_fit_into_memory() -> None:
    assert f"{binary.MOST_REPORTS:,}" in TABLE["reports of an Arrow message"][0]


@pytest.mark.parametrize("kind", ["avro", "parquet", "arrow"])
def test_a_byte_makes_one_dead_letter_and_all_reports_are_counted(kind: str, tmp_path: Path) -> None:
    assert TABLE["dead letters of reports that decode"][0].startswith(f"1 for each {LETTER_BYTES} bytes")
    make, most = {"avro": (avro_blocks, per_byte.OF_RECORDS), "parquet": (parquet, 8), "arrow": (arrow, 8)}[
        kind
    ]
    of, bound = make(tmp_path, most)
    kept = of(bound)
    letters = [part for batch in kept for part in Validation(STUDY).validate(batch).letters]
    assert sum(part.column("reports").to_numpy().sum() for part in letters) == bound
    singles = sum(part.num_rows for part in letters)
    letters_of = LETTER_BYTES * most
    # The schema is a part of the bytes that came.
    assert bound // (2 * letters_of) < singles <= 1.1 * bound // letters_of + len(kept)


def test_row_groups_beyond_the_bytes_of_a_file_are_refused(tmp_path: Path) -> None:
    assert (
        TABLE["row groups of Parquet"][0] == f"1 for each {GROUP_BYTES:,} bytes of the file, and {FEW_GROUPS}"
    )
    found = {}
    for groups in (100, 400):
        path = tmp_path / f"{groups}.parquet"
        pq.write_table(pa.table({"user_id": ["u"] * groups}), path, row_group_size=1, store_schema=False)
        found[groups > FEW_GROUPS + path.stat().st_size // GROUP_BYTES] = outcome(decoded(path))
    assert found == {False: {"decoded": 100}, True: {"too_many_reports": 1}}


def test_a_user_has_no_more_reports_that_are_looked_at() -> None:
    assert number(TABLE["reports of a user that come first together, which are looked at"][0]) == MOST_TIED
    rows = 5 * MOST_TIED
    columns = {
        "user": pa.repeat(pa.scalar(b"u", pa.binary()), rows),
        "event_time": pa.array(np.zeros(rows, dtype=np.int64)),
        "payload": pa.array(np.arange(rows) % 2),
    }
    batch = tagged(pa.RecordBatch.from_pydict(columns), "x", 0)
    assert can_be_kept(batch, Alike()).num_rows == MOST_TIED


def test_no_more_reports_of_a_user_count() -> None:
    at_most, beyond, _ = TABLE["reports of a user that count, where several do"]
    study = parse_study(f"{STUDY.text[:-1]}, repeats: all}}")
    reports = [{"user_id": "u", "report_id": row, "payload": 0} for row in range(MOST_REPORTS + 5)]
    with pytest.warns(UserWarning, match="raise most_reports"):
        counts = ldp.estimate(study, pa.Table.from_pylist(reports)).counts
    assert number(at_most) == counts["used"] == MOST_REPORTS
    assert counts["duplicates"] == counts[BEYOND_MOST] == 5
    assert f"`{BEYOND_MOST}`" in beyond


def test_a_partition_is_compared_in_parts() -> None:
    assert number(TABLE["reports of a shard that are compared at once"][0]) == PART_REPORTS


def test_every_row_of_reports_has_a_test() -> None:
    # The other rows are those of tests/pipelines/test_published.py.
    assert {*BOUNDS, *OTHERS} == {*list(TABLE)[:10]}
