"""What an attribute's true values are: a number, a category, keys with values, or many numbers at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Numeric:
    """A closed range [low, high] of numbers.

    Mechanisms and channels see it as the unit interval: x = (value - low) / (high - low).

    Raises:
        ValueError: if the range is empty or not finite.
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        if not (np.isfinite(self.low) and np.isfinite(self.high) and self.low < self.high):
            raise ValueError(f"a numeric domain needs low < high, found [{self.low}, {self.high}]")
        if not 1e-100 < self.high - self.low < 1e100:
            raise ValueError(f"a numeric domain this wide or narrow is a mistake: [{self.low}, {self.high}]")
        if self.high - self.low < 1e-9 * max(abs(self.low), abs(self.high)):
            raise ValueError(
                f"this range has too few digits to be cut into buckets: [{self.low}, {self.high}]"
            )

    @property
    def width(self) -> float:
        """The length of the range, in the attribute's own unit."""
        return self.high - self.low

    def to_unit(self, values: ArrayLike) -> Floats:
        """Values mapped to [0, 1]; those outside the domain are clipped to its ends."""
        unit = (np.asarray(values, dtype=np.float64) - self.low) / self.width
        return np.clip(unit, 0.0, 1.0)

    def from_unit(self, unit: ArrayLike) -> Floats:
        """The inverse of :meth:`to_unit`."""
        return self.low + np.asarray(unit, dtype=np.float64) * self.width

    def edges(self, buckets: int) -> Floats:
        """The ``buckets + 1`` edges of equal value buckets, in the attribute's unit."""
        return self.from_unit(np.linspace(0.0, 1.0, buckets + 1))

    def histogram(self, values: ArrayLike, buckets: int) -> Integers:
        """How many values fall in each of ``buckets`` equal buckets, shape (buckets,)."""
        index = np.minimum((self.to_unit(values) * buckets).astype(np.int64), buckets - 1)
        return np.bincount(index, minlength=buckets).astype(np.int64)


def check_names(names: tuple[str, ...], what: str) -> None:
    """See that there are two names or more, none of them empty or twice.

    Raises:
        ValueError: if there are not.
    """
    if len(names) < 2:
        raise ValueError(f"a domain needs two {what} or more, found {len(names)}")
    if "" in names:
        raise ValueError(f"the empty text is no name; in files it stands for no value ({what})")
    if len(set(names)) != len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise ValueError(f"{what} stand twice in the domain: {', '.join(twice[:5])}")


@dataclass(frozen=True)
class Categories:
    """A finite list of categories; a value is an index into ``names``.

    Raises:
        ValueError: if there are fewer than two, or two of one name.
    """

    names: tuple[str, ...]

    def __post_init__(self) -> None:
        check_names(self.names, "categories")

    @property
    def size(self) -> int:
        """The number of categories."""
        return len(self.names)

    def histogram(self, values: ArrayLike) -> Integers:
        """How many values (category indexes) fall in each category, shape (size,)."""
        return np.bincount(np.asarray(values, dtype=np.int64), minlength=self.size).astype(np.int64)


@dataclass(frozen=True)
class KeyValues:
    """Any number of keys a person, each with a value in one numeric range.

    Attributes:
        keys: the keys' names; at least two.
        values: the range of every key's value.

    Raises:
        ValueError: if there are fewer than two keys, or two of one name.
    """

    keys: tuple[str, ...]
    values: Numeric

    def __post_init__(self) -> None:
        check_names(self.keys, "keys")

    @property
    def size(self) -> int:
        """The number of keys."""
        return len(self.keys)


@dataclass(frozen=True)
class Vector:
    """Several numbers a person, or a time series: each coordinate has the same range.

    Attributes:
        coordinates: their names; at least two.
        values: the range of every coordinate.

    Raises:
        ValueError: if there are fewer than two coordinates, or two of one name.
    """

    coordinates: tuple[str, ...]
    values: Numeric

    def __post_init__(self) -> None:
        check_names(self.coordinates, "coordinates")

    @property
    def size(self) -> int:
        """The number of coordinates."""
        return len(self.coordinates)


@dataclass(frozen=True, eq=False)
class KeyValuePairs:
    """The (key, value) pairs of many people, as columns: person i has rows ``starts[i]:starts[i + 1]``.

    Attributes:
        starts: where each person's pairs start, and the end, shape (people + 1,).
        keys: key indexes, ascending within a person, none twice; shape (pairs,).
        values: their values scaled to [0, 1], shape (pairs,).
    """

    starts: Integers
    keys: Integers
    values: Floats

    @property
    def people(self) -> int:
        """How many people there are, those without a pair included."""
        return len(self.starts) - 1

    def chosen(self, people: Integers) -> KeyValuePairs:
        """The pairs of some people, in that order."""
        lengths = np.diff(self.starts)[people]
        starts = np.concatenate(([0], np.cumsum(lengths)))
        rows = np.repeat(self.starts[people] - starts[:-1], lengths) + np.arange(starts[-1])
        return KeyValuePairs(starts, self.keys[rows], self.values[rows])


Domain = Numeric | Categories | KeyValues | Vector


def bucket_midpoints(buckets: int) -> Floats:
    """The midpoints of ``buckets`` equal buckets of [0, 1]."""
    return (np.arange(buckets) + 0.5) / buckets
