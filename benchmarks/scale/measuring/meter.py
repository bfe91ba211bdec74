"""Times of the processor and bytes of memory, as one process sees its own."""

from __future__ import annotations

import gc
import re
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import apache_beam as beam


def spent(work: Callable[[], Any], runs: int = 3) -> float:
    """Microseconds of the processor, the best of some runs."""
    found = []
    for _ in range(runs):
        gc.collect()
        started = time.process_time()
        work()
        found.append(time.process_time() - started)
    return 1e6 * min(found)


def line(few: tuple[float, float], many: tuple[float, float]) -> tuple[float, float]:
    """(constant, slope) of the line through two points."""
    slope = (many[1] - few[1]) / (many[0] - few[0])
    return max(0.0, few[1] - slope * few[0]), slope


def outputs(function: Any, elements: Iterable[Any], *given: Any) -> list[Any]:
    """The main output of a DoFn for a bundle."""
    function.start_bundle()
    found = [one for element in elements for one in function.process(element, *given) or ()]
    found += function.finish_bundle() or ()
    return [getattr(one, "value", one) for one in found if not isinstance(one, beam.pvalue.TaggedOutput)]


def resident(peak: bool = False) -> float:
    """The bytes of this process in memory: now, or the most since :func:`forget_peak`."""
    status = Path("/proc/self/status").read_text()
    return 1024 * float(re.findall(rf"{'VmHWM' if peak else 'VmRSS'}:\s+(\d+) kB", status)[0])


def forget_peak() -> None:
    """Start again to look for the most bytes in memory."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")
