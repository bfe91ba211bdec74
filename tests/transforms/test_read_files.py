"""Files to decoded batches: what is a file of reports, and that however it is split all is read once."""

from __future__ import annotations

import gzip
import io
import json
import os
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from support import fixed_avro
from support.closed import close_folder
from support.encoded import avro_file, parquet_file

from ldpbeam.schemas.encodings import avro_blocks
from ldpbeam.schemas.files import json_lines
from ldpbeam.schemas.reports.columns import Columns
from ldpbeam.transforms.reports.counts import accounting
from ldpbeam.transforms.reports.dead_letters import DEAD, DeadLetter, Disclosure
from ldpbeam.transforms.sources import files
from ldpbeam.transforms.sources.read import file_input, read_range
from ldpbeam.transforms.sources.read_input import _ReadUnit

KINDS = {"user_id": "string", "service": "string", "payload": "double", "colour": "string"}
SCHEMA = {
    "type": "record",
    "name": "Report",
    "fields": [{"name": name, "type": kind} for name, kind in KINDS.items()],
}
USERS = [f"user {i}" for i in range(300)]
RECORDS: list[dict[str, Any]] = [
    {"user_id": user, "service": "maps", "payload": float(number), "colour": "red"}
    for number, user in enumerate(USERS)
]


def avro_bytes(records: list[dict[str, Any]] = RECORDS, codec: str = "deflate") -> bytes:
    return avro_file(SCHEMA, records, codec=codec, sync_interval=200)


def lines(end: str = "\n") -> bytes:
    return "".join(json.dumps(record) + end for record in RECORDS).encode()


def parquet_bytes() -> bytes:
    return parquet_file(pa.Table.from_pylist(RECORDS), row_group_size=70)


def fixed_bytes() -> bytes:
    schema = fixed_avro.fixed_report_schema({"user_id": 8, "service": 4, "colour": 3})
    rows = np.zeros(len(RECORDS), fixed_avro.fixed_dtype(schema))
    rows["payload"] = range(len(RECORDS))
    for name in ("user_id", "service", "colour"):
        text = np.array([record[name].encode() for record in RECORDS])
        rows[name] = text.astype(f"S{rows.dtype[name].itemsize}").view(rows.dtype[name])
    stream = io.BytesIO()
    fixed_avro.write_fixed(stream, rows, schema, {}, bytes(range(200, 216)), block_records=70)
    return stream.getvalue()


FIXED = fixed_bytes()
BLOCK_ENDS = [at + 16 for at in range(len(FIXED)) if FIXED[at : at + 16] == FIXED[-16:]]
FORMATS: dict[str, Callable[[], bytes]] = {
    "avro": avro_bytes, "fixed": fixed_bytes, "jsonl": lines, "parquet": parquet_bytes,
    "jsonl.gz": lambda: gzip.compress(lines()),
}  # fmt: skip


class Read(NamedTuple):
    """What is read of files: rows with their file's name, dead letters, and counts."""

    rows: list[dict[str, Any]]
    dead: list[dict[str, Any]]
    counts: Counter[str]


def read(paths: list[Path], columns: Columns | None = None) -> Read:
    """What workers make of the files."""
    good, bad = files.sniff_all(files.match(list(map(str, paths))))
    return read_files([*good, *bad], columns)


def read_files(those: Sequence[files.ReportFile | files.BadFile], columns: Columns | None = None) -> Read:
    """The same of files that were looked at before."""
    reading = file_input().reading
    worker, into = _ReadUnit(reading, columns or Columns(), Disclosure()), Read([], [], Counter())
    for part in (part for file in those for part in reading.split(file)):
        for item in worker.process(part):
            if isinstance(item, pa.RecordBatch):
                name = item.schema.metadata[b"file"].decode()
                into.rows.extend({**row, "file": name} for row in item.to_pylist())
            elif item.tag == DEAD:
                into.dead.extend(item.value.to_pylist())
            else:
                into.counts[item.value[0]] += item.value[1]
    return into


def sniffed(path: Path, size: int) -> files.ReportFile:
    """What a file of reports is taken for; its identity is left out."""
    file = files.sniff(str(path), size)
    assert isinstance(file, files.ReportFile)
    return file._replace(identity=None)


