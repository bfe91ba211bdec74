"""What opens a source of a stream, so that a run can read it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from ldpbeam.pipelines.runs.replays import Continued
from ldpbeam.schemas.reports.columns import Columns
from ldpbeam.transforms.sources.feeds import Feed


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


#: It takes the columns that are read, the output folder, whose journals say what earlier runs have read, the
#: name of the run, and what an earlier process of the run left that matters to the feed; None if none did. It
#: raises UserError if the source cannot be reached.
Opening = Callable[[Columns, str, str, Continued | None], AbstractContextManager[Opened]]
