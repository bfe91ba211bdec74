"""The demonstration: 100,000 people's minutes on the way to work, told to three services under LDP.

    python examples/commute/demo.py [--output DIR] [--people N] [--runner direct]

It draws true values, perturbs them as each service's clients would, runs the pipeline on the reports
alone, and prints the estimates beside the truth. Two windows: people who leave from 7 to 8 o'clock have
a longer way than those who leave from 8 to 9.
"""

import argparse
import os
import shlex
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from ldpbeam.command_line.main import main as ldpbeam

STUDY = Path(os.path.relpath(Path(__file__).parent / "study.yaml"))
START = datetime(2026, 11, 20, 7, tzinfo=UTC)


def write_people(path: Path, people: int) -> None:
    """True values: minutes on the way, and when the person left."""
    rng = np.random.default_rng(7)
    seconds = rng.integers(0, 7200, people)
    minutes = 180 * np.where(seconds < 3600, rng.beta(3, 5, people), rng.beta(2, 8, people))
    lines = (
        f"person-{number},{(START + timedelta(seconds=int(second))).isoformat()},{minute:.2f}\n"
        for number, (second, minute) in enumerate(zip(seconds, minutes, strict=True))
    )
    path.write_text("user,left,minutes\n" + "".join(lines), encoding="utf-8")


def main() -> int:
    """Simulate, perturb, estimate, compare."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, default=Path("demo"))
    parser.add_argument("--people", type=int, default=100_000)
    parser.add_argument("--runner", default="local")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    people = options.output / "people.csv"
    write_people(people, options.people)
    study = ["--study", str(STUDY)]
    columns = ["--value-column", "minutes", "--time-column", "left"]
    reports, estimates = options.output / "reports", options.output / "estimates"
    commands = (
        ["explain", *study],
        ["perturb", *study, "--attribute", "minutes", "--input", str(people), "--user-column", "user"]
        + [*columns, "--output", str(reports), "--seed", "7", "--overwrite"],
        ["estimate", *study, "--input", f"{reports}/*", "--output", str(estimates), "--overwrite"]
        + ["--runner", options.runner, "--truth", str(people), *columns],
    )
    for command in commands:
        print(f"\n$ ldpbeam {shlex.join(command)}\n", flush=True)
        code = ldpbeam(command)
        if code:
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
