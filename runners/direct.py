"""The local engine: everything in one process.

Beam's ``DirectRunner`` is a switch that silently picks one of three engines; this names the one that
can run bounded pipelines with split reads and combiner lifting: ``FnApiRunner``. It holds each
shuffled stage in memory, one worker: with two, measured on two cores, it was slower.
"""

from __future__ import annotations

from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.runners.runner import PipelineRunner

NAME = "direct"


def runner() -> PipelineRunner:
    """The engine for a bounded local pipeline."""
    return FnApiRunner()
