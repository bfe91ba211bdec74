"""One table of zones, that of the package: what clocks show on a day lies in that day's window."""

from __future__ import annotations

import importlib.resources
import os
import subprocess
import sys

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


CODE = """
import datetime as dt, zoneinfo
zoneinfo.reset_tzpath([])
import ldpbeam as ldp
service = {"mechanism": "grr", "epsilon": 1}
attributes = {"x": {"domain": {"categories": 3}, "services": {"s": service}}}
for zone in ("America/New_York", "Europe/Berlin"):
    windows = {"size": "1d", "zone": zone}
    study = ldp.Study.from_dict(
        study="t", zone=zone, windows=windows, publish={"at_least": 1}, attributes=attributes
    )
    times = [f"2026-01-15T{hour}:30:00" for hour in ("00", "23")]
    reports = [{"user_id": f"u{i}{t}", "payload": i % 3, "event_time": t} for i in range(3) for t in times]
    starts = [record.window[0] // 1000 for record in ldp.estimate(study, reports)]
    assert [dt.datetime.fromtimestamp(start, zoneinfo.ZoneInfo(zone)).day for start in starts] == [15]
"""


def test_a_machine_whose_table_of_zones_is_slim_changes_nothing() -> None:
    """The library of Arrow reads the files of the machine, and knows no rules that follow the last change."""
    mounted = 'mount --bind "$0" /usr/share/zoneinfo && exec "$1" -c "$2"'
    command = ["unshare", "-m" if os.geteuid() == 0 else "-rm", "sh", "-c"]
    if subprocess.run([*command, "mount --bind / /mnt"], capture_output=True).returncode:
        pytest.skip("this machine mounts nothing")
    done = subprocess.run(
        [*command, mounted, str(FILES), sys.executable, CODE], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
