"""A section of the page: a module of this package with a title and a function that measures."""

from __future__ import annotations

import importlib
import resource
import time


def measured(name: str) -> str:
    """A section of the page; runs in a process of its own."""
    start = time.monotonic()
    module = importlib.import_module(f"benchmarks.solvers.{name}")
    text: str = module.section().strip()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    took = time.monotonic() - start
    return f"{module.TITLE}\n\n{text}\n\nThe section took {took:.0f} s and {peak:,.0f} MB at most.\n"


def titled(name: str) -> str:
    """The title of a section."""
    title: str = importlib.import_module(f"benchmarks.solvers.{name}").TITLE
    return title
