"""What opens a source of a stream, so that a run can read it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from ldpbeam.pipelines.runs.replays import Continued
from ldpbeam.schemas.reports.columns import Columns
from ldpbeam.transforms.sources.feeds import Feed
from ldpbeam.transforms.state.decoding import left_on_record
from ldpbeam.transforms.state.files import run_folder


@dataclass(frozen=True)
class Opened:
    """A feed that can be read.

    Attributes:
        feed: the feed.
        starts: (partition, the offset at which it begins); none if it has no offsets.
        removed: by partition, (the offset that is needed, the first that there is), where messages are gone.
        new: by partition that has lost the end of its log, the offset from which messages are new.
        server: where the feed is, if its name does not say it.
    """

    feed: Feed
    starts: tuple[tuple[int, int], ...] = ()
    removed: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    new: Mapping[int, int] = field(default_factory=dict)
    server: str | None = None


@dataclass(frozen=True)
class Run:
    """The run that is to read a source.

    Attributes:
        columns: the columns that are read.
        output: the output folder, whose journals say what earlier runs have read.
        name: the name of the run.
        continues: what an earlier process of the run left that matters to the feed; None in the first.
    """

    columns: Columns
    output: str
    name: str
    continues: Continued | None = None

    @property
    def folder(self) -> str:
        """The folder of the run."""
        return run_folder(self.output, self.name)

    @property
    def suspects(self) -> tuple[tuple[str, int], ...]:
        """Ids of messages that earlier runs left on record, and with how many each was."""
        return tuple(sorted(left_on_record(self.output).items()))


#: It raises UserError if the source cannot be reached, and an OSError or ValueError for the output folder.
Opening = Callable[[Run], AbstractContextManager[Opened]]
