"""Clicks on 100 items in an hour: raw counts beside estimates, and what a wrong study costs.

python examples/newtab/demo.py [--clicks N] [--seed N]
"""

import argparse
import json
import random
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from newtab import NewTab

import ldpbeam as ldp

STUDY = Path(__file__).with_name("study.yaml").read_text()
START, HOUR = 1_795_168_800_000, 3_600_000
ITEMS, EPSILON = 100, 1.0


def clicked(clicks: int, rng: np.random.Generator) -> np.ndarray:
    """Items that people click on: item k with a share that falls as 1/k."""
    shares = 1.0 / np.arange(1, ITEMS + 1)
    return rng.choice(ITEMS, clicks, p=shares / shares.sum())


def reported(items: Sequence[int], draws: random.Random, lists: Sequence[int] = (ITEMS,)) -> list[dict]:
    """What clients report of these clicks, each with one of some lengths of its list."""
    clients = [NewTab(EPSILON, length, draws) for length in lists]
    return [
        json.loads(
            clients[number % len(lists)].report(
                int(item) % lists[number % len(lists)],
                START + number * HOUR // len(items),
                ("control", "treatment")[number // len(lists) % 2],
            )
        )
        for number, item in enumerate(items)
    ]


def estimated(reports: list[dict], text: str) -> np.ndarray:
    """The shares of items, of all branches and windows together."""
    whole = text.replace("windows: {size: 20m}\n", "").replace("groups: {field: branch}\n", "")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (found,) = ldp.estimate(ldp.Study.from_yaml(whole), reports)
    return np.array(found.frequencies[:ITEMS])


def main() -> int:
    """Print the errors, and return the exit code."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--clicks", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng, draws = np.random.default_rng(options.seed), random.Random(options.seed)
    study, items = ldp.Study.from_yaml(STUDY), clicked(options.clicks, rng)
    truth, reports = np.bincount(items, minlength=ITEMS) / len(items), reported(items, draws)
    (version,) = study.attribute("clicks").versions
    print(f"stated epsilon {EPSILON:g}, and that of the reports {version.mechanism.epsilon:.4g}")
    raw = np.bincount([report["payload"] for report in reports], minlength=ITEMS) / len(reports)
    # Every other user has the first 50 items alone.
    mixed = np.where(np.arange(len(items)) % 2, items, items % 50)
    cases = {
        "raw counts": (raw, truth),
        "estimates": (estimated(reports, STUDY), truth),
        "replacement: any left out": (estimated(reports, STUDY.replace(", replacement: any", "")), truth),
        "a list of 200 in the study": (estimated(reports, STUDY.replace("100}", "200}")), truth),
        "lists of 50 and 100": (
            estimated(reported(items, draws, (50, ITEMS)), STUDY),
            np.bincount(mixed, minlength=ITEMS) / len(items),
        ),
    }
    for name, (shares, true) in cases.items():
        print(f"{name}: the first item {100 * shares[0]:.1f}% of {100 * true[0]:.1f}%, "
              f"mean error {np.abs(shares - true).mean():.4f}")  # fmt: skip
    of_branches = ldp.estimate(study, reports)
    print(f"{len(of_branches)} estimates, of each branch and 20 minutes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
