"""What a stream reads, and how: the settings that travel to every worker."""

from __future__ import annotations

from dataclasses import dataclass

from ldpbeam.transforms.sources.feeds import Feed
from ldpbeam.windows import Windows


@dataclass(frozen=True)
class Reading:
    """How a stream reads.

    Attributes:
        feed: where reports arrive.
        attributes: the attributes of the study.
        windows: the windows of the study.
        output: the output folder, which holds the journal.
        run: the run's name.
        disorder: how many milliseconds out of order reports arrive at most.
        stop_when_idle: a run finishes when nothing has arrived for so many milliseconds; None to go on.
        readers: how many readers there are on engines that can use several.
        stays: whether a reader that has finished keeps its job alive, with a watermark past every window,
            until the process that waits for the job ends it. Flink clears the state of a global window at the
            end of time, when timers of Python are still on their way (docs/decisions/19-one-timer.md).
    """

    feed: Feed
    attributes: tuple[str, ...]
    windows: Windows
    output: str
    run: str
    disorder: int
    stop_when_idle: int | None = None
    readers: int = 1
    stays: bool = False
