"""Batches and windowed elements lose what lies outside ``--from`` and ``--to``."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from ldpbeam.transforms.windows.split import _inside
from ldpbeam.windows import Span

HOUR = 3_600_000


def test_batches_lose_the_reports_outside_and_those_are_counted() -> None:
    batches = [
        pa.RecordBatch.from_pydict({"event_time": times, "user": [str(time) for time in times]})
        for times in ([-1, 0, 9, 10], [5, 6], [-5, 20])
    ]
    found: list[Any] = [list(_inside(batch, Span(0, 10))) for batch in batches]
    assert [item.value for item in (found[0][0], *found[2])] == [("out_of_range", 2), ("out_of_range", 2)]
    assert found[0][1].column("user").to_pylist() == ["0", "9"]
    assert found[1] == [batches[1]]
