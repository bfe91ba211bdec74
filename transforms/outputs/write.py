"""What a run leaves: snapshots by attribute and window, dead letters, and the accounting.

Every file is written under a temporary name and renamed, so that a retried or failed worker leaves no
half of one; the names depend on what the contents are of alone, so that a retry writes the same file, and the
same contents are the same bytes.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import uuid
import zlib
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, cast

import apache_beam as beam
import fastavro
import pyarrow as pa
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems
from apache_beam.io.localfilesystem import LocalFileSystem

from ldpbeam.schemas.encodings.avro import schema
from ldpbeam.schemas.outputs.snapshots import Snapshot, write_snapshots
from ldpbeam.study import Study
from ldpbeam.times import milliseconds
from ldpbeam.transforms.reports.counts import accounting
from ldpbeam.transforms.sources.files import literal, open_raw

#: Dead letters are gathered into at most this many files.
DEAD_LETTER_SHARDS = 4


@contextlib.contextmanager
def replacing(path: str, *, private: bool = False) -> Iterator[IO[bytes]]:
    """A stream to a temporary file that becomes ``path`` at the end, or nothing if there is an error.

    Args:
        path: on any file system Beam knows.
        private: whether its owner alone may read it, from the moment it is there, on a local file system. On
            others the bucket's own rules hold.
    """
    folder, name = FileSystems.split(path)
    # File systems take names of 255 bytes.
    temporary = FileSystems.join(folder, f".{name[:200]}.{uuid.uuid4().hex}")
    stream = _create_private(temporary) if private and _is_local(temporary) else _create(temporary)
    try:
        with stream:
            yield stream
        FileSystems.rename([temporary], [path])
    except BaseException:
        with contextlib.suppress(Exception):
            FileSystems.delete([literal(temporary)])
        raise


def _create(path: str) -> IO[bytes]:
    return cast("IO[bytes]", FileSystems.create(path, compression_type=CompressionTypes.UNCOMPRESSED))


def _create_private(path: str) -> IO[bytes]:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")


def _is_local(path: str) -> bool:
    return isinstance(FileSystems.get_filesystem(path), LocalFileSystem)


def half_written(name: str) -> bool:
    """Whether a file of this name is one that :func:`replacing` left behind when its process was killed."""
    return re.fullmatch(r"\..*\.[0-9a-f]{32}", name) is not None


def make_folder(path: str, *, private: bool = False) -> None:
    """A folder, where the file system has folders and this one is not there yet.

    Args:
        path: on any file system Beam knows.
        private: whether its owner alone may enter a new one, on a local file system. One that is there keeps
            the mode that somebody gave it.
    """
    if FileSystems.exists(path):
        return
    try:
        if private and _is_local(path):
            Path(path).mkdir(mode=0o700, parents=True)
        else:
            FileSystems.mkdirs(path)
    except OSError:
        # Another run may have made it just now.
        if not FileSystems.exists(path):
            raise


def window_name(study: str, attribute: str, window: tuple[int, int] | None) -> str:
    """How the files of an attribute's window are called, without an ending."""
    return f"{study}-{attribute}-{span_name(*window) if window else 'all'}"


def snapshot_name(study: str, attribute: str, window: tuple[int, int] | None, run: str = "") -> str:
    """The name of the file of an attribute's snapshots of a window; with a run, of that run's."""
    return f"{window_name(study, attribute, window)}{run and f'.{run}'}.avro"


def span_name(start: int, stop: int) -> str:
    """Two moments in epoch milliseconds, as they stand in names of files."""
    return f"{_compact(start)}-{_compact(stop)}"


def window_in(name: str) -> tuple[int, int] | None:
    """The window that stands at the end of a file's name, None if there is none."""
    found = re.search(r"-(\d{8}T\d{6}(?:\.\d{3})?Z)-(\d{8}T\d{6}(?:\.\d{3})?Z)\.[a-z]+$", name)
    return (milliseconds(found[1]), milliseconds(found[2])) if found else None


def _compact(time: int) -> str:
    moment = datetime.fromtimestamp(time / 1000, tz=UTC)
    fraction = f".{time % 1000:03d}" if time % 1000 else ""
    return f"{moment:%Y%m%dT%H%M%S}{fraction}Z"


def write_window(
    study: Study, folder: str, run: str, snapshots: list[Snapshot], *, named_by_run: bool = False
) -> str:
    """A file of the snapshots of one attribute and window; gives its path."""
    attribute = snapshots[0].attribute
    name = snapshot_name(study.name, attribute, snapshots[0].window, run if named_by_run else "")
    path: str = FileSystems.join(folder, name)
    make_folder(folder)
    with replacing(path) as stream:
        write_snapshots(
            stream,
            snapshots,
            study.attribute(attribute),
            study=study.name,
            study_fingerprint=study.fingerprint,
            run=run,
        )
    return path


