"""How long the ledger of an hour takes to be added to those of the hours before, and in how much memory.

Each hour, every user sends one report with remembered noise to one service. The hour's file is what a
scheduled run keeps; it is added to the sums of the hours before in a process of its own, as the run does, and
deleted, so that the disk need not hold a month.
`python -m benchmarks.ledger --users 10000000 --hours 720` prints for each hour the bytes of its file and of
the sums for each user, the seconds, and the most memory that any hour has taken.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa

from ldpbeam.folders.output import LEDGER_FOLDER, LEDGER_SUMS, Output
from ldpbeam.pipelines.runs.ledger_folder import ReceivedFile, write_sums
from ldpbeam.schemas.outputs.ledger_format import RECEIVED_SCHEMA, About, write_rows
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.transforms.reports.ledger_rows import ledger_fingerprint

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


def write_hour(folder: Path, hour: int, users: tuple[np.ndarray, np.ndarray]) -> ReceivedFile:
    """Write the file of an hour in which every user reports."""
    high, low = users
    start = START + hour * HOUR
    study = ledger_fingerprint(parse_study(STUDY))
    about = About(study, "0" * 32, start, start + HOUR, hour, len(high), (start,))
    window = np.full(len(high), start, dtype=np.int64)
    payload = np.random.default_rng(hour).integers(0, 2**64, len(high), dtype=np.uint64)
    columns = high, low, window, np.zeros(len(high), dtype=np.uint16), payload
    rows = pa.RecordBatch.from_arrays([pa.array(each) for each in columns], schema=RECEIVED_SCHEMA)
    path = folder / f"received-{hour:05d}.arrow"
    with path.open("wb") as stream:
        write_rows(stream, str(path), RECEIVED_SCHEMA, about, [rows])
    return ReceivedFile(str(folder), str(path), about)


def add(folder: str, before: Sequence[ReceivedFile], after: Sequence[ReceivedFile]) -> str:
    """Add an hour to the sums, and say what it took and what the ledger has."""
    began, cpu = time.perf_counter(), time.process_time()
    study = parse_study(STUDY)
    made = Output(study, str(Path(folder) / "made"), "benchmark")
    ((_, spent),) = write_sums(made, before, after).items()
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return (
        f"{seconds:.1f} s ({cpu:.1f} s of a core), at most {memory / 1e9:.2f} GB; "
        f"{spent.about_values.users.sum():,} users, {spent.reports:,} reports, {spent.about_values.levels()}"
    )


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", type=int, default=1_000_000)
    parser.add_argument("--hours", type=int, default=24)
    options = parser.parse_args()
    rng = np.random.default_rng(1)
    high = np.sort(rng.integers(0, 2**64, options.users, dtype=np.uint64))
    users = high, rng.integers(0, 2**64, options.users, dtype=np.uint64)
    spawn = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as name, ProcessPoolExecutor(1, mp_context=spawn) as adder:
        folder, made = Path(name), Path(name) / "made" / LEDGER_FOLDER / LEDGER_SUMS
        sums, files = folder / LEDGER_FOLDER / LEDGER_SUMS, list[ReceivedFile]()
        sums.parent.mkdir()
        for hour in range(options.hours):
            file = write_hour(folder, hour, users)
            says = adder.submit(add, name, files, [*files, file]).result()
            made.replace(sums)
            received = Path(file.path)
            print(
                f"hour {hour + 1}: {received.stat().st_size / options.users:.1f} bytes received and "
                f"{sums.stat().st_size / options.users:.1f} of sums for each user, {says}",
                flush=True,
            )
            received.unlink()
            files.append(file)


if __name__ == "__main__":
    main()
