"""The cases of a product that ``make test`` takes: few, with each pair of values of two factors."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Hashable, Iterable, Sequence
from random import Random
from typing import Any, TypeVar

Row = TypeVar("Row", bound=Sequence[Any])
#: ``make test-all`` sets it: every case is taken.
EVERY = os.environ.get("LDPBEAM_EVERY_CASE") == "1"


def covering(
    rows: Iterable[Row], factors: Callable[[Row], Sequence[Hashable]] = tuple, *, every: bool = EVERY
) -> list[Row]:
    """The rows that are taken, in their order.

    Each pair of values of two factors that some row has, a row that is taken has. The next row is always one
    with the most pairs that are still missing; of several, one drawn by a fixed seed.

    Args:
        rows: the cases, a value for each parameter of the test.
        factors: what a row has in each factor; its values if not given.
        every: whether all rows are taken.
    """
    given = list(rows)
    if every:
        return given
    pairs = [set(itertools.combinations(enumerate(factors(row)), 2)) for row in given]
    missing = set[Any]().union(*pairs)
    order = Random(0).sample(range(len(given)), len(given))
    taken = set[int]()
    while missing:
        best = max(order, key=lambda row: len(pairs[row] & missing))
        taken.add(best)
        missing -= pairs[best]
    return [given[row] for row in sorted(taken)]
