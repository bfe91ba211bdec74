"""Three days of polls with other fragments each day, estimated beside the truth.

python examples/polls/days.py [--devices N]
"""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
from client import answers

import ldpbeam as ldp

STUDY = ldp.Study.from_yaml(Path(__file__).with_name("study.yaml"))
START = datetime(2026, 11, 20, tzinfo=UTC)
#: Each day's fragments, and the share of devices that saw each.
DAYS = (
    {"first snow": 0.62, "train strike": 0.2, "new phone": 0.05},
    {"train strike": 0.45, "cup final": 0.3, "zebra crossing": 0.002},
    {"cup final": 0.7, "election": 0.35, "new phone": 0.08},
)


def day_of(number: int, devices: int, rng: np.random.Generator) -> pa.Table:
    """The reports of a day: each device is asked about one fragment, one of them too rarely to show."""
    asked = rng.choice([*DAYS[number], "a rare one"], devices, p=[0.3, 0.3, 0.399, 0.001])
    saw = rng.random(devices) < np.array([DAYS[number].get(fragment, 0.5) for fragment in asked])
    times = START + np.array([timedelta(days=number, seconds=s) for s in rng.uniform(0, 86_400, devices)])
    return pa.table(
        {
            "attribute": pa.repeat("saw", devices),
            "service": pa.repeat("device", devices),
            "event_time": pa.array(times, pa.timestamp("ms", "UTC")),
            "fragment": asked,
            "payload": answers(saw, 1.0, rng),
        }
    )


def main() -> int:
    """Print each fragment's share by day."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--devices", type=int, default=100_000)
    given = parser.parse_args()
    rng = np.random.default_rng(1)
    reports = [day_of(number, given.devices, rng) for number in range(len(DAYS))]
    for record in ldp.estimate(STUDY, reports).records():
        day = datetime.fromisoformat(record["window_start"])
        true = DAYS[(day - START).days].get(record["group"])
        low, high = (record["intervals"]["frequencies"][end][1] for end in ("low", "high"))
        if true is not None:
            share = record["frequencies"][1]
            print(f"{day:%d %B} {record['group']}: {share:.1%}, {low:.1%} to {high:.1%}; true {true:.1%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
