"""One table of zones, that of the package: what clocks show on a day lies in that day's window."""

from __future__ import annotations

import importlib.resources
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from ldpbeam.cells import DAY, MONDAY, Cells, clock_of
from ldpbeam.schemas.reports.casts import cast_column

FILES = importlib.resources.files("tzdata").joinpath("zoneinfo")
NAMES = importlib.resources.files("tzdata").joinpath("zones").read_text().split()
#: A zone of each set of rules: the others are other names of these.
ZONES = [*{FILES.joinpath(*name.split("/")).read_bytes(): name for name in NAMES}.values()]
#: Days from 1970 to 2100: all of some years would take minutes, so every zone has others.
FIRST, LAST = 0, 47_846
TIMES = ("00:30:00", "23:30:00")


def days_of(texts: list[str], zone: str) -> np.ndarray:
    """The day of the window of each time, counted from 1970; -1 for a time that there is not, or twice."""
    clock = clock_of(zone)
    times = cast_column("event_time", pa.array(texts), clock)
    days = Cells(DAY, clock=clock).numbers(times.fill_null(0).to_numpy()) + MONDAY // DAY
    return np.where(times.is_valid().to_numpy(zero_copy_only=False), days, -1)


@pytest.mark.parametrize("part", range(4))
def test_half_past_midnight_and_half_an_hour_before_it_lie_in_the_window_of_their_day(part: int) -> None:
    for index, zone in enumerate(ZONES[part::4]):
        changes = np.array([change // DAY for change, _ in clock_of(zone).changes[1:]], dtype=np.int64)
        near = np.unique(np.add.outer(changes[(changes > FIRST) & (changes < LAST)], [-1, 0, 1]))
        days = np.union1d(np.arange(index % 97, LAST, 97), near)
        shown = [str(day) for day in days.astype("datetime64[D]")]
        for time in TIMES:
            found = days_of([f"{day}T{time}" for day in shown], zone)
            there = found >= 0
            np.testing.assert_array_equal(found[there], days[there], err_msg=zone)
            # Few changes are at midnight.
            assert there.mean() > 0.8


#: What every way in makes of two times of a day, of winter and of summer, in files without zones.
CODE = """
import json, pathlib, sys
import apache_beam as beam
import ldpbeam as ldp
from ldpbeam.command_line.main import main

folder, service = pathlib.Path(sys.argv[1]), {"mechanism": "grr", "epsilon": 1}
stated = {"attribute": "x", "service": "s"}
for zone, hours in (("America/New_York", (5, 4)), ("Europe/Berlin", (-1, -2))):
    own = folder / zone.replace("/", "-")
    (own / "in").mkdir(parents=True)
    study = {
        "study": "t", "zone": zone, "windows": {"size": "1d", "zone": zone}, "publish": {"at_least": 1},
        "attributes": {"x": {"domain": {"categories": 3}, "services": {"s": service}}},
    }
    (own / "study.yaml").write_text(json.dumps(study))
    days = ("2026-01-15", "2026-07-15")
    times = [f"{day}T{time}:00" for day in days for time in ("00:30", "23:30")]
    reports = [
        {"user_id": f"u{i}{t}", "payload": i % 3, "event_time": t, **stated} for t in times for i in range(3)
    ]
    lines = "".join(json.dumps(report) + chr(10) for report in reports)
    (own / "in" / "reports.jsonl").write_text(lines)
    given = ["--study", str(own / "study.yaml"), "--input", str(own / "in" / "*"), "--quiet", "--output"]
    assert main(["estimate", *given, str(own / "batch")]) == 0
    assert main(["stream", *given, str(own / "stream"), "--stop-when-idle", "1s"]) == 0
    with beam.Pipeline() as pipeline:
        found = (pipeline | beam.Create(reports) | ldp.beam.Estimate(str(own / "study.yaml"))).as_dicts()
        _ = found.estimates | beam.Map(json.dumps) | beam.io.WriteToText(str(own / "beam" / "estimates"))
    library = ldp.estimate(ldp.Study.from_yaml(own / "study.yaml"), reports)
    starts = {"library": {record.window_start for record in library}}
    for way in ("batch", "stream", "beam"):
        patterns = {"batch": "estimates.jsonl", "stream": "estimates/*.jsonl", "beam": "estimates-*"}
        files = (own / way).glob(patterns[way])
        rows = [json.loads(line) for path in files for line in path.read_text().splitlines()]
        assert sum(row["reports"] for row in rows) == len(reports), (way, rows)
        starts[way] = {row["window_start"] for row in rows}
    wanted = set()
    for day, hour in zip(days, hours):
        before = day[:-1] + "4"
        wanted.add(f"{day}T{hour:02}:00:00Z" if hour > 0 else f"{before}T{24 + hour}:00:00Z")
    assert all(each == wanted for each in starts.values()), (zone, wanted, starts)
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["slim", "of one zone"])
def test_a_machine_with_another_table_of_zones_changes_nothing_on_any_way_in(
    kind: str, tmp_path: Path
) -> None:
    """The library of Arrow reads the machine's files; slim ones have no rules that follow the last change."""
    table = tmp_path / "zones"
    with importlib.resources.as_file(FILES) as files:
        shutil.copytree(files, table)
    if kind == "of one zone":
        for path in table.rglob("*"):
            if path.is_file() and path.read_bytes().startswith(b"TZif"):
                path.write_bytes((table / "Asia" / "Tokyo").read_bytes())
    mounted = 'mount --bind "$0" /usr/share/zoneinfo && exec "$1" -c "$2" "$3"'
    command = ["unshare", "-m" if os.geteuid() == 0 else "-rm", "sh", "-c"]
    if subprocess.run([*command, "mount --bind / /mnt"], capture_output=True).returncode:
        pytest.skip("this machine mounts nothing")
    done = subprocess.run(
        [*command, mounted, str(table), sys.executable, CODE, str(tmp_path / "runs")],
        env={**os.environ, "PYTHONTZPATH": str(table), "TZDIR": str(table)},
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