@pytest.mark.parametrize("pattern", ["*/*.avro", "b/*", "**"])
def test_a_folder_that_may_not_be_read_is_no_empty_one(
    pattern: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.avro").write_bytes(b"{}")
    assert len(files.match([f"{tmp_path}/{pattern}"])) == (1 if pattern == "b/*" else 3)
    close_folder("b", monkeypatch)
    with pytest.raises(FileNotFoundError, match=f"--input: the folder {tmp_path}/b may not be read"):
        files.match([f"{tmp_path}/{pattern}"])
    assert len(files.match([f"{tmp_path}/[ac]/*.avro"])) == 2


@pytest.mark.parametrize("kind", FORMATS)
def test_a_file_is_what_its_first_bytes_say_not_its_name(kind: str, tmp_path: Path) -> None:
    data, path = FORMATS[kind](), tmp_path / "reports.txt"
    path.write_bytes(data)
    assert sniffed(path, len(data)) == files.ReportFile(str(path), len(data), kind.replace("fixed", "avro"))


@pytest.mark.parametrize("data", [b"", b"\n \n", b'  {"user_id": "u"}\n'])
def test_empty_files_and_lines_after_blanks_are_json_lines(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(data)
    assert sniffed(path, len(data)) == files.ReportFile(str(path), len(data), "jsonl")


UNKNOWN = "it starts neither like Avro or Parquet, nor (gzipped or not) with JSON objects"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"# How to\n", UNKNOWN),
        (b"a,b\n1,2\n", UNKNOWN),
        (b"\x89PNG\r\n", UNKNOWN),
        (b'[{"user_id": "u"}]', "it is a JSON array"),
        (json.dumps(RECORDS, indent=1).encode(), "it is a JSON array"),
        (gzip.compress(json.dumps(RECORDS).encode(), mtime=0), "it is a JSON array"),
        (lines().decode().encode("utf-16"), "it is text in UTF-16"),
        (lines().decode().encode("utf-16-le"), "it is text in UTF-16"),
    ],
)
def test_other_files_are_no_files_of_reports(data: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / "README").write_bytes(data)
    file = files.sniff(str(tmp_path / "README"), len(data))
    assert isinstance(file, files.BadFile)
    assert file.problem.startswith(said)


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
        rows = [row for row in got.rows if row["file"] == str(tmp_path / kind)]
        assert sorted(row["payload"] for row in rows) == [record["payload"] for record in RECORDS], kind
        places = {(row["position"], row["row"]) for row in rows}
        assert len(places) == len(RECORDS), "each report's place is its own"
    assert got.counts == {"in": len(FORMATS) * len(RECORDS)}
    assert got.dead == []


def test_a_file_without_a_readable_header_is_one_damaged_file_however_it_is_split(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "RANGE_BYTES", 52)
    (tmp_path / "x").write_bytes(b"Obj\x01" + bytes(100))
    got = read_files([files.ReportFile(str(tmp_path / "x"), 104, "avro")])
    assert sorted((letter["reason"], letter["position"]) for letter in got.dead) == [
        ("bad_file", 0),
        ("bad_file", 52),
    ]
    numbers = accounting(got.counts.items())
    assert (numbers["in"], numbers["dead_letters"], numbers["damaged_files"]) == (2, 2, 1)


def read_after(path: Path, change: Callable[[], object] = lambda: None) -> tuple[int, list[DeadLetter]]:
    """The reports and the dead letters of a file that changed after it was found."""
    os.utime(path, (1_000, 1_000))
    seen = files.sniff(str(path), path.stat().st_size)
    assert isinstance(seen, files.ReportFile), seen
    ranges = list(files.split(seen))
    change()
    items = [item for part in ranges for item in read_range(part, Columns())]
    letters = [item for item in items if isinstance(item, DeadLetter)]
    return sum(item.num_rows for item in items if isinstance(item, pa.RecordBatch)), letters


