"""A day of people whose clients remember their noise: 24 hourly estimates, and the day in two ways.

    python examples/memoised/day.py [--output DIR] [--people N]

The clients are written from docs/over_time.md alone. Their people keep one drink all day. The study joins the
hours of a day by user, so that the day has intervals with the variance by user. A roll-up of the hours does
not bring the reports of a user together: its intervals are those of the fewest users, as a warning says.
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

from ldpbeam.command_line.main import main as ldpbeam

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
    """Write the reports of a day, estimate its hours and the day, and roll the hours up."""
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
    run, rolled_up = given.output / "run", given.output / "rolled-up"
    code = ldpbeam(["estimate", *study, "--input", str(given.output / "reports.jsonl"), "--output", str(run)])
    statistics = f"{run}/statistics/*.avro"
    # Without --window, the hours are added up, and not the day.
    code = code or ldpbeam(["rollup", *study, "--statistics", statistics, "--output", str(rolled_up)])
    for what, folder in (("joined by user", run), ("rolled up", rolled_up)):
        lines = map(json.loads, (folder / "estimates.jsonl").read_text(encoding="utf-8").splitlines())
        (day,) = (line for line in lines if line["reports"] == given.people * HOURS)
        ends = day["intervals"]["ends"]["certain"]["frequencies"]
        print(f"tea, {what}: {ends['low'][0]:.3f} to {ends['high'][0]:.3f}, the truth is {SHARES[0]}")
    return code


if __name__ == "__main__":
    sys.exit(main())
