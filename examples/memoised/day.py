"""A day of people whose clients remember their noise: 24 hourly estimates, and their roll-up into a day.

    python examples/memoised/day.py [--output DIR] [--people N]

The clients are written from docs/over_time.md alone. Their people keep one drink all day. The roll-up does
not bring the reports of a user together, so its intervals are those of the fewest users, as a warning says.
"""

import argparse
import json
import sys
from datetime import UTC, datetime, timedelta
from math import exp
from pathlib import Path

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from ldpbeam.pipelines.main import main as ldpbeam

STUDY = Path(__file__).with_name("study.yaml")
DRINKS = ("tea", "coffee", "water", "milk", "none")
SHARES = (0.35, 0.3, 0.2, 0.1, 0.05)
EPSILON, LIFETIME, HOURS = 1.0, 2.0, 24
START = datetime(2026, 11, 20, tzinfo=UTC)


def kept_or_another(answers: NDArray[np.int64], ratio: float, rng: Generator) -> NDArray[np.int64]:
    """Randomised response: the own answer is ``ratio`` times as likely as each other one."""
    many = len(DRINKS)
    another = (answers + rng.integers(1, many, answers.shape)) % many
    return np.where(rng.random(answers.shape) < ratio / (ratio + many - 1), answers, another)


def reports_of(drinks: NDArray[np.int64], rng: Generator) -> NDArray[np.int64]:
    """What each person sends in each hour, shape (people, hours)."""
    growth, many = exp(LIFETIME), len(DRINKS)
    permanent = kept_or_another(drinks, growth, rng)
    instant = (growth * exp(EPSILON) + (many - 2) * exp(EPSILON) - (many - 1)) / (growth - exp(EPSILON))
    return kept_or_another(np.repeat(permanent[:, None], HOURS, axis=1), instant, rng)


def main() -> int:
    """Write the reports of a day, estimate its hours, and roll them up."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, default=Path("build/memoised-day"))
    parser.add_argument("--people", type=int, default=5_000)
    given = parser.parse_args()
    given.output.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(1)
    drinks = rng.choice(len(DRINKS), given.people, p=SHARES)
    with (given.output / "reports.jsonl").open("w", encoding="utf-8") as stream:
        for person, sent in enumerate(reports_of(drinks, rng)):
            for hour, payload in enumerate(sent):
                time = (START + timedelta(hours=hour)).isoformat()
                report = {"user_id": f"user{person}", "attribute": "drink", "service": "app"}
                report |= {"event_time": time, "payload": int(payload)}
                stream.write(json.dumps(report) + "\n")
    study = ["--study", str(STUDY), "--overwrite"]
    hours, day = str(given.output / "hours"), str(given.output / "day")
    code = ldpbeam(["estimate", *study, "--input", str(given.output / "reports.jsonl"), "--output", hours])
    statistics = f"{hours}/statistics/*.avro"
    return code or ldpbeam(["rollup", *study, "--statistics", statistics, "--window", "1d", "--output", day])


if __name__ == "__main__":
    sys.exit(main())
