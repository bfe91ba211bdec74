"""JSON lines: split anywhere, and a line that is no record costs only itself."""

from __future__ import annotations

import gzip
import io
from typing import Any, NamedTuple
from unittest import mock

import pyarrow as pa
import pytest

from ldpbeam.schemas.encodings import compression
from ldpbeam.schemas.files import json_lines
from ldpbeam.schemas.files.json_lines import BadLine, decode_lines, read_chunks, read_gzip_chunks
from ldpbeam.schemas.reports.columns import Columns

NEW_YEAR = 1_767_225_600_000
LINE = b'{"user_id":"ann","payload":0.5,"event_time":1767225600000}'
ANN = (b"ann", NEW_YEAR, 0.5)


class Found(NamedTuple):
    rows: dict[int, tuple[Any, Any, Any]]
    bad: dict[int, bytes]


def read(text: bytes, position: int = 0) -> Found:
    """(user, time, payload) by the line's byte offset, and the lines that are none."""
    found = Found({}, {})
    for item in decode_lines(position, text, Columns()):
        if isinstance(item, BadLine):
            assert item.problem
            assert item.position not in found.bad
            found.bad[item.position] = item.data
            continue
        for row in item.to_pylist():
            assert row["position"] not in found.rows
            found.rows[row["position"]] = (row["user_id"], row["event_time"], row["payload"])
    return found


TEXT = b'{"a":1}\r\n\r\n{"a":2}\n\n  \n{"a":\n[3]\n{"user_id":"Zo\xc3\xab"}\n{"last":1}'


def chunks(text: bytes, start: int, stop: int) -> list[bytes]:
    """The lines of a range, from chunks of whole lines at their places."""
    found = []
    for position, chunk in read_chunks(io.BytesIO(text), start, stop):
        assert text[position : position + len(chunk)] == chunk
        assert position == 0 or text[position - 1 : position] == b"\n"
        found += chunk.splitlines(keepends=True)
    return found


