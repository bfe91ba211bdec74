"""Statistics in Avro: snapshots in files, and accumulators that workers send to each other."""

from __future__ import annotations

import hashlib
import io
import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import IO, Any

import fastavro
import numpy as np

from ldpbeam.attributes import Attribute
from ldpbeam.domains import Integers
from ldpbeam.schemas.encodings.avro import schema
from ldpbeam.schemas.encodings.avro_values import DatumReader
from ldpbeam.schemas.encodings.compression import plain
from ldpbeam.schemas.files.avro_blocks import Block, read_blocks
from ldpbeam.schemas.files.avro_headers import Header, read_header, write_block, write_header
from ldpbeam.schemas.files.kinds import STATISTICS, file_kind
from ldpbeam.schemas.outputs.snapshot_checks import check_counts, check_record
from ldpbeam.statistics import Moments, Statistic

#: The metadata key of a file's header under which the number of its snapshots is stored.
SNAPSHOTS = "ldpbeam.snapshots"
#: A decompressed block has at most this many bytes, or eight times its compressed size if that is more.
MOST_BYTES = 2**27
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
        hashed: whether the snapshot's hash was verified; files of version 0.1.0 have no hashes.
    """

    attribute: str
    window: tuple[int, int] | None
    group: str | None
    other_groups: int
    statistic: Statistic
    pane_index: int = 0
    pane_timing: str = "on_time"
    complete: bool = True
    run: str = field(default="", compare=False)
    parts: tuple[str, ...] = ()
    hashed: bool = field(default=True, compare=False)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the snapshots it contains: its parts if it is a roll-up, else its own name.

        A name may be counted only once.
        """
        window = f"{self.window[0]}-{self.window[1]}" if self.window else "all"
        rest = "/rest" if self.other_groups else ""
        return self.parts or (f"{self.run}/{self.attribute}/{window}/{self.group or ''}{rest}",)


def _array_bytes(array: Integers) -> bytes:
    return np.ascontiguousarray(array, dtype="<i8").tobytes()


def _array(data: bytes) -> Integers:
    return np.frombuffer(data, dtype="<i8").astype(np.int64)


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
                "bounded": None if moments.bounded is None else list(map(str, moments.bounded)),
            }
            for mask, moments in sorted(statistic.moments.items())
        ],
        "joint_cells": _array_bytes(statistic.joint_cells),
        "joint_counts": _array_bytes(statistic.joint_counts),
    }


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
                None if entry.get("bounded") is None else tuple(map(int, entry["bounded"])),
            )
            for entry in fields["moments"]
        },
        joint_cells=_cells(fields["joint_cells"], joint_counts),
        joint_counts=joint_counts,
    )


def _own_fields() -> dict[str, Any]:
    whole = schema("statistic")
    own = (
        "fingerprint",
        "reports",
        "users",
        "histograms",
        "moments",
        "joint_cells",
        "joint_counts",
    )
    return {**whole, "fields": [field for field in whole["fields"] if field["name"] in own]}


_WIRE = fastavro.parse_schema(_own_fields())


def encode_statistic(statistic: Statistic) -> bytes:
    """A statistic as one Avro datum without a schema; the coder of accumulators uses it."""
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, _WIRE, statistic_fields(statistic))
    return stream.getvalue()


def decode_statistic(data: bytes) -> Statistic:
    """The statistic in an Avro datum; the inverse of :func:`encode_statistic`."""
    return statistic_of(fastavro.schemaless_reader(io.BytesIO(data), _WIRE, None))


def write_snapshots(
    stream: IO[bytes],
    snapshots: list[Snapshot],
    attribute: Attribute,
    *,
    study: str,
    study_fingerprint: str,
    run: str,
) -> None:
    """Write a file of snapshots of one attribute; the same snapshots give the same bytes.

    Each record ends with its SHA-256. The header has the number of records.
    """
    writer_schema, sync = schema("statistic"), bytes.fromhex(attribute.fingerprint)
    parsed = fastavro.parse_schema(writer_schema)
    write_header(stream, writer_schema, {SNAPSHOTS: str(len(snapshots))}, sync, "deflate")
    for snapshot in snapshots:
        record = {
            "study": study,
            "study_fingerprint": study_fingerprint,
            "run": run,
            "attribute": snapshot.attribute,
            "channels": [version.label for version in attribute.versions],
            "group": snapshot.group,
            "other_groups": snapshot.other_groups,
            "window_start": snapshot.window[0] if snapshot.window else None,
            "window_end": snapshot.window[1] if snapshot.window else None,
            "pane_index": snapshot.pane_index,
            "pane_timing": snapshot.pane_timing,
            "complete": snapshot.complete,
            "parts": list(snapshot.parts),
            **statistic_fields(snapshot.statistic),
            "sha256": b"",
        }
        datum = io.BytesIO()
        fastavro.schemaless_writer(datum, parsed, record)
        # The hash is the last field; an empty one is encoded as one byte.
        contents = datum.getvalue()[:-1]
        data = contents + _HASH_START + _hash(writer_schema, contents)
        deflate = zlib.compressobj(wbits=-zlib.MAX_WBITS)
        write_block(stream, 1, deflate.compress(data) + deflate.flush(), sync)


