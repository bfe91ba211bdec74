"""Tables of candidates: CSV files that say which name a place has in which windows."""

from __future__ import annotations

import functools
import io
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from ldpbeam.cells import Clock
from ldpbeam.domains import OTHERS, Candidates, Integers
from ldpbeam.errors import UserError
from ldpbeam.schemas.reports.casts import cast_column
from ldpbeam.untrusted import cut_short
from ldpbeam.windows import FAR, Bounds

#: A file of candidates has at most this many bytes.
MOST_BYTES = 2**27
#: A name has at most this many characters.
MOST_LETTERS = 1_000
_NEEDED, _TIMES = ("place", "name"), ("since", "until")
#: Characters that end a line, change the direction of the text after them, or have no sign of their own.
_NOT_IN_NAMES = r"[\p{Cc}\p{Zl}\p{Zp}\x{061C}\x{200E}\x{200F}\x{202A}-\x{202E}\x{2066}-\x{2069}]"


@dataclass(frozen=True, eq=False)
class CandidateTable:
    """The rows of one file of candidates, or of several.

    Attributes:
        since: the first event time of each row, shape (rows,).
        until: the first event time after it.
        place: the place of each row.
        name: the name that it has.
        files: the path of each file, and how many rows it has.
    """

    since: Integers
    until: Integers
    place: Integers
    name: pa.Array
    files: tuple[tuple[str, int], ...]

    def of_window(self, window: Bounds | None, places: int) -> Candidates | None:
        """The names in a window, of the rows whose times hold all of it; None if there are none."""
        start, stop = (-FAR, FAR) if window is None else window
        rows = np.flatnonzero((self.since <= start) & (self.until >= stop))
        if not len(rows):
            return None
        names = self.name.take(pa.array(rows)).to_pylist()
        return Candidates.named(places, dict(zip(self.place[rows].tolist(), names, strict=True)))


def read_table(files: Sequence[tuple[str, bytes]], places: int, clock: Clock | None) -> CandidateTable:
    """The rows of all files of a table.

    Args:
        files: (path, contents).
        places: how many places there are.
        clock: what shows times without a zone; None if they are refused.

    Raises:
        UserError: if a file is no such table, or a place or a name is given twice at one time.
    """
    parts = [_read(path, data, places, clock) for path, data in files]
    none, no_name = np.zeros(0, dtype=np.int64), pa.array([], pa.string())
    since, until, place, name = zip((none, none, none, no_name), *parts, strict=True)
    table = CandidateTable(
        since=np.concatenate(since),
        until=np.concatenate(until),
        place=np.concatenate(place),
        name=pa.concat_arrays(name),
        files=tuple((path, len(part[3])) for (path, _), part in zip(files, parts, strict=True)),
    )
    codes = pc.dictionary_encode(table.name).indices.to_numpy().astype(np.int64)
    _check_once(table, codes, "name")
    _check_once(table, table.place, "place")
    return table


_Columns = tuple[Integers, Integers, Integers, pa.Array]


def _read(path: str, data: bytes, places: int, clock: Clock | None) -> _Columns:
    """(since, until, place, name) of one file."""
    if len(data) > MOST_BYTES:
        raise UserError(f"{path}: a file of candidates has at most {MOST_BYTES:,} bytes")
    if not data.endswith(b"\n"):
        raise UserError(
            f"{path}: its last line has no end, so it may be half written: write it under another name, and "
            "rename it when it is whole"
        )
    try:
        table = pyarrow.csv.read_csv(
            io.BytesIO(data),
            # A block holds the longest line.
            read_options=pyarrow.csv.ReadOptions(block_size=len(data)),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys((*_NEEDED, *_TIMES), pa.string()), strings_can_be_null=False
            ),
        ).combine_chunks()
    except pa.ArrowInvalid as error:
        raise UserError(f"{path}: this is not a table of candidates: {cut_short(str(error))}") from None
    given = table.column_names
    unknown = sorted({*given} - {*_NEEDED, *_TIMES})
    if unknown or len({*given}) < len(given) or not {*given} >= {*_NEEDED}:
        raise UserError(
            f"{path}: its columns are place, name and, for names that change, since and until, each once; "
            f"found {cut_short(', '.join(map(repr, given)))}"
        )
    columns = {name: table.column(name).combine_chunks() for name in given}
    refuse = functools.partial(_refuse, path)
    place, name = columns["place"], columns["name"]
    whole = pc.match_substring_regex(place, r"^[0-9]{1,7}$")
    refuse(place, pc.invert(whole), "a place is a whole number from 0 on")
    places_of = pc.cast(place, pa.int64()).to_numpy()
    refuse(place, pa.array(places_of >= places), f"the study has {places} places, 0 to {places - 1}")
    refuse(name, pc.equal(name, ""), "a name must not be empty")
    refuse(
        name, pc.greater(pc.utf8_length(name), MOST_LETTERS), f"a name has at most {MOST_LETTERS:,} letters"
    )
    refuse(name, pc.match_substring_regex(name, _NOT_IN_NAMES), "a name has no control characters")
    refuse(name, pc.equal(name, OTHERS), "this is what all places without a name are called")
    since, until = (_times(path, columns.get(key), end, len(name), clock) for key, end in _ENDS.items())
    empty = pa.array(since >= until)
    refuse(columns.get("since", name), empty, "since is not before until")
    return since, until, places_of.astype(np.int64), name


#: What an empty time means.
_ENDS = {"since": -FAR, "until": FAR}


def _times(path: str, texts: pa.Array | None, missing: int, rows: int, clock: Clock | None) -> Integers:
    """Event times in epoch milliseconds; ``missing`` where there is none."""
    if texts is None:
        return np.full(rows, missing, dtype=np.int64)
    times = cast_column("event_time", texts, clock)
    given = pc.not_equal(texts, "")
    zones = "with its zone, as in 2026-11-20T00:00:00Z" if clock is None else "as in 2026-11-20T00:00:00"
    _refuse(path, texts, pc.and_(given, times.is_null()), f"write a time {zones}")
    values = pc.fill_null(pc.cast(times, pa.int64()), missing).to_numpy(zero_copy_only=False)
    return np.where(given.to_numpy(zero_copy_only=False), values, missing).astype(np.int64)


def _refuse(path: str, texts: pa.Array, wrong: pa.Array, why: str) -> None:
    """Raise an error for the first row that is wrong.

    Raises:
        UserError: if one is.
    """
    row = pc.index(wrong, True).as_py()
    if row >= 0:
        given = cut_short(repr(texts[row].as_py()[:100]))
        raise UserError(f"{path}: row {row + 1:,}: {why}, found {given}")


def _check_once(table: CandidateTable, keys: Integers, what: str) -> None:
    """See that no two rows of one key have times in common.

    Raises:
        UserError: if two have; it names both.
    """
    order = np.lexsort((table.since, keys))
    alike = np.diff(keys[order]) == 0
    overlap = np.flatnonzero(alike & (table.since[order][1:] < table.until[order][:-1]))
    if len(overlap):
        one, other = sorted(order[overlap[0] : overlap[0] + 2].tolist())
        rows = [(path, row) for path, several in table.files for row in range(1, several + 1)]
        (path, first), (other_path, second) = rows[one], rows[other]
        where = f"row {second:,} and row {first:,}" + (f" of {path}" if path != other_path else "")
        named = cut_short(repr(table.name[other].as_py())) if what == "name" else table.place[other]
        given = "has two places" if what == "name" else "has two names"
        raise UserError(f"{other_path}: {where}: {what} {named} {given} at one time")
