"""The settings of a stream's source, which every worker gets."""

from __future__ import annotations

from dataclasses import dataclass

from ldpbeam.transforms.sources.feeds import Feed
from ldpbeam.transforms.sources.replay import Replay
from ldpbeam.windows import Windows


@dataclass(frozen=True)
class ReadingOptions:
    """What the options of ``ldpbeam stream`` say of how reports are read.

    Each has the name of its option. Where the engine's own source reads, as on Dataflow, none may be given.

    Attributes:
        max_disorder: how many milliseconds out of order reports arrive at most.
        stop_when_idle: milliseconds without a report after which the run finishes; None to run on.
    """

    max_disorder: int
    stop_when_idle: int | None = None


@dataclass(frozen=True)
class Reading:
    """The settings of a stream's source.

    Attributes:
        feed: where reports arrive.
        attributes: the attributes of the study.
        windows: the windows of the study.
        output: the output folder, which holds the journal.
        run: the run's name.
        options: what the options say of how they are read.
        readers: how many places read at once, on engines with slots for several.
        stays: whether a finished reader keeps its job running, with a watermark past every window, until the
            process that waits for the job ends it. Flink needs this: it clears the state of a global window
            at the end of time, before Python's last timers have fired (docs/decisions/19-one-timer.md).
        replay: what an earlier process of the run left, if another can read the feed again; None if the
            engine's state survives, or the feed has no offsets.
    """

    feed: Feed
    attributes: tuple[str, ...]
    windows: Windows
    output: str
    run: str
    options: ReadingOptions
    readers: int = 1
    stays: bool = False
    replay: Replay | None = None
