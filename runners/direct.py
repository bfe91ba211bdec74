"""The local engine, which runs a bounded pipeline in one process.

Beam's ``DirectRunner`` silently chooses one of three engines. This module names the one that runs bounded
pipelines with split reads and combiner lifting: ``FnApiRunner``. It holds each shuffled stage in memory, so
reports are spilled (:mod:`ldpbeam.transforms.windows.shuffle`). It has one worker: two were slower, measured
on two cores.
"""

from __future__ import annotations

from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.runners.runner import PipelineRunner


def runner() -> PipelineRunner:
    """The engine for a bounded local pipeline."""
    return FnApiRunner()
