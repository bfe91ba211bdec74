"""An hour of clicks on a new tab, by branch of an experiment: raw counts and estimates beside the truth.

    python examples/newtab/clicks.py [--people N]

The study says how many items a list has, because no report does. The last lines read the same reports with
another number of items, and with the epsilon as it is stated, to show what a mistake costs.
"""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
from client import clicks, sent

import ldpbeam as ldp

STUDY = Path(__file__).with_name("study.yaml").read_text(encoding="utf-8")
ITEMS, EPSILON = 100, 1.0
START = datetime(2026, 11, 20, 10, tzinfo=UTC)


def reports_of(people: int, rng: np.random.Generator) -> tuple[pa.Table, np.ndarray]:
    """The reports of an hour, and what people clicked on."""
    clicked = clicks(people, ITEMS, rng)
    times = START + np.array([timedelta(seconds=float(s)) for s in rng.uniform(0, 3600, people)])
    columns = {
        "attribute": pa.repeat("item", people),
        "service": pa.repeat("browser", people),
        "event_time": pa.array(times, pa.timestamp("ms", "UTC")),
        "branch": pa.array(rng.choice(["control", "treatment"], people)),
        "payload": pa.array(sent(clicked, ITEMS, EPSILON, rng)),
    }
    return pa.table(columns), clicked


def estimated(study: str, reports: pa.Table) -> ldp.Estimates:
    """The estimates of a study that is given as text."""
    return ldp.estimate(ldp.Study.from_yaml(study), reports)


def main() -> int:
    """Draw clicks, and print the share of the most popular item in each window and branch."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--people", type=int, default=600_000)
    given = parser.parse_args()
    reports, clicked = reports_of(given.people, np.random.default_rng(1))
    first = int(np.bincount(clicked).argmax())
    raw = np.mean(reports["payload"].to_numpy() == first)
    print(f"item {first}: truth {np.mean(clicked == first):.1%}, raw {raw:.1%}")
    for record in estimated(STUDY, reports).records():
        shares = record["intervals"]["ends"]["certain"]["frequencies"]
        print(
            f"{record['window_start']} {record['group']}: {record['frequencies'][first]:.1%}, "
            f"{shares['low'][first]:.1%} to {shares['high'][first]:.1%}"
        )
    wrong = {
        "a list of 99 items in the study": STUDY.replace("categories: 100", "categories: 99"),
        "a list of 200 items in the study": STUDY.replace("categories: 100", "categories: 200"),
        "the stated epsilon": STUDY.replace(", replacement: any", ""),
    }
    for mistake, study in wrong.items():
        estimates = estimated(study, reports)
        shares = [record["frequencies"][first] for record in estimates.records()]
        dead = len(estimates.dead_letters) / given.people
        print(f"with {mistake}: {np.mean(shares):.1%}, and {dead:.0%} of the reports are dead letters")
    return 0


if __name__ == "__main__":
    sys.exit(main())
