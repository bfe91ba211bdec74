"""How long ledgers of many users and windows take to add up, and in how much memory.

Each file is what a scheduled run of one hour keeps: one report of each user to one service with remembered
noise. `python -m benchmarks.ledger --users 10000000 --hours 6` writes the files, adds them up in a process of
its own, and prints bytes per user, seconds per hour and the peak memory of that process.
`--users 100000 --hours 720` has as many files as a month.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from ldpbeam.pipelines.estimates.period_ledger import totals_of
from ldpbeam.pipelines.runs.received import files_of
from ldpbeam.schemas.outputs.received import BATCH_ROWS, About, bits_for, write_received
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.spent import Received

HOUR = 3_600_000
START = 1_793_664_000_000  # 2026-11-03T00:00:00Z, where a period of 30 days begins
STUDY = """\
study: month
attributes:
  x:
    domain: {categories: 20}
    services: {app: {mechanism: grr, epsilon: 1, lifetime_epsilon: 2}}
windows: {size: 1h}
ledger: {period: 30d, cap: 60}
"""


def write_hours(folder: Path, users: int, hours: int) -> int:
    """Write a file per hour of the same users, and return the bytes of one."""
    study = parse_study(STUDY)
    rng = np.random.default_rng(1)
    high = np.sort(rng.integers(0, 2**64, users, dtype=np.uint64))
    low = rng.integers(0, 2**64, users, dtype=np.uint64)
    service = np.zeros(users, dtype=np.uint16)
    (folder / "ledger").mkdir()
    path = folder
    for hour in range(hours):
        start = START + hour * HOUR
        about = About(study.fingerprint, "0" * 32, start, start + HOUR, hour, bits_for(users), users)
        payload = rng.integers(0, 2**64, users, dtype=np.uint64)
        window = np.full(users, start, dtype=np.int64)
        path = folder / "ledger" / f"received-{hour:05d}.arrow"
        with path.open("wb") as stream:
            write_received(stream, about, [Received(high, low, window, service, payload)])
    return path.stat().st_size


def add_up(folder: str) -> None:
    """Add up the files of a folder, and print what it took."""
    files = files_of([folder])
    began = time.perf_counter()
    totals = totals_of(parse_study(STUDY), files)
    seconds = time.perf_counter() - began
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    for spent in totals.values():
        users = spent.about_values.users.sum()
        print(f"{users:,} users, {spent.reports:,} reports: {spent.about_values.levels()}")
    print(f"{seconds / len(files):.2f} s a file, {seconds:.1f} s in all, at most {memory / 1e9:.2f} GB")


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", type=int, default=1_000_000)
    parser.add_argument("--hours", type=int, default=24)
    parser.add_argument("--folder", help="only add up the files here")
    options = parser.parse_args()
    if options.folder:
        add_up(options.folder)
        return
    with tempfile.TemporaryDirectory() as folder:
        size = write_hours(Path(folder), options.users, options.hours)
        print(
            f"{options.users:,} users, {options.hours} hours: {size / options.users:.1f} bytes a user and "
            f"hour, in batches of about {BATCH_ROWS:,} rows",
            flush=True,
        )
        subprocess.run([sys.executable, "-m", "benchmarks.ledger", "--folder", folder], check=True)


if __name__ == "__main__":
    main()
