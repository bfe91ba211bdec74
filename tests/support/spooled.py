"""Runs of the spool in this process: a feed of batches, a date that stands, panes finished at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ldpbeam.cells import Cells
from ldpbeam.fit.spending import Spending
from ldpbeam.library.tables import decoded_batches
from ldpbeam.pipelines.spool.finish import Finished, Finishing, Pane, finish_all
from ldpbeam.pipelines.spool.manifest import Manifest, read_manifest
from ldpbeam.pipelines.spool.place import StreamOutput
from ldpbeam.pipelines.spool.run import Run
from ldpbeam.schemas.outputs.snapshots import Snapshot, read_snapshots
from ldpbeam.study import Study
from ldpbeam.transforms.reports.validation import checked_columns
from ldpbeam.transforms.sources.feeds import FeedBatch, FeedState, OpenFeed

RUN = "20261129T000000Z-aaaaaaaa"


def in_polls(study: Study, reports: pa.Table, rows: int) -> list[pa.RecordBatch]:
    """A table of reports as decoded batches of so many rows."""
    columns = checked_columns(study, None, None)
    parts = (reports.slice(start, rows) for start in range(0, reports.num_rows, rows))
    return [batch for part in parts for batch in decoded_batches(part, columns)]


@dataclass
class BatchFeed(OpenFeed):
    """Gives batches, each published a second after its last event, or by the server's clock."""

    batches: Sequence[pa.RecordBatch]
    next: int = 0
    committed: int = 0
    asked: int = 0
    clock: int = 2**62
    lost: int | None = None

    def take(self) -> FeedBatch | None:
        """The next batch; None at the end."""
        if self.next == len(self.batches):
            return None
        batch = self.batches[self.next]
        self.next += 1
        last = int(batch.column("event_time").to_numpy(zero_copy_only=False).max())
        published = min(last + 1_000, self.clock)
        return FeedBatch([batch], [], published, oldest=min(last, published))

    @property
    def state(self) -> FeedState:
        """Nothing is known of silence."""
        return FeedState({0: None}, self.lost)

    def position(self) -> Mapping[str, Any]:
        """How many batches were taken."""
        self.asked = self.next
        return {"next": self.next}

    def commit(self) -> None:
        """Remember what is committed."""
        self.committed = self.asked

    def close(self) -> None:
        """Nothing is open."""


@dataclass
class Clock:
    """A clock that goes on by some milliseconds each time that it is looked at; the date stands."""

    date: int
    milliseconds: int = 0

    def elapsed(self) -> int:
        """Milliseconds since it began."""
        self.milliseconds += 10
        return self.milliseconds

    def now(self) -> int:
        """The date."""
        return self.date


@dataclass
class AtOnce:
    """Finishes panes in this process when they are begun."""

    how: Finishing
    ready: list[tuple[Pane, Finished | None]] = field(default_factory=list)

    def begin(self, pane: Pane) -> None:
        """Finish a pane."""
        self.ready.append((pane, finish_all(self.how, [pane])[0][0]))

    def finished(self) -> Iterator[tuple[Pane, Finished | None]]:
        """The panes since the last call."""
        ready, self.ready = self.ready, []
        return iter(ready)


@dataclass(frozen=True)
class Stream:
    """A stream of batches into a folder."""

    study: Study
    batches: Sequence[pa.RecordBatch]
    output: Path
    disorder: int = 60_000

    @property
    def folder(self) -> Path:
        """The folder of the run."""
        return self.output / "runs" / RUN

    def begin(self) -> Run:
        """A process that goes on with what the last one has committed."""
        output, fingerprint = StreamOutput(self.study, str(self.output), RUN), self.study.fingerprint
        manifest = read_manifest(output.spool, fingerprint) or Manifest(fingerprint)
        spending = Spending(0, 0, 0, Cells(self.study.windows.period), 1)
        date = max(int(np.max(batch.column("event_time").to_numpy())) for batch in self.batches) + 1
        return Run(
            output,
            manifest,
            BatchFeed(self.batches, manifest.position.get("next", 0)),
            AtOnce(Finishing(output, spending)),
            Clock(date),
            disorder=self.disorder,
        )

    def turns(self, run: Run, most: int = 10**9) -> bool:
        """Let a process make turns; whether the feed came to its end."""
        for _ in range(most):
            feed = run.feed
            assert isinstance(feed, BatchFeed)
            if feed.next == len(feed.batches):
                return True
            run.turn()
        return False

    def end(self, run: Run) -> None:
        """End all windows."""
        run.end_windows()
        run.commit()
        run.settle()
        run.commit(ended=run.clock.now())

    def through(self, kills: Sequence[int] = ()) -> Run:
        """Run to the end; processes are killed after so many turns each."""
        for turns in kills:
            if self.turns(self.begin(), turns):
                break
        run = self.begin()
        self.turns(run)
        self.end(run)
        return run

    def snapshots(self) -> dict[tuple[Any, ...], Snapshot]:
        """The snapshots of the last pane of each window."""
        return {
            (one.attribute, one.window, one.group, one.other_groups): one
            for path in sorted(self.output.glob("statistics/*.avro"))
            for one in read_snapshots(path.open("rb"))
        }