def _hash(writer_schema: Any, contents: bytes) -> bytes:
    canonical = json.dumps(writer_schema, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode() + contents).digest()


def read_snapshots(stream: IO[bytes]) -> Iterator[Snapshot]:
    """Read the snapshots of a seekable file, written with this schema or a compatible older or newer one.

    Raises:
        ValueError: if the file has another format, or is damaged: a hash does not match, records are
            missing, or its counts contradict each other.
    """
    kind = file_kind(stream)
    if kind != STATISTICS:
        raise ValueError(f"{kind}, not {'' if kind.startswith('a file of') else 'a file '}of statistics")
    header = read_header(stream)
    claimed = header.metadata.get(SNAPSHOTS)
    names = [field["name"] for field in header.writer_schema["fields"]]
    hashed = claimed is not None
    if hashed != (names[-1:] == ["sha256"]) or "sha256" in names[:-1]:
        raise ValueError("damaged: its header does not say what its snapshots are checked with")
    found = 0
    size = stream.seek(0, io.SEEK_END)
    for block in read_blocks(stream, header, 0, size):
        if block.problem:
            raise ValueError(f"damaged: {block.problem}")
        try:
            for snapshot in _block_snapshots(header, block, hashed):
                found += 1
                yield snapshot
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            raise ValueError(f"damaged: snapshot {found + 1}: {error}") from None
    if not found or (hashed and str(found) != claimed):
        raise ValueError(f"damaged: it has {found} snapshots, and was written with {claimed or 'some'}")


def _block_snapshots(header: Header, block: Block, hashed: bool) -> Iterator[Snapshot]:
    """The snapshots of a block; each hash, record and count is checked."""
    data = plain(header.codec, block.data, max(MOST_BYTES, 8 * len(block.data)))
    reader = DatumReader(data)
    for _ in range(block.reports):
        start = reader.at
        record = reader.read(header.writer_schema)
        if hashed:
            contents, given = data[start : reader.at - _HASH_BYTES], data[reader.at - _HASH_BYTES : reader.at]
            if given != _HASH_START + _hash(header.writer_schema, contents):
                raise ValueError("its hash does not fit")
        yield _snapshot(record, hashed)
    if reader.at != len(data):
        raise ValueError("bytes are left after the last one")


def _snapshot(found: Mapping[str, Any], hashed: bool) -> Snapshot:
    record = {}
    for own in schema("statistic")["fields"]:
        name = own["name"]
        if name not in found and "default" not in own:
            raise ValueError(f"the field {name!r} is missing")
        record[name] = found[name] if name in found else own["default"]
        if name in found and not _is_a(own["type"], record[name]):
            raise ValueError(f"the field {name!r} is of another type")
    check_record(record)
    statistic = statistic_of(record)
    check_counts(statistic)
    start, end = record["window_start"], record["window_end"]
    return Snapshot(
        attribute=record["attribute"],
        window=None if start is None else (start, end),
        group=record["group"],
        other_groups=record["other_groups"],
        pane_index=record["pane_index"],
        pane_timing=record["pane_timing"],
        complete=record["complete"],
        statistic=statistic,
        run=record["run"],
        parts=tuple(record["parts"]),
        hashed=hashed,
    )


_PYTHON = {"string": str, "long": int, "boolean": bool, "bytes": memoryview, "null": type(None)}


def _is_a(kind: Any, value: Any) -> bool:
    """Whether a decoded value has the given type of the Statistic schema."""
    if isinstance(kind, list):
        return any(_is_a(branch, value) for branch in kind)
    if isinstance(kind, str):
        return type(value) is _PYTHON[kind]
    if kind["type"] == "array":
        return isinstance(value, list) and all(_is_a(kind["items"], entry) for entry in value)
    return isinstance(value, dict) and all(
        _is_a(own["type"], value[own["name"]]) if own["name"] in value else "default" in own
        for own in kind["fields"]
    )
