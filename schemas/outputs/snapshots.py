"""Statistics in Avro: snapshots in files, and accumulators that workers send to each other."""

from __future__ import annotations

import hashlib
import io
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import IO, Any

import fastavro
import numpy as np

from ldpbeam import joint_cells
from ldpbeam.attributes import Attribute
from ldpbeam.domains import Candidates, Integers
from ldpbeam.over_time.joined_windows import JoinedCells, JoinedSupports, JoinedWindows, Table
from ldpbeam.schemas.encodings.avro import schema
from ldpbeam.schemas.encodings.avro_blocks import Block, read_blocks
from ldpbeam.schemas.encodings.avro_headers import Header, read_header, write_block, write_header
from ldpbeam.schemas.encodings.compression import plain
from ldpbeam.schemas.files.kinds import STATISTICS, check_kind
from ldpbeam.statistics import Moments, Statistic

#: The metadata key of a file's header under which the number of its snapshots is stored.
SNAPSHOTS = "ldpbeam.snapshots"
#: The same, under which the name of their attribute is stored.
ATTRIBUTE = "ldpbeam.attribute"
#: A decompressed block has at most this many bytes, or eight times its compressed size if that is more.
MOST_BYTES = 2**27
#: Records are brought together in blocks of at most this many bytes; a larger one has a block of its own.
BLOCK_BYTES = 2**16
#: When a pane fires: before its window closes, when it does, and after that.
EARLY, ON_TIME, LATE = "early", "on_time", "late"
#: The fields of a snapshot that its record has under the same names.
_AS_THEY_ARE = ("attribute", "group", "other_groups", "pane_index", "pane_timing", "complete", "table")
#: The length of a hash, as Avro encodes it; it precedes the hash.
_HASH_START = b"\x40"
_HASH_BYTES = len(_HASH_START) + hashlib.sha256().digest_size


