"""The answer for a pair of attributes, as it is estimated, written and drawn."""

from __future__ import annotations

from dataclasses import dataclass

Numbers = tuple[float, ...]


@dataclass(frozen=True)
class Axis:
    """Groups of the values of an attribute of a pair.

    Attributes:
        attribute: the attribute.
        edges: the edges of groups of numbers, in the attribute's unit, one more than there are groups; None
            for categories.
        categories: the names of categories; None for numbers.
    """

    attribute: str
    edges: Numbers | None = None
    categories: tuple[str, ...] | None = None

    def __len__(self) -> int:
        """The number of groups."""
        return len(self.categories or ()) or len(self.edges or ()) - 1

    def __getitem__(self, group: int) -> str:
        """The name of a group."""
        if self.categories is not None:
            return self.categories[group]
        assert self.edges is not None
        return f"{self.edges[group]:.6g} to {self.edges[group + 1]:.6g}"


@dataclass(frozen=True)
class Measured:
    """Numbers of a pair, row by row for a table, and the ends of their intervals, if there are any."""

    value: Numbers
    low: Numbers | None = None
    high: Numbers | None = None


@dataclass(frozen=True)
class Conditional:
    """The distribution of one attribute in each group of the other.

    Attributes:
        given: the groups.
        of: the groups of the other attribute.
        shares: the shares of these in each group, one row per group.
        means: the mean of the other attribute in each group, in its unit; None for categories.
    """

    given: Axis
    of: Axis
    shares: Measured
    means: Measured | None = None


@dataclass(frozen=True)
class PairAnswer:
    """The answer for a pair of attributes, as it is estimated and as ``estimates.jsonl`` has it.

    Attributes:
        axes: the value buckets of each attribute.
        table: the share of people in each pair of buckets, a row for each bucket of the first attribute.
        p_value: the probability of as much dependence between reports if values are independent.
        weights: how much of the table is independence, a dependence of one parameter, and a free table.
        correlation: of two numbers; None with categories.
        mutual_information: the mutual information of both attributes, in nats.
        given: the second attribute given the first, and the first given the second.
    """

    axes: tuple[Axis, Axis]
    table: Numbers
    p_value: float
    weights: dict[str, float]
    correlation: Measured | None
    mutual_information: Measured
    given: tuple[Conditional, Conditional]
