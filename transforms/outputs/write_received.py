"""Writing the received reports of a run as a Beam DoFn."""

from __future__ import annotations

import apache_beam as beam
import pyarrow as pa

from ldpbeam.transforms.outputs.ledger_parts import Keeping, write_part

#: A worker writes a file when it holds this many rows, or a bundle ends.
MOST_ROWS = 2**20


class WriteReceived(beam.DoFn):
    """Write the rows of each bundle to files that their owner alone can read.

    A bundle that an engine repeats writes its rows again, under another name. That does no harm, because the
    rows of all files are a set.
    """

    def __init__(self, keeping: Keeping) -> None:
        # Workers that write need not have the key.
        self.folder = keeping.folder
        self.about = keeping.about
        self.waiting: list[pa.RecordBatch] = []

    def start_bundle(self) -> None:
        """Hold no rows."""
        self.waiting = []

    def process(self, batch: pa.RecordBatch) -> None:
        """Hold rows, until they are many."""
        self.waiting.append(batch)
        if sum(map(len, self.waiting)) >= MOST_ROWS:
            self._write()

    def finish_bundle(self) -> None:
        """Write what is held."""
        if self.waiting:
            self._write()

    def _write(self) -> None:
        waiting, self.waiting = self.waiting, []
        write_part(self.folder, self.about, waiting)