@dataclass(frozen=True)
class Snapshot:
    """A statistic with its attribute, window, group and pane.

    Attributes:
        attribute: the attribute's name.
        window: (start, end) in epoch milliseconds; None if the study has no windows.
        group: the value of the study's group field; None without groups, and for the groups beyond the cap.
        other_groups: how many groups beyond the cap are added up in the statistic.
        pane_index: 0 for the first pane of a window.
        pane_timing: early, on_time or late.
        statistic: the statistic.
        complete: whether the statistic has every report of the window that came in time, as far as is known.
        run: the run that wrote the snapshot; empty until it is read from a file. It is not compared.
        parts: the names of the snapshots that were merged into this one; empty unless it is a roll-up.
        table: the hash of the names that the places of candidates had when it was written; empty if they had
            none.
        candidates: the names of the places now; None until they are looked up. They are not compared.
    """

    attribute: str
    window: tuple[int, int] | None
    group: str | None
    other_groups: int
    statistic: Statistic
    pane_index: int = 0
    pane_timing: str = ON_TIME
    complete: bool = True
    run: str = field(default="", compare=False)
    parts: tuple[str, ...] = ()
    table: str = ""
    candidates: Candidates | None = field(default=None, compare=False, repr=False)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the snapshots it contains: its parts if it is a roll-up, else its own name.

        A name may be counted only once.
        """
        window = f"{self.window[0]}-{self.window[1]}" if self.window else "all"
        rest = "/rest" if self.other_groups else ""
        return self.parts or (f"{self.run}/{self.attribute}/{window}/{self.group or ''}{rest}",)

    @property
    def series(self) -> tuple[str, str | None, bool]:
        """What the snapshots of one attribute and group share: (attribute, group, rest of groups)."""
        return self.attribute, self.group, self.other_groups > 0

    @property
    def joined(self) -> bool:
        """Whether the reports of a user in several windows were brought together."""
        return self.statistic.joined is not None

    @property
    def windows(self) -> int:
        """How many different windows its reports are of; several if it is a roll-up.

        Runs without windows count as one each. Runs and groups of one window are taken to have other users.
        A window whose users are joined counts as one.
        """
        windows = set()
        for name in self.parts:
            run, _, window, _ = name.split("/", 3)
            windows.add((run if window == "all" else "", window))
        return max(1, len(windows))

    @property
    def inner_windows(self) -> list[tuple[int, int] | None]:
        """The windows that its reports are of, by time; its own unless it is a roll-up."""
        if not self.parts:
            return [self.window]
        texts = {name.split("/", 3)[2] for name in self.parts}
        times = (text.rpartition("-") for text in texts - {"all"})
        windows = sorted((int(start), int(end)) for start, _, end in times)
        return [*([None] if "all" in texts else []), *windows]


def _array_bytes(array: Integers) -> bytes:
    return np.ascontiguousarray(array, dtype="<i8").tobytes()


def _array(data: bytes) -> Integers:
    return np.frombuffer(data, dtype="<i8").astype(np.int64) if data else joint_cells.NONE


def _cells(data: bytes, counts: Integers) -> Integers:
    """Joint cells, of one word each or of several; those that do not fit the counts stay as they are."""
    array = _array(data)
    several = len(counts) > 0 and len(array) > len(counts) and len(array) % len(counts) == 0
    return array.reshape(len(counts), -1) if several else array


def statistic_fields(statistic: Statistic) -> dict[str, Any]:
    """The fields of a Statistic record that come from the statistic itself."""
    return {
        "fingerprint": statistic.fingerprint,
        "reports": statistic.reports,
        "users": statistic.users,
        "histograms": [_array_bytes(histogram) for histogram in statistic.histograms],
        "moments": [
            {
                "answered": mask,
                "users": moments.users,
                "sums": list(map(str, moments.sums)),
                "squares": list(map(str, moments.squares)),
                "bounded": list(map(str, moments.bounded)) or None,
            }
            for mask, moments in sorted(statistic.moments.items())
        ],
        "joint_cells": _array_bytes(statistic.joint_cells),
        "joint_counts": _array_bytes(statistic.joint_counts),
        "joined": None if statistic.joined is None else _joined_fields(statistic.joined),
    }


def _joined_fields(joined: JoinedWindows) -> dict[str, Any]:
    table, totals = joined.table, joined.totals if isinstance(joined, JoinedCells) else None
    return {
        "shape": list(table.shape),
        "cells": _array_bytes(table.cells),
        "counts": _array_bytes(table.counts),
        "totals": b"" if totals is None else _array_bytes(totals),
    }


def _joined(fields: Mapping[str, Any] | None) -> JoinedWindows | None:
    if fields is None:
        return None
    table = Table(tuple(fields["shape"]), _array(fields["cells"]), _array(fields["counts"]))
    return JoinedSupports(table) if len(table.shape) == 3 else JoinedCells(_array(fields["totals"]), table)


def statistic_of(fields: Mapping[str, Any]) -> Statistic:
    """The statistic with these fields; the inverse of :func:`statistic_fields`."""
    joint_counts = _array(fields["joint_counts"])
    return Statistic(
        fingerprint=fields["fingerprint"],
        reports=fields["reports"],
        users=fields["users"],
        histograms=tuple(map(_array, fields["histograms"])),
        moments={
            entry["answered"]: Moments(
                entry["users"],
                tuple(map(int, entry["sums"])),
                tuple(map(int, entry["squares"])),
                tuple(map(int, entry["bounded"] or ())),
            )
            for entry in fields["moments"]
        },
        joint_cells=_cells(fields["joint_cells"], joint_counts),
        joint_counts=joint_counts,
        joined=_joined(fields["joined"]),
    )


_WHOLE, _OF_STATISTIC = schema("statistic"), {own.name for own in fields(Statistic)}
_PARSED = fastavro.parse_schema(_WHOLE)


def _array_of(records: Any) -> Any:
    return {"type": "array", "items": records}


_ARRAY = fastavro.parse_schema(_array_of(_WHOLE))
#: The schema of a statistic by itself: the fields of a snapshot that come from it.
_WIRE = fastavro.parse_schema(
    {**_WHOLE, "fields": [own for own in _WHOLE["fields"] if own["name"] in _OF_STATISTIC]}
)


def encode_statistic(statistic: Statistic) -> bytes:
    """A statistic as one Avro datum without a schema; the coder of accumulators uses it."""
    return _datum(_WIRE, statistic_fields(statistic))


def decode_statistic(data: bytes) -> Statistic:
    """The statistic in an Avro datum; the inverse of :func:`encode_statistic`."""
    return statistic_of(fastavro.schemaless_reader(io.BytesIO(data), _WIRE, None))


def _canonical(writer_schema: Any) -> bytes:
    """The start of what is hashed: the schema, so that a hash holds for one schema."""
    return json.dumps(writer_schema, sort_keys=True, separators=(",", ":")).encode()


#: What is hashed before a record of today's schema.
_CANONICAL = _canonical(_WHOLE)


def encode_snapshot(
    snapshot: Snapshot, attribute: Attribute, *, study: str, study_fingerprint: str, run: str
) -> bytes:
    """The record of a snapshot, without a hash."""
    record = {
        "study": study,
        "study_fingerprint": study_fingerprint,
        "run": run,
        "channels": [version.label for version in attribute.versions],
        "window_start": snapshot.window[0] if snapshot.window else None,
        "window_end": snapshot.window[1] if snapshot.window else None,
        "parts": list(snapshot.parts),
        **{name: getattr(snapshot, name) for name in _AS_THEY_ARE},
        **statistic_fields(snapshot.statistic),
        "sha256": b"",
    }
    return _datum(_PARSED, record)


def write_encoded(stream: IO[bytes], records: Iterable[bytes], snapshots: int, attribute: Attribute) -> None:
    """Write a file of snapshots of one attribute, as :func:`encode_snapshot` gave them.

    The header has their number, and the name of the attribute.
    """
    sync = bytes.fromhex(attribute.fingerprint)
    write_header(stream, _WHOLE, {SNAPSHOTS: str(snapshots), ATTRIBUTE: attribute.name}, sync, "deflate")
    for block in _blocks(records):
        # The hash is the last field; an empty one is encoded as one byte.
        contents = b"".join(block)[:-1]
        data = contents + _HASH_START + _hash(_CANONICAL, len(block), contents)
        deflate = zlib.compressobj(wbits=-zlib.MAX_WBITS)
        write_block(stream, len(block), deflate.compress(data) + deflate.flush(), sync)


def _blocks(records: Iterable[bytes]) -> Iterator[list[bytes]]:
    """The records of each block: one that is large, or as many as have :data:`BLOCK_BYTES` together."""
    block: list[bytes] = []
    size = 0
    for record in records:
        if block and size + len(record) > BLOCK_BYTES:
            yield block
            block, size = [], 0
        block.append(record)
        size += len(record)
    if block:
        yield block


def _hash(canonical: bytes, records: int, contents: bytes) -> bytes:
    """The hash at the end of a block."""
    return hashlib.sha256(canonical + (_datum("long", records) if records != 1 else b"") + contents).digest()


def _datum(kind: Any, value: Any) -> bytes:
    """A value in Avro, without its schema."""
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, kind, value)
    return stream.getvalue()


def read_snapshots(stream: IO[bytes]) -> Iterator[Snapshot]:
    """Read the snapshots of a seekable file, written with this schema or a compatible older or newer one.

    The hash of a block is compared before anything of it is decoded.

    Raises:
        ValueError: if the file has another format, or is damaged: a hash does not match, or records are
            missing.
    """
    check_kind(stream, STATISTICS)
    header = read_header(stream)
    claimed = header.metadata.get(SNAPSHOTS)
    snapshots = 0
    size, canonical = stream.seek(0, io.SEEK_END), _canonical(header.writer_schema)
    for block in read_blocks(stream, header, 0, size):
        try:
            if block.problem:
                raise ValueError(block.problem)
            for record in _records(header, block, canonical):
                yield _snapshot(record)
                snapshots += 1
        except ValueError as error:
            raise ValueError(f"damaged: snapshot {snapshots + 1}: {error}") from None
    if str(snapshots) != claimed:
        raise ValueError(f"damaged: it has {snapshots} snapshots, and its header says {claimed}")


def _records(header: Header, block: Block, canonical: bytes) -> Any:
    """The records of a block, with the fields of this schema.

    Raises:
        ValueError: if they are not those that its hash says, or lack a field that has no default.
    """
    data = plain(header.codec, block.data, max(MOST_BYTES, 8 * len(block.data)))
    contents, given = data[:-_HASH_BYTES], data[-_HASH_BYTES:]
    if given != _HASH_START + _hash(canonical, block.reports, contents):
        raise ValueError("its hash is not that of its contents")
    # Decoding one array takes half as long as decoding its records.
    array = io.BytesIO(_datum("long", block.reports) + data + _datum("long", 0))
    try:
        if canonical == _CANONICAL:
            return fastavro.schemaless_reader(array, _ARRAY, None)
        return fastavro.schemaless_reader(array, _array_of(header.writer_schema), _ARRAY)
    except fastavro.read.SchemaResolutionError as error:
        raise ValueError(f"its fields are not those of a snapshot: {error}") from None


def _snapshot(record: Mapping[str, Any]) -> Snapshot:
    start, end = record["window_start"], record["window_end"]
    return Snapshot(
        window=None if start is None else (start, end),
        statistic=statistic_of(record),
        run=record["run"],
        parts=tuple(record["parts"]),
        **{name: record[name] for name in _AS_THEY_ARE},
    )
