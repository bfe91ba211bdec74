"""Reports that wait on disk: segments, which are added and deleted, and never changed.

A segment is written whole or not at all: an Arrow stream for each schema of its reports. In a stream, a
commit writes one, and the panes that fire with it into a file beside it; the manifest alone says what lies
where, and a file that no manifest names is deleted. In a batch run, the shards of users wait so.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from ldpbeam.transforms.storage import delete, half_written, join, make_folder, replacing

_REPORTS, _PANES = ".arrow", ".panes"


class Part(NamedTuple):
    """Some rows of an Arrow stream in a segment.

    Attributes:
        segment: the number of the segment.
        offset: where the stream begins, in bytes.
        length: the bytes of the stream.
        first: the first of the rows.
        rows: how many there are.
    """

    segment: int
    offset: int
    length: int
    first: int
    rows: int


class Stored(NamedTuple):
    """A pane that was committed and is not solved.

    Attributes:
        segment: the number of the commit.
        offset: where the bytes of the pane begin.
        length: how many there are.
    """

    segment: int
    offset: int
    length: int


def write_reports(
    folder: str, number: int, batches: Sequence[pa.RecordBatch], *, durable: bool = True
) -> list[Part]:
    """Write a segment of reports, and return where each batch lies.

    Args:
        folder: the folder of the segments, which its owner alone may enter.
        number: the number of the segment.
        batches: at least one. Those of one schema lie in one stream, in their order.
        durable: whether the disk has the segment when this returns.

    Raises:
        OSError: if the disk does not take it.
    """
    by_schema: dict[pa.Schema, list[int]] = {}
    for place, batch in enumerate(batches):
        by_schema.setdefault(batch.schema, []).append(place)
    parts: dict[int, Part] = {}
    make_folder(folder, private=True)
    with replacing(_path(folder, number, _REPORTS), private=True, durable=durable) as file:
        for schema, places in by_schema.items():
            offset, first = file.tell(), 0
            with pa.ipc.new_stream(file, schema) as writer:
                writer.write_batch(pa.concat_batches([batches[place] for place in places]))
            length = file.tell() - offset
            for place in places:
                rows = batches[place].num_rows
                parts[place] = Part(number, offset, length, first, rows)
                first += rows
    return [parts[place] for place in range(len(batches))]


def read_reports(folder: str, parts: Iterable[Part]) -> list[pa.RecordBatch]:
    """The reports of some parts, as views of the files, which are mapped and not read into memory.

    Raises:
        OSError: if a segment cannot be read.
    """
    files: dict[int, pa.MemoryMappedFile] = {}
    streams: dict[tuple[int, int], pa.RecordBatch] = {}
    batches = []
    for part in parts:
        at = part.segment, part.offset
        if at not in streams:
            if part.segment not in files:
                files[part.segment] = pa.memory_map(_path(folder, part.segment, _REPORTS))
            files[part.segment].seek(part.offset)
            with pa.ipc.open_stream(files[part.segment].read_buffer(part.length)) as reader:
                streams[at] = reader.read_next_batch()
        batches.append(streams[at].slice(part.first, part.rows))
    return batches


def write_panes(folder: str, number: int, panes: Sequence[bytes]) -> list[Stored]:
    """Write the panes of a commit, and return where each lies; the disk has them when this returns.

    Raises:
        OSError: if the disk does not take them.
    """
    stored = []
    make_folder(folder, private=True)
    with replacing(_path(folder, number, _PANES), private=True) as file:
        for pane in panes:
            stored.append(Stored(number, file.tell(), len(pane)))
            file.write(pane)
    return stored


def read_pane(folder: str, stored: Stored) -> bytes:
    """The bytes of a pane.

    Raises:
        OSError: if they cannot be read.
    """
    with Path(_path(folder, stored.segment, _PANES)).open("rb") as file:
        file.seek(stored.offset)
        return file.read(stored.length)


def delete_others(folder: str, of_reports: Collection[int], of_panes: Collection[int]) -> None:
    """Delete the files that the manifest does not name, and what a killed process left half written.

    Args:
        folder: the folder of the segments.
        of_reports: the segments that have reports of open windows.
        of_panes: the commits that have unsolved panes.
    """
    named = {_path(folder, each, _REPORTS) for each in of_reports}
    named |= {_path(folder, each, _PANES) for each in of_panes}
    delete(
        [
            str(path)
            for path in sorted(Path(folder).iterdir())
            if half_written(path.name) or (path.suffix in (_REPORTS, _PANES) and str(path) not in named)
        ]
    )


def _path(folder: str, number: int, suffix: str) -> str:
    return join(folder, f"{number:08d}{suffix}")
