"""How often two groups of people are told apart by blurred shares, and by certain intervals of quantiles.

    python -m benchmarks.differences [--runs 40] [--write docs/measured]

Groups with one distribution are told apart by chance alone; there are more of these pairs.
"""

from __future__ import annotations

import argparse
import itertools
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scipy.special import ndtri

from benchmarks.if_smooth import LEVELS, UNIT, Draw, mixed, of_values
from benchmarks.pages import HELP, show, table
from ldpbeam.answers.difference import FALSE_ALARMS
from ldpbeam.attributes import Attribute, ServiceVersion
from ldpbeam.estimators.question import Question
from ldpbeam.intervals import WantedIntervals
from ldpbeam.intervals.blurred import PLACES, blurred_shares
from ldpbeam.intervals.strict import strict_intervals
from ldpbeam.mechanisms import build_mechanism
from ldpbeam.statistics import Answers, tally


def beta(a: float, b: float) -> Draw:
    """People with a Beta distribution."""
    return lambda n, rng: rng.beta(a, b, n)


SPIKES = of_values(np.arange(1, 10) / 10, np.ones(9))
PAIRS: dict[str, tuple[Draw, Draw]] = {
    "the same: Beta(2, 5)": (beta(2, 5), beta(2, 5)),
    "the same: nine spikes": (SPIKES, SPIKES),
    "location: Beta(2, 5), Beta(2.5, 5)": (beta(2, 5), beta(2.5, 5)),
    "spread: Beta(4, 4), Beta(2.5, 2.5)": (beta(4, 4), beta(2.5, 2.5)),
    "5% move to one value": (beta(2, 5), mixed((0.05, of_values([0.5], [1])), (0.95, beta(2, 5)))),
    "4% move to a tail": (
        beta(2, 5),
        mixed((0.04, lambda n, rng: rng.uniform(0.8, 1, n)), (0.96, beta(2, 5))),
    ),
}
#: So many times more pairs with one distribution; certain quantiles are computed of so many pairs of others.
MORE, OF_QUANTILES = 2.25, 10


def asked(draw: Draw, mechanism: str, epsilon: float, n: int, rng: np.random.Generator) -> Question:
    """The reports of one group."""
    version = ServiceVersion("s", "", build_mechanism(mechanism, UNIT, epsilon))
    attribute = Attribute("x", UNIT, 256, (version,))
    answers = Answers(0, np.arange(n), version.mechanism.perturb(draw(n, rng), rng))
    return Question(attribute, tally(attribute, n, [answers]), ("s",))


def rows(runs: int) -> Iterator[list[object]]:
    """A row for each setting and pair of distributions."""
    beyond = float(-ndtri(FALSE_ALARMS / 2 / len(PLACES)))
    settings = itertools.product(("square_wave", "piecewise"), (0.5, 1.0, 2.0, 4.0), (2_000, 20_000))
    for (mechanism, epsilon, n), (name, pair) in itertools.product(settings, PAIRS.items()):
        apart, of_quantiles = [], []
        for seed in range(round(MORE * runs) if "same" in name else runs):
            rng = np.random.default_rng([zlib.crc32(f"{name} {mechanism} {epsilon} {n}".encode()), seed])
            sides = [asked(draw, mechanism, epsilon, n, rng) for draw in pair]
            one, two = (next(iter(blurred_shares(side).values())) for side in sides)
            z = np.subtract(two.shares, one.shares) / np.hypot(one.errors, two.errors)
            apart.append(bool(np.abs(z).max() > beyond))
            if seed < OF_QUANTILES:
                wanted = WantedIntervals(quantiles=LEVELS)
                known = [strict_intervals(side, wanted).of("quantiles") for side in sides]
                (low, high), (least, most) = (np.asarray(own).T for own in known)
                of_quantiles.append(bool(((high < least) | (most < low)).any()))
        share, error = np.mean(apart), np.std(apart) / len(apart) ** 0.5
        yield [
            name, mechanism, epsilon, f"{n:,}", len(apart), f"{share:.3f} ± {error:.3f}",
            np.mean(of_quantiles),
        ]  # fmt: skip


COLUMNS = ("two groups", "mechanism", "epsilon", "n", "pairs", "told apart", "by certain quantiles")


def main() -> None:
    """Run all, and show the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=40, help="pairs of groups that differ, in each setting")
    parser.add_argument("--write", type=Path, help=HELP)
    given = parser.parse_args()
    show([table("differences", COLUMNS, rows(given.runs))], given.write)


if __name__ == "__main__":
    main()
