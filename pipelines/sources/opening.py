"""What opens a source of a stream, so that a run can read it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from ldpbeam.schemas.reports.columns import Columns
from ldpbeam.transforms.outputs.names import RUNS
from ldpbeam.transforms.sources.feeds import Feed, Position
from ldpbeam.transforms.storage import join


def _nothing() -> None:
    """There is nothing to do."""


@dataclass(frozen=True)
class Opened:
    """A feed that can be read.

    Attributes:
        feed: the feed.
        position: where it is opened, as the server has the messages now; None for its beginning.
        removed: by partition, (the offset that is needed, the first that there is), where messages are gone.
        server: where the feed is, if its name does not say it.
        finish: what a run calls that nobody continues: it has ended, or ends before its first commit. A run
            that is stopped does not call it.
    """

    feed: Feed
    position: Position | None = None
    removed: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    server: str | None = None
    finish: Callable[[], None] = _nothing


@dataclass(frozen=True)
class Run:
    """The run that is to read a source.

    Attributes:
        columns: the columns that are read.
        output: the output folder.
        name: the name of the run.
        position: that of its last commit; None if it begins.
        earlier: the positions of other runs into the folder, which have ended.
    """

    columns: Columns
    output: str
    name: str
    position: Position | None = None
    earlier: Sequence[Position] = ()

    @property
    def folder(self) -> str:
        """The folder of the run."""
        return join(self.output, RUNS, self.name)


#: It raises UserError if the source cannot be reached, and an OSError or ValueError for the output folder.
Opening = Callable[[Run], AbstractContextManager[Opened]]
