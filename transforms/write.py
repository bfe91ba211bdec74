"""What a run leaves: snapshots by attribute and window, dead letters, and the accounting.

Every file is written under a temporary name and renamed, so that a retried or failed worker leaves no
half of one; the names depend on the contents' window alone, so that a retry writes the same file.
"""

from __future__ import annotations

import contextlib
import json
import uuid
import zlib
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import IO, Any, cast

import apache_beam as beam
import fastavro
import pyarrow as pa
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems

from ldpbeam.schemas.avro import schema
from ldpbeam.schemas.snapshots import Snapshot, write_snapshots
from ldpbeam.schemas.study import Study
from ldpbeam.schemas.study_file import fingerprint
from ldpbeam.transforms.counts import accounting
from ldpbeam.transforms.files import literal

#: Dead letters are gathered into at most this many files.
DEAD_LETTER_SHARDS = 4


@contextlib.contextmanager
def replacing(path: str) -> Iterator[IO[bytes]]:
    """A stream to a temporary file that becomes ``path`` at the end, or nothing if there is an error."""
    folder, name = FileSystems.split(path)
    temporary = FileSystems.join(folder, f".{name}.{uuid.uuid4().hex}")
    stream = cast("IO[bytes]", FileSystems.create(temporary, compression_type=CompressionTypes.UNCOMPRESSED))
    try:
        with stream:
            yield stream
        FileSystems.rename([temporary], [path])
    except BaseException:
        with contextlib.suppress(Exception):
            FileSystems.delete([literal(temporary)])
        raise


def make_folder(path: str) -> None:
    """A folder, where the file system has folders and this one is not there yet."""
    if not FileSystems.exists(path):
        FileSystems.mkdirs(path)


def snapshot_name(attribute: str, window: tuple[int, int] | None) -> str:
    """The name of the file of an attribute's snapshots of a window."""
    if window is None:
        return f"{attribute}-all.avro"
    return f"{attribute}-{_compact(window[0])}-{_compact(window[1])}.avro"


def _compact(milliseconds: int) -> str:
    moment = datetime.fromtimestamp(milliseconds / 1000, tz=UTC)
    fraction = f".{milliseconds % 1000:03d}" if milliseconds % 1000 else ""
    return f"{moment:%Y%m%dT%H%M%S}{fraction}Z"


def write_window(study: Study, folder: str, run: str, snapshots: list[Snapshot]) -> str:
    """A file of the snapshots of one attribute and window; gives its path."""
    attribute = snapshots[0].attribute
    path: str = FileSystems.join(folder, snapshot_name(attribute, snapshots[0].window))
    make_folder(folder)
    with replacing(path) as stream:
        write_snapshots(
            stream,
            snapshots,
            study.attribute(attribute),
            study=study.study,
            study_fingerprint=fingerprint(study),
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
        make_folder(self.folder)
        path = FileSystems.join(self.folder, f"part-{shard:05d}.avro")
        with replacing(path) as stream:
            records = (record for batch in batches for record in batch.to_pylist())
            fastavro.writer(stream, schema("dead_letter"), records, codec="deflate")
        yield path


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


def opened(path: str) -> Any:
    """A stream of a file on any file system."""
    return FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED)
