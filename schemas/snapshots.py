"""Statistics as Avro: snapshots in files, and accumulators on the wire."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import IO, Any

import fastavro
import numpy as np

from ldpbeam.attributes import Attribute
from ldpbeam.domains import Integers
from ldpbeam.schemas.avro import schema
from ldpbeam.schemas.file_kinds import STATISTICS, file_kind
from ldpbeam.statistics import Moments, Statistic


@dataclass(frozen=True)
class Snapshot:
    """A statistic and what it is of.

    Attributes:
        attribute: the attribute's name.
        window: (start, end) in epoch milliseconds, None without windows.
        group: the value of the study's group field, None without groups and for the rest.
        other_groups: how many groups beyond the cap are added up in it.
        pane_index: 0 for the first pane of a window.
        pane_timing: early, on_time or late.
        statistic: the statistic.
        complete: whether every report of the window that came in time is in it, as far as can be known.
        run: the run that made it, which does not make it another; empty until it is read back.
        parts: of a roll-up, the names of what was merged into it.
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

    @property
    def names(self) -> tuple[str, ...]:
        """What it holds, each of which may be counted once: itself, or of a roll-up its parts."""
        window = f"{self.window[0]}-{self.window[1]}" if self.window else "all"
        rest = "/rest" if self.other_groups else ""
        return self.parts or (f"{self.run}/{self.attribute}/{window}/{self.group or ''}{rest}",)


def _array_bytes(array: Integers) -> bytes:
    return np.ascontiguousarray(array, dtype="<i8").tobytes()


def _array(data: bytes) -> Integers:
    return np.frombuffer(data, dtype="<i8").astype(np.int64)


def statistic_fields(statistic: Statistic) -> dict[str, Any]:
    """A statistic as the fields of a Statistic record that are its own."""
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
            }
            for mask, moments in sorted(statistic.moments.items())
        ],
        "joint_cells": _array_bytes(statistic.joint_cells),
        "joint_counts": _array_bytes(statistic.joint_counts),
    }


def statistic_of(fields: Mapping[str, Any]) -> Statistic:
    """The inverse of :func:`statistic_fields`."""
    return Statistic(
        fingerprint=fields["fingerprint"],
        reports=fields["reports"],
        users=fields["users"],
        histograms=tuple(map(_array, fields["histograms"])),
        moments={
            entry["answered"]: Moments(
                entry["users"], tuple(map(int, entry["sums"])), tuple(map(int, entry["squares"]))
            )
            for entry in fields["moments"]
        },
        joint_cells=_array(fields["joint_cells"]),
        joint_counts=_array(fields["joint_counts"]),
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
    """A statistic as one Avro datum, without a schema; the coder of accumulators."""
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, _WIRE, statistic_fields(statistic))
    return stream.getvalue()


def decode_statistic(data: bytes) -> Statistic:
    """The inverse of :func:`encode_statistic`."""
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
    """A file of snapshots of one attribute; the same snapshots give the same bytes."""
    records = (
        {
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
        }
        for snapshot in snapshots
    )
    sync = bytes.fromhex(attribute.fingerprint)
    fastavro.writer(stream, schema("statistic"), records, codec="deflate", sync_marker=sync)


def read_snapshots(stream: IO[bytes]) -> Iterator[Snapshot]:
    """The snapshots of a file, written with this schema or a compatible older or newer one.

    Raises:
        ValueError: if the file is of another kind.
    """
    kind = file_kind(stream)
    if kind != STATISTICS:
        raise ValueError(f"{kind}, not {'' if kind.startswith('a file of') else 'a file '}of statistics")
    record: Any
    for record in fastavro.reader(stream, reader_schema=schema("statistic")):
        start, end = record["window_start"], record["window_end"]
        yield Snapshot(
            attribute=record["attribute"],
            window=None if start is None else (start, end),
            group=record["group"],
            other_groups=record["other_groups"],
            pane_index=record["pane_index"],
            pane_timing=record["pane_timing"],
            complete=record["complete"],
            statistic=statistic_of(record),
            run=record["run"],
            parts=tuple(record["parts"]),
        )
