"""Files to decoded batches: what is a file of reports, and that however it is split all is read once."""

from __future__ import annotations

import gzip
import io
import json
import os
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import apache_beam as beam
import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.testing import test_pipeline
from apache_beam.testing.util import assert_that

from ldpbeam.runners import direct
from ldpbeam.schemas.encodings import avro
from ldpbeam.schemas.files import avro_blocks, json_lines
from ldpbeam.schemas.reports.columns import Columns
from ldpbeam.transforms.reports.counts import COUNTS, accounting
from ldpbeam.transforms.reports.dead_letters import DEAD, DeadLetter, Disclosure
from ldpbeam.transforms.sources import files
from ldpbeam.transforms.sources.read import ReadReports, read_range

KINDS = {"user_id": "string", "service": "string", "payload": "double", "colour": "string"}
SCHEMA = {
    "type": "record",
    "name": "Report",
    "fields": [{"name": name, "type": kind} for name, kind in KINDS.items()],
}
USERS = [f"user {i}" for i in range(300)]
RECORDS: list[dict[str, Any]] = [
    {"user_id": user, "service": "maps", "payload": float(place), "colour": "red"}
    for place, user in enumerate(USERS)
]


def avro_bytes(records: list[dict[str, Any]] = RECORDS, codec: str = "deflate") -> bytes:
    stream = io.BytesIO()
    fastavro.writer(stream, SCHEMA, records, codec=codec, sync_interval=200)
    return stream.getvalue()


def lines(end: str = "\n") -> bytes:
    return "".join(json.dumps(record) + end for record in RECORDS).encode()


def parquet_bytes() -> bytes:
    stream = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(RECORDS), stream, row_group_size=70)
    return stream.getvalue()


def fixed_bytes() -> bytes:
    schema = avro.fixed_report_schema({"user_id": 8, "service": 4, "colour": 3})
    rows = np.zeros(len(RECORDS), avro.fixed_dtype(schema))
    rows["payload"] = range(len(RECORDS))
    for name in ("user_id", "service", "colour"):
        text = np.array([record[name].encode() for record in RECORDS])
        rows[name] = text.astype(f"S{rows.dtype[name].itemsize}").view(rows.dtype[name])
    stream = io.BytesIO()
    avro.write_fixed(stream, rows, schema, {}, bytes(range(200, 216)), block_records=70)
    return stream.getvalue()


FORMATS: dict[str, Callable[[], bytes]] = {
    "avro": avro_bytes,
    "fixed": fixed_bytes,
    "jsonl": lines,
    "parquet": parquet_bytes,
    "jsonl.gz": lambda: gzip.compress(lines()),
}


# Beam pickles functions: only those of a module, with the module's own variables, bring something back.
GOT: dict[str, list[Any]] = {}


def keep(name: str, found: list[Any]) -> None:
    GOT[name] = found


def read(paths: list[Path], columns: Columns | None = None) -> dict[str, list[Any]]:
    """What is read: batches' rows (with the file's name), dead letters, and counts."""
    return read_files(*files.sniff_all(files.match(list(map(str, paths)))), columns)


def read_files(good: Any, bad: Any, columns: Columns | None = None) -> dict[str, list[Any]]:
    """The same, of files that were looked at before."""
    GOT.clear()
    with test_pipeline.TestPipeline(runner=direct.runner()) as pipeline:
        out = pipeline | ReadReports(good, bad, columns or Columns(), Disclosure())
        rows = out.decoded | beam.FlatMap(
            lambda b: [{**row, "file": b.schema.metadata[b"file"].decode()} for row in b.to_pylist()]
        )
        assert_that(rows, partial(keep, "rows"), "rows")
        assert_that(out[DEAD] | "D" >> beam.FlatMap(lambda b: b.to_pylist()), partial(keep, "dead"), "dead")
        assert_that(out[COUNTS] | beam.CombinePerKey(sum), partial(keep, "counts"), "counts")
    return GOT


def sniffed(path: Path, size: int) -> files.ReportFile:
    """What a file of reports is found to be; its identity is left out."""
    found = files.sniff(str(path), size)
    assert isinstance(found, files.ReportFile)
    return found._replace(identity=None)