#: What happens to a file of some bytes after it was found.
CHANGES: dict[str, Callable[[Path, bytes], object]] = {
    "written anew in place": lambda path, data: path.write_bytes(data),
    "written anew in place and longer": lambda path, data: path.write_bytes(data[::-1] + data),
    "another file of its name": lambda path, data: (path.unlink(), path.write_bytes(data)),
    "written anew with its time kept": lambda path, data: (
        path.write_bytes(data[::-1]),
        os.utime(path, (1_000, 1_000)),
    ),
    "deleted": lambda path, data: path.unlink(),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", FORMATS)
def test_nothing_is_read_of_a_file_that_is_another_one_than_was_found(
    kind: str, change: str, tmp_path: Path
) -> None:
    path, data = tmp_path / "x", FORMATS[kind]()
    path.write_bytes(data)
    reports, letters = read_after(path, lambda: CHANGES[change](path, data))
    assert (reports, {letter.reason for letter in letters}) == (0, {"bad_file"})


@pytest.mark.parametrize("kind", ["jsonl", "fixed"])
def test_what_is_appended_is_left_to_the_next_run(kind: str, tmp_path: Path) -> None:
    path, data = tmp_path / "x", FORMATS[kind]()
    path.write_bytes(data)

    def grow() -> None:
        with path.open("ab") as stream:
            stream.write(lines() if kind == "jsonl" else FIXED[BLOCK_ENDS[-2] :])

    assert read_after(path, grow) == (len(RECORDS), [])


@pytest.mark.parametrize(
    ("kind", "lost"),
    # Nothing in a file tells that lines or blocks are missing at its end: its size when it was found does.
    [
        ("jsonl", len(lines())),
        ("jsonl", len(json.dumps(RECORDS[-1])) + 1),
        ("fixed", 7),
        ("fixed", "a block"),
    ],
)
def test_a_file_that_shrinks_after_it_was_found_is_damaged(
    kind: str, lost: int | str, tmp_path: Path
) -> None:
    path, data = tmp_path / "x", FORMATS[kind]()
    path.write_bytes(data)
    size = BLOCK_ENDS[-2] if isinstance(lost, str) else len(data) - lost
    _, letters = read_after(path, lambda: os.truncate(path, size))
    assert letters[-1].detail.startswith(f"it has {size:,} bytes, and had {len(data):,} when it was found")


@pytest.mark.parametrize("kind", ["avro", "fixed", "jsonl"])
def test_a_file_that_is_written_anew_while_it_is_read_is_damaged(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_lines, "CHUNK_BYTES", 100)
    monkeypatch.setattr(avro_blocks, "STEP_BYTES", 100)
    path, data = tmp_path / "x", FORMATS[kind]()
    path.write_bytes(data)
    os.utime(path, (1_000, 1_000))
    file = files.sniff(str(path), len(data))
    assert isinstance(file, files.ReportFile)
    (whole,) = files.split(file)
    reading = read_range(whole, Columns())
    assert isinstance(next(reading), pa.RecordBatch)
    path.write_bytes(data)
    *_, letter = reading
    assert isinstance(letter, DeadLetter)
    assert (letter.reason, letter.detail[:17]) == ("bad_file", "it was rewritten ")


def flushed_gzip() -> bytes:
    """Cut where a line ends, so that what is there is whole: only the missing end of the stream tells."""
    packer = zlib.compressobj(wbits=31)
    return packer.compress(lines()) + packer.flush(zlib.Z_SYNC_FLUSH)


@pytest.mark.parametrize(
    ("data", "reports", "detail"),
    [
        (lines()[:-30], 299, "the file ends inside a line: it was cut short, or is still being written"),
        (gzip.compress(lines(), mtime=0)[:-200], 0, "it ends too early"),
        (flushed_gzip(), 0, "it ends too early"),
        (FIXED[: BLOCK_ENDS[2] + 7], 140, "the file ends inside a block"),
    ],
    ids=["line", "gzip", "gzip where a line ends", "block"],
)
def test_a_file_that_was_cut_short_is_damaged(data: bytes, reports: int, detail: str, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(data)
    read, (letter,) = read_after(tmp_path / "x")
    assert (read, detail in letter.detail) == (reports, True), letter.detail


def test_an_empty_name_is_not_the_folder_in_which_the_program_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"{}")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match="--input '': no file has this name"):
        files.match([""])
