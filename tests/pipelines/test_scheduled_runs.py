"""A scheduled run through the command: whole windows, where they are, and too much bad input."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ldpbeam.times import rfc3339

HOUR = 3_600_000
START = 1_795_168_800_000  # 2026-11-20T10:00:00Z
FIXED = "windows: {size: 1h}\ngroups: {field: region, at_most: 2}\n"


@pytest.fixture(scope="module")
def records() -> list[dict[str, Any]]:
    """Six hours of reports, no two at a time: users come again, ids are in two windows, some are bad."""
    rng = random.Random(5)
    made = []
    for place in range(1500):
        record = {
            "user_id": f"u{rng.randrange(200)}",
            "attribute": "x",
            "service": rng.choice("ab"),
            "event_time": START + rng.randrange(360) * 60_000 + place,
            "payload": 99.0 if place % 100 == 0 else rng.uniform(-2, 2),
            "region": rng.choice(["n", "n", "n", "s", "s", "e"]),
        }
        made.append(record | ({"report_id": f"r{rng.randrange(200)}"} if place % 4 == 0 else {}))
    return made


@pytest.fixture(scope="module")
def reports(
    records: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory, write_lines: Callable[..., Path]
) -> Path:
    """They, in three files."""
    folder = tmp_path_factory.mktemp("reports")
    for place in range(3):
        write_lines(folder / f"{place}.jsonl", records[place::3])
    return folder / "*.jsonl"


def span(start: float, stop: float) -> tuple[str, ...]:
    """The options for some hours after START."""
    ends = [rfc3339(START + round(hour * HOUR)) for hour in (start, stop)]
    return "--from", ends[0], "--to", ends[1]


def test_a_run_says_where_its_outputs_are_and_too_much_bad_input_is_exit_code_3(
    reports: Path, small_text: str, tmp_path: Path, run_estimate: Any
) -> None:
    found = run_estimate(
        tmp_path, small_text + FIXED, [reports], *span(0.5, 3.25), "--max-bad-fraction", "0.001"
    )
    assert found.code == 3, found.err
    names = [path.name for path in sorted((found.path / "estimates").iterdir())]
    hours = [f"20261120T{hour}0000Z-20261120T{hour + 1}0000Z" for hour in (11, 12)]
    assert names == [f"small-x-{hour}.jsonl" for hour in hours]
    for hour, name in zip((11, 12), names, strict=True):
        lines = (found.path / "estimates" / name).read_text().splitlines()
        estimates = [json.loads(line) for line in lines]
        assert [(e["group"], e["other_groups"], e["name"]) for e in estimates] == [
            (group, others, name)
            for group, others in (("n", 0), ("s", 0), (None, 1))
            for name in ("mean", "both")
        ]
        assert {e["window_start"] for e in estimates} == {f"2026-11-20T{hour}:00:00Z"}
    assert f"windows from 2026-11-20T11:00:00Z to 2026-11-20T13:00:00Z are in {found.path}" in found.out
    run = f"{found.path}/runs/20261120T110000Z-20261120T130000Z"
    assert f"the accounting is in {run}" in found.out
    fates = ("used", "duplicates", "late", "out_of_range", "dead_letters")
    assert sum(found.accounting[fate] for fate in fates) == found.accounting["in"] == 1500
    assert "15 dead letters" in found.out
