"""Bringing the pieces of a key together in a batch run: through the engine's shuffle, or through files.

An engine on one machine holds what it shuffles in memory, several times over. Where all workers share a
disk, pieces are therefore spilled: each bundle appends its pieces to a file, and the engine shuffles their
places. A shard is read when it is folded. So a run holds one shard and the pieces that a bundle has
gathered, however many reports there are.

An engine may repeat a bundle, which then writes its pieces again. Only places that the engine committed are
read, so pieces of a bundle that failed are never counted.
"""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NamedTuple

import apache_beam as beam
import pyarrow as pa

from ldpbeam.transforms.reports.batch_coder import BatchCoder
from ldpbeam.transforms.storage import spilling_in
from ldpbeam.transforms.windows.coders import KeyCoder
from ldpbeam.transforms.windows.cut import Pieces
from ldpbeam.transforms.windows.piece_keys import PieceKey
from ldpbeam.transforms.windows.split import Cut

#: Small pieces are gathered in a buffer of this many bytes, and written together.
_BUFFER_BYTES = 2**20


class Place(NamedTuple):
    """Where a spilled piece is.

    Attributes:
        file: the number of its file, which is its name in hexadecimal digits.
        offset: its first byte.
        length: how many bytes it has.
    """

    file: int
    offset: int
    length: int


beam.coders.registry.register_coder(Place, KeyCoder)


@dataclass(eq=False)
class GroupPieces(beam.PTransform):
    """Cut batches of a channel, and bring the pieces of each key together.

    The input is a tuple of collections. The local engine would hold a Flatten of their batches in memory,
    so they are cut first.

    Attributes:
        pieces: how batches are cut.
        spill: the folder in which pieces are spilled, on a disk that all workers share; None for the engine's
            own shuffle.
    """

    pieces: Pieces
    spill: str | None = None

    def expand(
        self, branches: tuple[beam.PCollection[pa.RecordBatch], ...]
    ) -> tuple[
        beam.PCollection[tuple[PieceKey, Iterable[pa.RecordBatch]]], list[beam.PCollection[tuple[str, int]]]
    ]:
        """Cut each collection by itself, and group the pieces of all; give the counts of each cut, too."""
        cuts = [reports | f"Cut{number}" >> Cut(self.pieces) for number, reports in enumerate(branches, 1)]
        return brought_together([pieces for pieces, _ in cuts], self.spill), [counts for _, counts in cuts]


def brought_together(
    pieces: Sequence[beam.PCollection[tuple[PieceKey, pa.RecordBatch]]], spill: str | None
) -> beam.PCollection[tuple[PieceKey, Iterable[pa.RecordBatch]]]:
    """The pieces of each key in some collections; ``spill`` is that of :class:`GroupPieces`."""
    if spill is None:
        return pieces | "Pieces" >> beam.Flatten() | beam.GroupByKey()
    step = beam.ParDo(Spill(spill)).with_output_types(tuple[PieceKey, Place])
    places = [piece | f"Spill{number}" >> step for number, piece in enumerate(pieces, 1)]
    return (
        places
        | "Places" >> beam.Flatten()
        | beam.GroupByKey()
        | "ReadBack"
        >> beam.Map(_read_back, spill).with_output_types(tuple[PieceKey, Iterable[pa.RecordBatch]])
    )


class Spill(beam.DoFn):
    """Appends the batches of a bundle to a file, and emits (key, place of the batch)."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.file: IO[bytes] | None = None
        self.coder = BatchCoder()

    def start_bundle(self) -> None:
        """Leave the file of a bundle that failed as it is."""
        self.file = None

    def process(self, element: tuple[PieceKey, pa.RecordBatch]) -> Iterable[tuple[PieceKey, Place]]:
        """Write one piece."""
        key, piece = element
        with spilling_in(self.folder):
            if self.file is None:
                self.number, self.offset = secrets.randbits(62), 0
                self.file = _path(self.folder, self.number).open("xb", buffering=_BUFFER_BYTES)
            self.coder.write(piece, self.file)
            length = self.file.tell() - self.offset
        yield key, Place(self.number, self.offset, length)
        self.offset += length

    def finish_bundle(self) -> None:
        """Write what is left in the buffer."""
        if self.file is not None:
            with spilling_in(self.folder):
                self.file.close()


#: About the fewest bytes of a report in a spilled piece.
_REPORT_BYTES = 20


@dataclass(frozen=True)
class Spilled:
    """The pieces at some places, which are read whenever they are iterated over."""

    folder: str
    places: tuple[Place, ...]

    @property
    def reports(self) -> int:
        """About how many reports there are, or more."""
        return sum(place.length for place in self.places) // _REPORT_BYTES

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return read_pieces(self.folder, self.places)


def _read_back(element: tuple[PieceKey, Iterable[Place]], folder: str) -> tuple[PieceKey, Spilled]:
    key, places = element
    return key, Spilled(folder, tuple(places))


def read_pieces(folder: str, places: Iterable[Place]) -> Iterator[pa.RecordBatch]:
    """The pieces at some places, file by file from its start to its end."""
    coder = BatchCoder()
    for number, in_file in itertools.groupby(sorted(places), key=lambda place: place.file):
        with spilling_in(folder), pa.memory_map(str(_path(folder, number))) as file:
            for place in in_file:
                file.seek(place.offset)
                yield coder.decode(file.read_buffer(place.length))


def _path(folder: str, number: int) -> Path:
    return Path(folder, f"{number:x}")
