"""The received reports of a run, in files of its ledger."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field, replace

import apache_beam as beam
import numpy as np
import pyarrow as pa

from ldpbeam.over_time.received import Received, distinct
from ldpbeam.schemas.outputs.ledger_format import About, bits_for, from_batch, write_rows
from ldpbeam.transforms.storage import join, make_folder, replacing

#: A worker writes a file when it holds this many rows, or a bundle ends.
MOST_ROWS = 2**20


@dataclass(frozen=True)
class Keeping:
    """Where the rows of a ledger over periods go.

    Attributes:
        folder: the folder of the files.
        about: what each file says of itself.
        key: the key of the hashes of user ids and payloads.
    """

    folder: str
    about: About
    key: bytes = field(repr=False)


class WriteReceived(beam.DoFn):
    """Write the rows of each bundle to files that their owner alone can read.

    A bundle that an engine repeats writes its rows again, under another name. That does no harm, because the
    rows of all files are a set.
    """

    def __init__(self, keeping: Keeping) -> None:
        # Workers that write need not have the key.
        self.folder = keeping.folder
        self.about = keeping.about
        self.waiting: list[Received] = []

    def start_bundle(self) -> None:
        """Hold no rows."""
        self.waiting = []

    def process(self, batch: pa.RecordBatch) -> None:
        """Hold rows, until they are many."""
        self.waiting.append(from_batch(batch, Received))
        if sum(map(len, self.waiting)) >= MOST_ROWS:
            self._write()

    def finish_bundle(self) -> None:
        """Write what is held."""
        if self.waiting:
            self._write()

    def _write(self) -> None:
        rows = distinct(Received.concatenated(self.waiting))
        self.waiting = []
        make_folder(self.folder, private=True)
        windows = tuple(np.unique(rows.window).tolist())
        about = replace(self.about, rows=len(rows), bits=bits_for(len(rows)), windows=windows)
        path = join(self.folder, f"{uuid.uuid4().hex}.arrow")
        with replacing(path, private=True) as stream:
            write_rows(stream, path, Received, about, [rows])
