"""All measurements, one after the other, each in a process of its own on one core.

A measurement is a module here with a function ``measure(folder)``, which returns fields of
:class:`~benchmarks.scale.measured.Measured`. All of them share the folder.
"""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.scale.measured import Measured
from benchmarks.scale.measuring import joining, memory, merging, reading, shuffle, stream

#: In this order: the memory of a partition is measured with the pieces that the join leaves in the folder.
MEASUREMENTS = {
    "reading": reading.measure,
    "shuffle": shuffle.measure,
    "joining": joining.measure,
    "memory": memory.measure,
    "merging": merging.measure,
    "stream": stream.measure,
}


def measure_here(name: str, folder: str) -> None:
    """Run one of the measurements in this process, on one core, and print what was found as JSON."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    pa.set_cpu_count(1)
    logging.getLogger().setLevel(logging.ERROR)
    print(json.dumps(MEASUREMENTS[name](Path(folder))))


def measure_all() -> Measured:
    """All of them, with the day and the processor."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in MEASUREMENTS:
            # A process that is started anew holds nothing but what it imports: its memory is measured too.
            code = f"from {__name__} import measure_here; measure_here({name!r}, {folder!r})"
            done = subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.PIPE, text=True)
            found |= json.loads(done.stdout.splitlines()[-1])
    for name, value in found.items():
        if isinstance(value, float):
            found[name] = float(f"{value:.4g}")
    processor = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    model = processor[1] if processor else "unknown"
    return Measured(day=f"{datetime.now(UTC):%Y-%m-%d}", processor=model, **found)
