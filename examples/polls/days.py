"""Three days of polls with other fragments each day, estimated beside the truth.

python examples/polls/days.py [--devices N]
"""

from __future__ import annotations

import argparse
import csv
import sys
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
from client import answers

import ldpbeam as ldp

FOLDER = Path(__file__).parent
STUDY = ldp.Study.from_yaml(FOLDER / "study.yaml")
PLACES = 8
#: The share of devices that saw each fragment last, by place; what has no name is at the place after them.
SHARES = {"2026-11-20": (0.62, 0.2, 0.1), "2026-11-21": (0.45, 0.5, 0.01), "2026-11-22": (0.6, 0.25, 0.08)}


def names_of(day: str) -> list[str]:
    """The fragments of a day in the order of their places, and others."""
    with (FOLDER / "fragments.csv").open(encoding="utf-8") as table:
        rows = [row for row in csv.DictReader(table) if row["since"].startswith(day)]
    return [*(row["name"] for row in sorted(rows, key=lambda row: int(row["place"]))), "others"]


def reports_of(day: str, devices: int, rng: np.random.Generator) -> pa.Table:
    """What the devices that are asked on a day send."""
    shares = np.array([*SHARES[day], 1.0 - sum(SHARES[day])])
    places = rng.choice(len(shares), devices, p=shares)
    start = datetime.fromisoformat(f"{day}T00:00:00Z")
    times = [start + timedelta(seconds=seconds) for seconds in rng.uniform(0, 86_400, devices)]
    return pa.table(
        {
            "attribute": pa.repeat("saw", devices),
            "service": pa.repeat("device", devices),
            "event_time": pa.array(times, pa.timestamp("ms", "UTC")),
            "payload": answers(places, PLACES, 2.0, rng),
        }
    )


def main() -> int:
    """Print each fragment's share by day."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--devices", type=int, default=100_000)
    given = parser.parse_args()
    rng = np.random.default_rng(1)
    reports = [reports_of(day, given.devices, rng) for day in SHARES]
    for record in ldp.estimate(STUDY, reports).records():
        day = record["window_start"][:10]
        true = dict(zip(names_of(day), (*SHARES[day], 1.0 - sum(SHARES[day])), strict=True))
        ends = record["intervals"]["ends"]["certain"]["frequencies"]
        for name, share, low, high in zip(
            record["categories"], record["frequencies"], ends["low"], ends["high"], strict=True
        ):
            print(f"{day} {name}: {share:.1%}, {low:.1%} to {high:.1%}; true {true[name]:.1%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
