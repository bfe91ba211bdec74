"""``make simulate SEEDS=1000``: seeds, the faults and states that were met, and seeds that failed."""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections import Counter

from simulation.day import simulate
from simulation.met import RARE


def main() -> int:
    """Simulate some seeds; the exit code is 1 if one fails, or if a thousand do not meet what they must."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no seed after so many")
    options = parser.parse_args()
    met: Counter[str] = Counter()
    failed, done, until = 0, 0, time.monotonic() + options.seconds
    for seed in range(options.first, options.first + options.seeds):
        if time.monotonic() >= until:
            break
        done += 1
        try:
            simulate(seed, met)
        except Exception:
            failed += 1
            print(f"seed {seed} failed; again with --first {seed} --seeds 1")
            traceback.print_exc()
    for what, times in sorted(met.items()):
        print(f"{times:8,} {what}")
    print(f"{done:,} seeds, {failed:,} different")
    missed = RARE.difference(met) if done >= 1_000 else set()
    for what in sorted(missed):
        print(f"no seed met: {what}")
    return int(failed > 0 or bool(missed))


if __name__ == "__main__":
    sys.exit(main())