class WriteSnapshots(beam.PTransform):
    """(attribute, snapshots of one window) to one Avro file each; gives the paths."""

    def __init__(self, study: Study, folder: str, run: str) -> None:
        super().__init__()
        self.function = _WriteSnapshots(study, folder, run)

    def expand(self, snapshots: beam.PCollection) -> beam.PCollection:
        """Wire the stage."""
        return snapshots | "WriteFiles" >> beam.ParDo(self.function)


class _WriteSnapshots(beam.DoFn):
    def __init__(self, study: Study, folder: str, run: str) -> None:
        self.study = study
        self.folder = folder
        self.run = run

    def process(self, element: tuple[str, list[Snapshot]]) -> Iterator[str]:
        yield write_window(self.study, self.folder, self.run, element[1])


class WriteDeadLetters(beam.PTransform):
    """Batches of dead letters to a few Avro files; gives the paths."""

    def __init__(self, folder: str) -> None:
        super().__init__()
        self.folder = folder

    def expand(self, letters: beam.PCollection) -> beam.PCollection:
        """Wire the stages."""
        return (
            letters
            | "KeyByShard" >> beam.Map(_shard).with_output_types(tuple[int, pa.RecordBatch])
            | "GroupShards" >> beam.GroupByKey()
            | "WriteFiles" >> beam.ParDo(_WriteDeadLetters(self.folder))
        )


def _shard(batch: pa.RecordBatch) -> tuple[int, pa.RecordBatch]:
    file = batch.column("file")[0].as_py()
    return zlib.crc32(file.encode()) % DEAD_LETTER_SHARDS, batch


class _WriteDeadLetters(beam.DoFn):
    def __init__(self, folder: str) -> None:
        self.folder = folder

    def process(self, element: tuple[int, Iterable[pa.RecordBatch]]) -> Iterator[str]:
        shard, batches = element
        make_folder(self.folder, private=True)
        path = FileSystems.join(self.folder, f"part-{shard:05d}.avro")
        # Engines hand over batches in any order; in a batch, the order is that of the file.
        ordered = sorted(batches, key=_place)
        contents = hashlib.sha256()
        for batch in ordered:
            contents.update("".join(batch.column("sha256").to_pylist()).encode())
        with replacing(path, private=True) as stream:
            records = (record for batch in ordered for record in batch.to_pylist())
            sync = contents.digest()[:16]
            fastavro.writer(stream, schema("dead_letter"), records, codec="deflate", sync_marker=sync)
        yield path


def _place(batch: pa.RecordBatch) -> tuple[str, int, int, str]:
    """Where the first dead letter of a batch stood, and its reason."""
    file, position, row, reason = (
        batch.column(name)[0].as_py() for name in ("file", "position", "row", "reason")
    )
    return file, -1 if position is None else position, -1 if row is None else row, reason


class WriteAccounting(beam.PTransform):
    """The counts of all stages, added up, to one JSON file."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path

    def expand(self, counts: beam.PCollection) -> beam.PCollection:
        """Wire the stages."""
        return (
            counts
            | "AddUp" >> beam.CombinePerKey(sum)
            | "ToOne" >> beam.Map(lambda pair: ("", pair))
            | "Together" >> beam.GroupByKey()
            | "WriteFile" >> beam.Map(_write_accounting, self.path)
        )


def _write_accounting(element: tuple[str, Iterable[tuple[str, int]]], path: str) -> str:
    with replacing(path) as stream:
        stream.write(json.dumps(accounting(element[1]), indent=2).encode() + b"\n")
    return path


def write_bytes(path: str, data: bytes) -> None:
    """A whole file, at once."""
    with replacing(path) as stream:
        stream.write(data)


def read_json(path: str) -> Any:
    """What is in a file of JSON.

    Raises:
        ValueError: if it is damaged.
    """
    with opened(path) as stream:
        try:
            return json.load(stream)
        except ValueError as error:
            raise ValueError(f"{path}: this is no JSON ({error})") from None


def read_json_lines(path: str) -> list[dict[str, Any]]:
    """The records in a file that has one a line."""
    with opened(path) as stream:
        return [json.loads(line) for line in stream.read().splitlines()]


def opened(path: str) -> Any:
    """A stream of a file on any file system."""
    return open_raw(path)