@pytest.mark.parametrize("size", [1, 7, 8 * 2**20])
@pytest.mark.parametrize("text", [TEXT, TEXT + b"\n", b"\n\n", b"one line", b""])
def test_ranges_split_anywhere_give_each_line_once(text: bytes, size: int) -> None:
    lines = text.split(b"\n")
    whole = [line + b"\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])
    with mock.patch.object(json_lines, "CHUNK_BYTES", size):
        for cut in range(len(text) + 1):
            assert chunks(text, 0, cut) + chunks(text, cut, len(text)) == whole
        assert [line for at in range(len(text)) for line in chunks(text, at, at + 1)] == whole


@pytest.mark.parametrize("size", [1, 7, 8 * 2**20])
def test_compressed_lines_are_read_whole_with_their_places_in_the_plain_text(size: int) -> None:
    packed = gzip.compress(TEXT[:40]) + gzip.compress(TEXT[40:])
    with mock.patch.object(json_lines, "CHUNK_BYTES", size):
        found = list(read_gzip_chunks(io.BytesIO(packed)))
    assert b"".join(chunk for _, chunk in found) == TEXT
    assert all(TEXT[position:].startswith(chunk) for position, chunk in found)
    assert all(chunk.endswith(b"\n") for _, chunk in found[:-1])


@pytest.mark.parametrize("wrong", ["cut", "damaged"])
def test_a_broken_compressed_stream_gives_no_line(wrong: str) -> None:
    text = b"".join(b'{"user_id":"%d"}\n' % (n**5 % 99991) for n in range(5000))
    packed = bytearray(gzip.compress(text))
    if wrong == "cut":
        del packed[len(packed) // 2 :]
    else:
        packed[len(packed) // 2 :] = b"\xff" * 1000
    found = []
    with (
        mock.patch.object(json_lines, "CHUNK_BYTES", 1000),
        pytest.raises(ValueError, match=r"damaged|too early"),
    ):
        for _, chunk in read_gzip_chunks(io.BytesIO(bytes(packed))):
            found.append(chunk)
    assert found == []


@pytest.mark.parametrize("size", [1, 7, 60])
@pytest.mark.parametrize("packed", [False, True])
def test_an_endless_line_ends_the_reading_where_it_begins(packed: bool, size: int) -> None:
    text = LINE + b"\n" + b"x" * 2000 + b"\n" + LINE
    whole = len(LINE) + 1
    with (
        mock.patch.multiple(json_lines, CHUNK_BYTES=size, MOST_LINE_BYTES=1000),
        mock.patch.object(compression, "PIECE_BYTES", 10),
    ):
        reader = (
            read_gzip_chunks(io.BytesIO(gzip.compress(text)))
            if packed
            else read_chunks(io.BytesIO(text), 0, len(text))
        )
        found = [next(reader)]
        with pytest.raises(ValueError, match=f"more than 1,000 bytes begins at byte {whole} of the text"):
            found += reader
    assert found == [(0, text[:whole])]


def test_a_range_inside_an_endless_line_reads_no_further_than_its_end() -> None:
    text = b"x" * 1000
    stream = io.BytesIO(text)
    with mock.patch.object(json_lines, "CHUNK_BYTES", 10):
        assert list(read_chunks(stream, 300, 400)) == []
    assert stream.tell() < 420


def test_line_ends_blank_lines_and_a_missing_last_one_change_nothing() -> None:
    text = b"\n" + LINE + b"\r\n\r\n \t \n" + b" " * 20 + b"\n" + LINE + b"\n\n" + LINE
    places = [index for index in range(len(text)) if text[index:].startswith(LINE)]
    assert len(places) == 3
    assert read(text) == (dict.fromkeys(places, ANN), {})
    assert read(text, 1000).rows.keys() == {1000 + place for place in places}
    assert read(b"") == read(b"\n\r\n") == ({}, {})


def test_a_byte_order_mark_at_the_start_of_a_file_is_no_part_of_a_line() -> None:
    found = read(b"\xef\xbb\xbf" + LINE + b"\n" + LINE)
    assert (list(found.rows.values()), found.bad) == ([ANN, ANN], {})
    assert read(b"\xef\xbb\xbf") == read(b"\xef\xbb\xbf\n\n") == ({}, {})


BAD_LINES = {
    "cut": b'{"user_id":"bob","payl',
    "array": b'[{"user_id":"bob"}]',
    "number": b"5",
    "text": b'"bob"',
    "null": b"null",
    "two records": LINE + LINE,
    "comma": b'{"user_id":"bob",}',
    "leading zero": b'{"user_id":"bob","payload":01}',
    "quotes": b"{'user_id':'bob'}",
    "control character": b'{"user_id":"b\x01b"}',
    "zero bytes": b"\0\0\0",
    "not UTF-8": b'{"user_id":"b\xffb","payload":0.5,"event_time":1767225600000}',
    "not UTF-8 service": b'{"user_id":"bob","service":"\xff"}',
    "nested": b'{"user_id":' + b"[" * 50_000 + b"]" * 50_000 + b"}",
}


@pytest.mark.parametrize("bad", BAD_LINES.values(), ids=BAD_LINES)
def test_one_bad_line_among_many_costs_only_itself(bad: bytes) -> None:
    lines = [*[LINE] * 77, bad, *[LINE] * 122]
    decoded = read(b"\n".join(lines) + b"\n")
    position = 77 * (len(LINE) + 1)
    assert decoded.bad == {position: bad}
    after = [position + len(bad) + 1 + n * (len(LINE) + 1) for n in range(122)]
    assert decoded.rows == dict.fromkeys([*range(0, position, len(LINE) + 1), *after], ANN)


def test_records_that_are_broken_over_lines_do_not_hide_behind_two_on_one() -> None:
    broken = [LINE, LINE + LINE, b'{"user_id":"bob",', b'"payload":3}', LINE]
    found = read(b"\n".join(broken))
    assert list(found.bad.values()) == broken[1:4]
    assert list(found.rows.values()) == [ANN, ANN]


def test_a_record_that_is_broken_over_lines_has_no_other_line_in_it_however_many_lines_are_none() -> None:
    broken = [b'{"user_id":"eve","payload":9,"x":[', LINE, b'],"y":{"user_id":"eve"}}']
    found = read(b"\n".join([*[b"junk"] * 100, LINE, *broken, LINE, b""]))
    assert list(found.rows.values()) == [ANN] * 3
    assert len(found.bad) == 101


def test_of_very_many_lines_that_look_like_objects_and_are_none_each_group_gives_few() -> None:
    part = b'{"}\n' * 150 + LINE + b"\n"
    found = list(decode_lines(7, part + part + b'{"}', Columns(), [0, len(part)]))
    bad = sorted((item for item in found if isinstance(item, BadLine)), key=lambda line: line.position)
    assert [line.reports for line in bad] == [*[1] * 100, 50, *[1] * 100, 50, 1]
    assert [bad[100].position, bad[-1].position] == [7 + 400, 7 + 2 * len(part)]
    assert bad[100].problem.endswith("nor are 49 lines after it JSON objects")
    assert sum(item.num_rows for item in found if isinstance(item, pa.RecordBatch)) == 2


@pytest.mark.parametrize("lines", [1, 200])
def test_of_a_key_that_stands_twice_the_last_counts(lines: int) -> None:
    text = b'{"user_id":"bob","x":1,"x":2,"user_id":"ann","payload":0.5,"event_time":1767225600000}\n' * lines
    assert list(read(text).rows.values()) == [ANN] * lines


@pytest.mark.parametrize("few", [1, 64])
@pytest.mark.parametrize("kinds", [['"00a0ff"'], ["0.5", '"00A0FF"'], ["null", '"00a0ff"', "1.5"]], ids=len)
def test_lines_of_mixed_payloads_are_few_batches(kinds: list[str], few: int) -> None:
    payloads = [kind for kind in kinds for _ in range(100)] + kinds * 50
    lines = b"\n".join(b'{"payload":%s}' % payload.encode() for payload in payloads)
    with mock.patch.object(json_lines, "FEW_LINES", few):
        batches = list(decode_lines(0, lines, Columns()))
    # Halves of more than so many lines are read again, each as at most two kinds.
    assert len(batches) <= (1 if len(kinds) == 1 else 2 + 4 * len(payloads) // few)
    assert sum(batch.num_rows for batch in batches if isinstance(batch, pa.RecordBatch)) == len(payloads)
