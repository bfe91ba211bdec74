"""A section of the page: a module of this package with a title and a function that measures."""

from __future__ import annotations

import importlib
import resource
import time

from benchmarks.pages import Table


def measured(name: str) -> list[str | Table]:
    """The lines of a section of the page; runs in a process of its own."""
    start = time.monotonic()
    module = importlib.import_module(f"benchmarks.solvers.{name}")
    lines: list[str | Table] = module.section()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    took = time.monotonic() - start
    return [
        f"## {module.TITLE}", "", *lines, "", f"The section took {took:.0f} s and {peak:,.0f} MB at most.", ""
    ]  # fmt: skip