def test_patterns_name_each_file_once_in_order(tmp_path: Path) -> None:
    for name in ("b.avro", "a.avro", "c.jsonl"):
        (tmp_path / name).write_bytes(b"{}")
    patterns = [f"{tmp_path}/*.avro", f"{tmp_path}/b*", f"{tmp_path}/c.jsonl"]
    assert files.match(patterns) == [(f"{tmp_path}/{name}", 2) for name in ("a.avro", "b.avro", "c.jsonl")]


@pytest.mark.parametrize("kind", FORMATS)
def test_a_file_is_what_its_first_bytes_say_not_its_name(kind: str, tmp_path: Path) -> None:
    data, path = FORMATS[kind](), tmp_path / "reports.txt"
    path.write_bytes(data)
    assert sniffed(path, len(data)) == files.ReportFile(str(path), len(data), kind.replace("fixed", "avro"))


@pytest.mark.parametrize("data", [b"PAR1" + bytes(100), b"Obj\x01" + bytes(100)], ids=["parquet", "avro"])
def test_what_a_copy_that_was_cut_short_leaves_is_no_file_of_reports(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(data)
    assert isinstance(files.sniff(str(tmp_path / "x"), len(data)), files.BadFile)


@pytest.mark.parametrize("data", [b"", b"\n \n", b'  {"user_id": "u"}\n'])
def test_empty_files_and_lines_after_blanks_are_json_lines(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(data)
    assert sniffed(path, len(data)) == files.ReportFile(str(path), len(data), "jsonl")


@pytest.mark.parametrize("data", [b"# How to\n", b"a,b\n1,2\n", b'[{"user_id": "u"}]', b"\x89PNG\r\n"])
def test_other_files_are_no_files_of_reports(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "README").write_bytes(data)
    found = files.sniff(str(tmp_path / "README"), len(data))
    assert isinstance(found, files.BadFile)
    assert "neither like Avro or Parquet, nor (gzipped or not) with JSON objects" in found.problem


def test_a_damaged_first_line_does_not_make_a_file_none(tmp_path: Path) -> None:
    data = b"user_id: garbage\n" + lines()
    (tmp_path / "x").write_bytes(data)
    assert sniffed(tmp_path / "x", len(data)) == files.ReportFile(str(tmp_path / "x"), len(data), "jsonl")


@pytest.mark.parametrize("size", [0, 1, 99, 100, 101, 250])
def test_ranges_cover_a_file_once(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "RANGE_BYTES", 100)
    for kind in ("avro", "jsonl"):
        ranges = list(files.split(files.ReportFile("p", size, kind)))
        assert [byte for part in ranges for byte in range(part.start, part.stop)] == list(range(size))
        assert all(part.stop - part.start <= 100 and part.size == size for part in ranges)
    assert [part[2:5] for part in files.split(files.ReportFile("p", size, "jsonl.gz"))] == [(0, size, size)]


def test_parquet_is_split_by_row_group(tmp_path: Path) -> None:
    size = (tmp_path / "p").write_bytes(parquet_bytes())
    ranges = list(files.split(files.ReportFile(str(tmp_path / "p"), size, "parquet")))
    assert [part[2:5] for part in ranges] == [(k, k + 1, size) for k in range(5)]


# Ranges shorter than a line, than a block, than the header, and as long as a file.
@pytest.mark.parametrize("size", [23, 64, 1000, 2**20])
def test_every_report_is_read_once_however_files_are_split(
    size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "RANGE_BYTES", size)
    for kind, data in FORMATS.items():
        (tmp_path / kind).write_bytes(data())
    got = read([tmp_path / "*"])
    for kind in FORMATS:
        rows = [row for row in got["rows"] if row["file"] == str(tmp_path / kind)]
        assert sorted(row["payload"] for row in rows) == [record["payload"] for record in RECORDS], kind
        places = {(row["position"], row["row"]) for row in rows}
        assert len(places) == len(RECORDS), "each report's place is its own"
    assert got["counts"] == [("in", len(FORMATS) * len(RECORDS))]
    assert got["dead"] == []


def test_a_place_says_where_the_report_stands(tmp_path: Path) -> None:
    (tmp_path / "l").write_bytes(lines())
    (tmp_path / "p").write_bytes(parquet_bytes())
    fixed = fixed_bytes()
    (tmp_path / "f").write_bytes(fixed)
    ends = [at for at in range(len(fixed)) if fixed[at : at + 16] == fixed[-16:]]
    got = read([tmp_path / "l", tmp_path / "p", tmp_path / "f"])
    offset, at = {}, 0
    for line, user in zip(lines().splitlines(keepends=True), USERS, strict=True):
        offset[user.encode()] = at
        at += len(line)
    for row in got["rows"]:
        if row["file"].endswith("l"):
            assert (row["position"], row["row"]) == (offset[row["user_id"]], 0)
            continue
        block, place = divmod(row["payload"], 70)
        position = ends[int(block)] + 16 if row["file"].endswith("f") else block
        assert (row["position"], row["row"]) == (position, place)


def test_line_ends_and_blank_lines_do_not_matter(tmp_path: Path) -> None:
    for place, data in enumerate([lines("\r\n"), lines("\n\n  \n"), lines()[:-1]]):
        (tmp_path / f"x{place}").write_bytes(data)
    got = read([tmp_path / "x*"])
    found = sorted(row["payload"] for row in got["rows"])
    assert found == sorted(3 * [record["payload"] for record in RECORDS])
    assert got["dead"] == []


def test_a_file_without_a_readable_header_is_one_damaged_file_however_it_is_split(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "RANGE_BYTES", 52)
    (tmp_path / "x").write_bytes(b"Obj\x01" + bytes(100))
    got = read_files([files.ReportFile(str(tmp_path / "x"), 104, "avro")], [])
    assert sorted((letter["reason"], letter["position"]) for letter in got["dead"]) == [
        ("bad_file", 0),
        ("bad_file", 52),
    ]
    found = accounting(got["counts"])
    assert (found["in"], found["dead_letters"], found["damaged_files"]) == (2, 2, 1)


def test_only_the_columns_that_matter_are_read(tmp_path: Path) -> None:
    for kind, data in FORMATS.items():
        (tmp_path / kind).write_bytes(data())
    own = {"user_id", "service", "event_time", "payload", "position", "row", "file"}
    paths = [tmp_path / kind for kind in FORMATS]
    assert {frozenset(row) for row in read(paths)["rows"]} == {frozenset(own)}
    with_extra = read(paths, Columns(extras=("colour",)))["rows"]
    assert {frozenset(row) for row in with_extra} == {frozenset(own | {"colour"})}
    assert {row["colour"] for row in with_extra} == {"red"}


@pytest.mark.parametrize("size", [50, 400, 2**20])
def test_a_corrupt_block_is_one_dead_letter_however_the_file_is_split(
    size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "RANGE_BYTES", size)
    data = bytearray(avro_bytes(codec="null"))
    sync = bytes(data[-16:])
    ends = [at for at in range(len(data)) if data[at : at + 16] == sync]
    # The marker behind the third block is damaged: that block is lost, the one behind it can be told.
    data[ends[3]] ^= 0xFF
    path = tmp_path / "reports"
    path.write_bytes(bytes(data))
    got = read([path])
    (letter,) = got["dead"]
    lost = [block.num_records for block in fastavro.block_reader(io.BytesIO(avro_bytes(codec="null")))][2]
    assert (letter["position"], letter["reason"], letter["reports"]) == (ends[2] + 16, "corrupt_block", lost)
    assert len(got["rows"]) == len(RECORDS) - lost
    assert dict(got["counts"]) == {
        "in": len(RECORDS),
        "dead_letters": lost,
        "dead_letters_by_reason/corrupt_block": lost,
        f"damaged_file/{path}": 1,
    }


def test_a_corrupt_row_group_is_one_dead_letter_and_the_others_are_read(tmp_path: Path) -> None:
    path = tmp_path / "reports"
    table = pa.Table.from_pylist(RECORDS)
    pq.write_table(table, path, row_group_size=70, use_dictionary=False, compression="gzip")
    data = bytearray(path.read_bytes())
    start = pq.ParquetFile(path).metadata.row_group(1).column(0).data_page_offset
    data[start + 40 : start + 80] = bytes(40)
    path.write_bytes(data)
    got = read([path])
    (letter,) = got["dead"]
    assert (letter["reason"], letter["position"], letter["reports"]) == ("corrupt_block", 1, 70)
    assert "it does not decode" in letter["detail"]
    assert len(got["rows"]) == len(RECORDS) - 70


@pytest.mark.parametrize("kind", ["avro", "jsonl"])
def test_a_file_that_is_cut_while_it_is_read_is_damaged(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_lines, "CHUNK_BYTES", 100)
    monkeypatch.setattr(avro_blocks, "STEP_BYTES", 100)
    monkeypatch.setattr(files, "RANGE_BYTES", 5_000)
    path = tmp_path / "x"
    data = avro_bytes(codec="null") if kind == "avro" else lines()
    path.write_bytes(data)
    first, second, *_ = files.split(files.ReportFile(str(path), len(data), kind))
    reading = read_range(first, Columns())
    assert next(reading).num_rows
    # What a rotated log leaves: the file is there, and has nothing in it any more.
    os.truncate(path, 0)
    *_, letter = reading
    assert isinstance(letter, DeadLetter)
    assert (letter.reason, letter.detail[:15]) == ("bad_file", "it has 0 bytes,")
    (letter,) = read_range(second, Columns())
    assert isinstance(letter, DeadLetter)
    assert letter.reason == "bad_file"


#: What happens to a file of some bytes after it was found, and whether it is another one then.
CHANGES: dict[str, tuple[Callable[[Path, bytes], object], bool]] = {
    "nothing": (lambda path, data: None, False),
    "written anew in place": (lambda path, data: path.write_bytes(data), True),
    "written anew in place and longer": (lambda path, data: path.write_bytes(data[::-1] + data), True),
    "another file of its name": (lambda path, data: (path.unlink(), path.write_bytes(data)), True),
    "written anew with its time kept": (
        lambda path, data: (path.write_bytes(data[::-1]), os.utime(path, (1_000, 1_000))),
        True,
    ),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", FORMATS)
def test_no_range_of_a_file_is_read_that_was_written_anew_since_it_was_found(
    kind: str, change: str, tmp_path: Path
) -> None:
    path, data = tmp_path / "x", FORMATS[kind]()
    path.write_bytes(data)
    os.utime(path, (1_000, 1_000))
    found = files.sniff(str(path), len(data))
    assert isinstance(found, files.ReportFile)
    (first, *_) = files.split(found)
    make, other = CHANGES[change]
    make(path, data)
    items = list(read_range(first, Columns()))
    letters = [item for item in items if isinstance(item, DeadLetter)]
    assert [letter.reason for letter in letters] == (["bad_file"] if other else [])
    assert len(items) == len(letters) or not other


@pytest.mark.parametrize("kind", ["avro", "fixed", "jsonl"])
def test_a_file_that_is_written_anew_while_it_is_read_is_damaged(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_lines, "CHUNK_BYTES", 100)
    monkeypatch.setattr(avro_blocks, "STEP_BYTES", 100)
    path, data = tmp_path / "x", FORMATS[kind]()
    path.write_bytes(data)
    os.utime(path, (1_000, 1_000))
    found = files.sniff(str(path), len(data))
    assert isinstance(found, files.ReportFile)
    (whole,) = files.split(found)
    reading = read_range(whole, Columns())
    assert isinstance(next(reading), pa.RecordBatch)
    path.write_bytes(data)
    *_, letter = reading
    assert isinstance(letter, DeadLetter)
    assert (letter.reason, letter.detail[:20]) == ("bad_file", "it was written anew ")


def test_what_is_appended_does_not_make_it_another_file(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(lines())
    found = files.sniff(str(path), len(lines()))
    assert isinstance(found, files.ReportFile)
    with path.open("ab") as stream:
        stream.write(lines())
    (whole,) = files.split(found)
    assert sum(item.num_rows for item in read_range(whole, Columns())) == len(RECORDS)


def read_after(path: Path, change: Callable[[], object] = lambda: None) -> tuple[int, list[DeadLetter]]:
    """The reports and the dead letters of a file that changed after it was found."""
    found = files.sniff(str(path), path.stat().st_size)
    assert isinstance(found, files.ReportFile), found
    ranges = list(files.split(found))
    change()
    items = [item for part in ranges for item in read_range(part, Columns())]
    letters = [item for item in items if isinstance(item, DeadLetter)]
    return sum(item.num_rows for item in items if isinstance(item, pa.RecordBatch)), letters


def flushed_gzip() -> bytes:
    """Cut where a line ends, so that what is there is whole: only the missing end of the stream tells."""
    packer = zlib.compressobj(wbits=31)
    return packer.compress(lines()) + packer.flush(zlib.Z_SYNC_FLUSH)


FIXED = fixed_bytes()
BLOCK_ENDS = [at + 16 for at in range(len(FIXED)) if FIXED[at : at + 16] == FIXED[-16:]]


@pytest.mark.parametrize(
    ("data", "reports", "detail"),
    [
        (lines()[:-30], 299, "the file ends inside a line: it was cut short, or is still being written"),
        (gzip.compress(lines())[:-200], 0, "it ends too early"),
        (flushed_gzip(), 0, "it ends too early"),
        (FIXED[: BLOCK_ENDS[2] + 7], 140, "the file ends inside a block"),
    ],
    ids=["line", "gzip", "gzip where a line ends", "block"],
)
def test_a_file_that_was_cut_short_is_damaged(data: bytes, reports: int, detail: str, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(data)
    read, (letter,) = read_after(tmp_path / "x")
    assert (read, detail in letter.detail) == (reports, True), letter.detail


@pytest.mark.parametrize(
    ("kind", "size"),
    # Nothing in a file tells that lines or blocks are missing at its end: its size when it was found does.
    [
        ("jsonl", 0),
        ("jsonl", 1),
        ("jsonl", len(lines()[: lines().index(b"user 150")]) - len(b'{"user_id": "')),
        ("fixed", BLOCK_ENDS[2] + 7),
        ("fixed", BLOCK_ENDS[2]),
    ],
)
def test_a_file_that_shrinks_after_it_was_found_is_damaged(kind: str, size: int, tmp_path: Path) -> None:
    path, data = tmp_path / "x", FORMATS[kind]()
    path.write_bytes(data)
    _, letters = read_after(path, lambda: os.truncate(path, size))
    assert letters[-1].detail.startswith(f"it has {size:,} bytes, and had {len(data):,} when it was found")


@pytest.mark.parametrize("kind", FORMATS)
def test_a_file_that_is_deleted_after_it_was_found_is_damaged(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(FORMATS[kind]())
    read, (letter, *_) = read_after(path, path.unlink)
    assert (read, letter.reason) == (0, "bad_file")
    assert "No such file or directory" in letter.detail


def test_blocks_that_are_appended_are_left_to_the_next_run(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(FIXED)

    def grow() -> None:
        with path.open("ab") as stream:
            stream.write(FIXED[BLOCK_ENDS[-2] :])

    assert read_after(path, grow) == (len(RECORDS), [])


def test_avro_of_something_else_is_a_dead_letter(tmp_path: Path) -> None:
    stream = io.BytesIO()
    fastavro.writer(stream, {"type": "array", "items": "long"}, [[1, 2], [3]])
    (tmp_path / "x").write_bytes(stream.getvalue())
    read, (letter,) = read_after(tmp_path / "x")
    assert (read, letter.reason, letter.reports) == (0, "corrupt_block", 2)


def test_of_gzip_that_fails_its_checksum_no_line_is_handed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each chunk of lines is handed on before the next one is decompressed.
    monkeypatch.setattr(json_lines, "CHUNK_BYTES", 1000)
    packed = gzip.compress(lines(), mtime=0)
    path = tmp_path / "x"
    for at in range(len(packed) - 60, len(packed)):
        path.write_bytes(packed[:at] + bytes([packed[at] ^ 1]) + packed[at + 1 :])
        (part,) = files.split(files.ReportFile(str(path), len(packed), "jsonl.gz"))
        (letter,) = read_range(part, Columns())
        assert isinstance(letter, DeadLetter)
        assert letter.reason == "bad_file"
