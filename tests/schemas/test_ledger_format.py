"""A file of the ledger over periods is read as it was written under its name, or refused."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from ldpbeam.over_time.received import Received, Rows, UserReports, distinct, summed
from ldpbeam.schemas.outputs import ledger_format
from ldpbeam.schemas.outputs.ledger_format import About, read_about, read_rows, write_rows

#: Every file has 2^2 batches.
ABOUT = About("study", "key", written=7, bits=2, rows=24, windows=(1, 2), files=(("received-1.arrow", 3),))
NAME = "folder/received-1.arrow"


def rows_of(kind: type[Rows], seed: int = 1) -> Rows:
    """24 users of each quarter of the hashes."""
    rng = np.random.default_rng(seed)
    columns = {name: rng.integers(1, 9, 24).astype(dtype) for name, dtype in kind.KINDS.items()}
    columns["high"] = rng.integers(0, 2**64, 24, dtype=np.uint64)
    rows = kind(*columns.values())
    return distinct(rows) if isinstance(rows, Received) else summed(rows)  # type: ignore[arg-type]


def written(rows: Rows, about: About = ABOUT, name: str = NAME) -> bytes:
    stream = io.BytesIO()
    write_rows(stream, name, type(rows), about, [rows])
    return stream.getvalue()


def read(data: bytes, kind: type[Rows], bits: int = 2, name: str = NAME) -> tuple[About, list[list[bytes]]]:
    """What is read of a file: what it says of itself, and the columns of each part."""
    parts = [read_rows(io.BytesIO(data), name, kind, bits, batch) for batch in range(1 << bits)]
    columns = [[column.tobytes() for column in part.columns.values()] for part in parts]
    return read_about(io.BytesIO(data), name, kind), columns


@pytest.mark.parametrize("kind", [Received, UserReports])
def test_a_flipped_bit_in_any_byte_is_refused_or_changes_nothing(kind: type[Rows]) -> None:
    whole = written(rows_of(kind))
    wanted, refused = read(whole, kind), 0
    for place in range(len(whole)):
        data = bytearray(whole)
        data[place] ^= 1 << place % 8
        try:
            assert read(bytes(data), kind) == wanted, f"byte {place}"
        except ValueError as error:
            assert str(error).startswith("damaged, or not what was written under this name")
            refused += 1
    # Nobody reads the padding, nor the copy of the schema at the start.
    assert refused > 0.5 * len(whole)


@pytest.mark.parametrize("kind", [Received, UserReports])
def test_a_cut_file_is_refused(kind: type[Rows]) -> None:
    whole = written(rows_of(kind))
    for length in range(len(whole)):
        with pytest.raises(ValueError, match="damaged"):
            read_about(io.BytesIO(whole[:length]), NAME, kind)


def test_another_file_under_the_name_is_refused() -> None:
    ours, sums = rows_of(Received), rows_of(UserReports)
    assert read(written(ours), Received) == read(written(ours), Received, name="elsewhere/received-1.arrow")
    with pytest.raises(ValueError, match="restore it from a copy"):
        read_about(io.BytesIO(written(ours, name="folder/received-2.arrow")), NAME, Received)
    # Rows of one run under the end of another's file, which says when it was written.
    later = written(ours, replace(ABOUT, written=8))
    with pytest.raises(ValueError, match="damaged"):
        read(written(ours)[:-2_000] + later[-2_000:], Received)
    with pytest.raises(ValueError, match="delete it: it is made anew"):
        read_about(io.BytesIO(written(ours)), NAME, UserReports)
    with pytest.raises(ValueError, match="restore it from a copy"):
        read_about(io.BytesIO(written(sums)), NAME, Received)


@pytest.mark.parametrize("order", [(1, 0, 2, 3), (0, 1, 2, 2), (0, 1, 2)])
def test_batches_in_another_order_and_missing_ones_are_refused(order: tuple[int, ...]) -> None:
    reader, stream = pa.ipc.open_file(written(rows_of(Received))), io.BytesIO()
    with pa.ipc.new_file(stream, reader.schema) as writer:
        for number in order:
            writer.write_batch(*reader.get_batch_with_custom_metadata(number))
    with pytest.raises(ValueError, match="damaged"):
        read(stream.getvalue(), Received)


def test_a_file_of_a_newer_format_says_so() -> None:
    newer = replace(ABOUT, format=ledger_format.FORMAT + 1)
    with pytest.raises(ValueError, match=r"a newer version of ldpbeam wrote it \(format 2\): update ldpbeam"):
        read_about(io.BytesIO(written(rows_of(Received), newer)), NAME, Received)


@pytest.mark.parametrize("bits", [0, 1, 2, 3, 5])
def test_parts_of_any_number_of_bits_are_all_rows_in_order(bits: int) -> None:
    rows = rows_of(Received)
    _, parts = read(written(rows), Received, bits)
    assert [b"".join(column) for column in zip(*parts, strict=True)] == [
        column.tobytes() for column in rows.columns.values()
    ]
