"""Any channel for categories, as a table of P(report | value); survey designs are such tables."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Annotated, Any, Literal, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpbeam.channels import Channel, DenseChannel
from ldpbeam.domains import Categories, Domain, Floats, Integers
from ldpbeam.mechanisms.categories.mechanism import CategoricalMechanism
from ldpbeam.mechanisms.mechanism import Uniforms, WholeReports
from ldpbeam.mechanisms.registry import register
from ldpbeam.options import Range

#: The relative difference that is allowed between the epsilon of a study and of its table: people round it.
ROUNDED = 5e-3
#: The most by which the probabilities of a value's reports may miss a sum of one.
SUM_ERROR = 1e-6
#: A smaller singular value, relative to the greatest, means that reports do not tell all values apart.
SINGULAR = 1e-9


@register
@dataclasses.dataclass(frozen=True)
class Matrix(WholeReports, CategoricalMechanism):
    """A report of r with the probability in row r of a table, in the column of the value.

    The given epsilon must agree with that of the table. Unbiased shares are W times the shares of reports,
    where W = (P'D^-1 P)^-1 P'D^-1 for the table P and the probabilities D of reports under even shares.

    Attributes:
        table: P(report | value); a list for each report with a number for each category, or a CSV file.
        design: a survey design instead of a table.
        p: the probabilities of the design; a number, or a list.
        draws: with kuk, how many cards a person draws.
        surveyed: with unrelated, how many people a survey asked the unrelated question alone.
        names: the names of the categories, for error messages.

    Raises:
        ValueError: if the table is invalid, has another epsilon, or does not tell all values apart.
    """

    name = "matrix"
    summary = "any table P(report | value), and survey designs: Warner, crosswise, forced response, Kuk"

    table: str | tuple[tuple[float, ...], ...] | None = None
    design: Literal["warner", "crosswise", "forced_response", "kuk", "unrelated"] | None = None
    p: float | tuple[float, ...] | None = None
    draws: Annotated[int, Range(least=1, most=64)] = 1
    surveyed: Annotated[int, Range(least=2)] | None = None

    names: dataclasses.InitVar[Sequence[str] | None] = None

    def __post_init__(self, names: Sequence[str] | None) -> None:
        super().__post_init__()
        # Lists have no hash.
        object.__setattr__(self, "table", _as_tuples(self.table))
        object.__setattr__(self, "p", _as_tuples(self.p))
        if self.surveyed is not None and self.design != "unrelated":
            raise ValueError("surveyed goes with design: unrelated")
        names = names or [f"category {index}" for index in range(self.size)]
        object.__setattr__(self, "epsilon", checked_epsilon(self.probabilities, names, self.epsilon))

    @classmethod
    def for_domain(cls, domain: Domain, epsilon: float, **options: Any) -> Matrix:
        """The mechanism for a domain of categories, whose names appear in error messages."""
        names = cast(Categories, domain).names
        return cls(epsilon=epsilon, size=len(names), names=names, **options)

    @functools.cached_property
    def probabilities(self) -> Floats:
        """P(report | value), shape (reports, size)."""
        return table_of(self.size, self.table, self.design, self.p, self.draws)

    @property
    def parameters(self) -> dict[str, Any]:
        """The name, epsilon, and those options that are given."""
        return {name: value for name, value in super().parameters.items() if value is not None}

    @functools.cached_property
    def _inverse(self) -> Floats:
        """The unbiased share of each category that each report gives, shape (size, reports)."""
        weighted = self.probabilities.T / self.probabilities.mean(axis=1)
        return np.linalg.solve(weighted @ self.probabilities, weighted)

    def unbiased_frequencies(self, histogram: Integers, reports: int) -> Floats:
        """The shares that the reports imply; they sum to one."""
        return np.asarray(self._inverse @ histogram / reports)

    @property
    def frequency_variance(self) -> float:
        """The variance of the share of a category that nobody has, if the others are even: a mean."""
        others = (1.0 - np.eye(self.size)) / (self.size - 1.0)
        return float((self._inverse**2 * (self.probabilities @ others).T).sum(axis=1).mean())

    def share_variances(self, shares: Floats, histogram: Integers) -> Floats:
        """The variances from the reports, plus that of the surveyed share of the unrelated question."""
        variances = super().share_variances(shares, histogram)
        if self.surveyed is None:
            return variances
        asked, share = cast(tuple[float, float], self.p)
        of_survey = ((1.0 - asked) / asked) ** 2 * share * (1.0 - share) / self.surveyed
        return variances + of_survey * float(histogram.sum())

    def perturb(self, values: ArrayLike, uniforms: Uniforms) -> NDArray[Any]:
        """One report per category index, shape (n,): the first row up to which the column sums exceed u1."""
        index = np.asarray(values, dtype=np.int64)
        drawn, reports = uniforms.random(index.size), np.zeros(index.size, dtype=np.uint32)
        below = np.cumsum(self.probabilities, axis=0)[:-1]
        for value in np.unique(index):
            rows = index == value
            reports[rows] = np.searchsorted(below[:, value], drawn[rows], side="right")
        return reports

    def cells(self, resolution: int) -> int:
        """The number of rows of the table."""
        return len(self.probabilities)

    def channel(self, value_buckets: int, resolution: int) -> Channel:
        """The table."""
        return DenseChannel(self.probabilities)

    def output(self) -> str:
        """The range of the rows, in words."""
        return f"the row of a table, 0 to {len(self.probabilities) - 1}"


def _as_tuples(value: Any) -> Any:
    return tuple(map(_as_tuples, value)) if isinstance(value, list | tuple) else value


def table_of(
    size: int, table: Any = None, design: str | None = None, p: Any = None, draws: int = 1
) -> Floats:
    """The table of P(report | value) that options describe, shape (reports, size).

    Designs have the names and the p of the R package RRreg. Their first category is "yes", except with
    ``forced_response``, which takes any categories.

    Raises:
        ValueError: if they do not describe a table.
    """
    if (table is None) == (design is None) or (p is None) != (design is None):
        raise ValueError("give a table, or a design with its p")
    if table is not None:
        rows = _numbers(table)
        if rows.ndim != 2 or len(rows) < 2 or rows.shape[1] != size:
            raise ValueError(f"table is a list for each report, with {size} numbers, one for each category")
        return rows
    given = np.atleast_1d(_numbers(p))
    sizes = {"warner": 1, "crosswise": 1, "forced_response": size, "kuk": 2, "unrelated": 2}
    wanted = sizes[str(design)]
    if given.shape != (wanted,) or not ((given > 0.0) & (given < 1.0)).all():
        many = "a number" if wanted == 1 else f"{wanted} numbers"
        raise ValueError(f"p of design: {design} is {many} above 0 and below 1, found {p}")
    if design == "forced_response":
        if given.sum() >= 1.0:
            raise ValueError(f"forced responses have less than 1 together, found {given.sum():g}")
        return np.asarray(given[:, None] + (1.0 - given.sum()) * np.eye(size))
    if size != 2:
        raise ValueError(f"design: {design} is for two categories, found {size}: write a table")
    first, last = float(given[0]), float(given[-1])
    if design == "kuk":
        red = np.arange(draws + 1)[:, None]
        ways = np.array([[math.comb(draws, many)] for many in range(draws + 1)])
        return np.asarray(ways * given**red * (1.0 - given) ** (draws - red))
    yes = [first, 1.0 - first]
    if design == "unrelated":
        yes = [first + (1.0 - first) * last, (1.0 - first) * last]
    return np.array([yes, 1.0 - np.array(yes)])


def _numbers(value: Any) -> Floats:
    """Numbers of any shape; a single NaN if the value is anything else."""
    try:
        numbers = np.array(value)
    except ValueError:
        return np.full(1, np.nan)
    return numbers.astype(np.float64) if numbers.dtype.kind in "iuf" else np.full(1, np.nan)


def checked_epsilon(table: Floats, names: Sequence[str], epsilon: float) -> float:
    """The epsilon of a table: the logarithm of the greatest ratio of two entries of a row.

    Raises:
        ValueError: if entries are not probabilities, the given epsilon is not that of the table, or reports
            do not tell all values apart.
    """
    if not ((table >= 0.0) & (table <= 1.0)).all():
        raise ValueError(f"probabilities are from 0 to 1, found {table.min():g} to {table.max():g}")
    sums = table.sum(axis=0)
    wrong = int(np.abs(sums - 1.0).argmax())
    if abs(sums[wrong] - 1.0) > SUM_ERROR:
        raise ValueError(f"the probabilities of {names[wrong]} sum to {sums[wrong]:.6g}, and not to 1")
    *_, lengths, directions = np.linalg.svd(table, full_matrices=len(table) < len(names))
    if len(table) < len(names) or lengths[-1] < SINGULAR * lengths[0]:
        mixed = directions[-1] / directions[-1][np.abs(directions[-1]).argmax()]
        one, other = (" and ".join(np.array(names)[sign * mixed > 1e-6].tolist()) for sign in (1.0, -1.0))
        raise ValueError(f"reports do not tell {one} from {other}: in some proportion both send the same")
    if (table == 0.0).any():
        row, column = np.argwhere(table == 0.0)[0]
        raise ValueError(
            f"{names[column]} is never reported as {row}, so a report of {row} reveals that a person has "
            "another value: give each report a probability above 0 for every value"
        )
    actual = math.log(float((table.max(axis=1) / table.min(axis=1)).max()))
    if abs(actual - epsilon) > ROUNDED * epsilon:
        raise ValueError(f"the epsilon of this table is {actual:.6g}, found {epsilon:g}: correct epsilon")
    return actual
