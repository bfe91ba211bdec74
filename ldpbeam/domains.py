"""The domain of an attribute's true values: numbers, categories, keys with values, or vectors of numbers."""

from __future__ import annotations

import functools
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpbeam.scales import Scale, check_scale, from_scale, nodes_within, on_scale

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
#: The most values of a domain with a step. Channels at values are matrices.
MOST_VALUES = 4_096
#: The common name of all candidates' places that have no name in a window.
OTHERS = "others"


@dataclass(frozen=True)
class Numeric:
    """A closed range [low, high] of numbers, or the values low, low + step, ..., high of it.

    Mechanisms and channels use values scaled to [0, 1]: x = (value - low) / (high - low). With a step, the
    buckets of an estimate begin and end halfway between values, so the first begins below 0 on this scale,
    and the last ends above 1. With a scale g, x = (g(value) - g(low)) / (g(high) - g(low)).

    Raises:
        ValueError: if the range is empty, not finite, not between 1e-100 and 1e100 wide, or too narrow
            relative to its ends (less than 1e-9 of the larger one); if it is not a whole number of steps,
            from 1 to 4,095, in decimals as written; or if its scale does not allow it.
    """

    low: float
    high: float
    step: float | None = None
    scale: Scale | None = None

    def __post_init__(self) -> None:
        if not (np.isfinite(self.low) and np.isfinite(self.high) and self.low < self.high):
            raise ValueError(f"a numeric domain needs low < high, found [{self.low}, {self.high}]")
        if not 1e-100 < self.high - self.low < 1e100:
            raise ValueError(f"a numeric domain this wide or narrow is a mistake: [{self.low}, {self.high}]")
        if self.high - self.low < 1e-9 * max(abs(self.low), abs(self.high)):
            raise ValueError(
                f"this range has too few digits to be cut into buckets: [{self.low}, {self.high}]"
            )
        if self.step is not None:
            _ = self.count  # raises an error if the step does not fit
        if self.scale is not None:
            check_scale(self.scale, self.low, self.high)

    @functools.cached_property
    def count(self) -> int:
        """The number of values; 0 without a step.

        Raises:
            ValueError: if the step is not above 0 or does not divide the range, or there are too many values.
        """
        if self.step is None:
            return 0
        step = as_text(self.step)
        if not 0.0 < self.step < math.inf:
            raise ValueError(f"step must be above 0, found {step}")
        low, high, exact = (Fraction(repr(float(part))) for part in (self.low, self.high, self.step))
        steps = (high - low) / exact
        if steps.denominator != 1:
            raise ValueError(
                f"step {step} does not divide the range {self.ends}: there are {float(steps):.6g} steps from "
                "low to high, and a whole number is needed"
            )
        if steps >= MOST_VALUES:
            raise ValueError(
                f"step {step} makes {int(steps) + 1:,} values of the range {self.ends}; there may be "
                f"{MOST_VALUES:,}: leave step out, which changes little with so many values"
            )
        return int(steps) + 1

    @functools.cached_property
    def values(self) -> Floats:
        """The values that people have, shape (count,); empty without a step."""
        step = self.step or 1.0
        return on_steps(self.low + step * np.arange(self.count), step)

    def explain(self, buckets: int) -> str:
        """A person's value, the range and the buckets of an estimate, in words."""
        return f"a number in {self.ends}, {self.cut_into(buckets)}"

    @property
    def ends(self) -> str:
        """The range as text, such as [0, 100]."""
        digits = digits_of(self.low, self.high, 6)
        return f"[{self.low:.{digits}g}, {self.high:.{digits}g}]"

    def cut_into(self, buckets: int) -> str:
        """The values of a step, and the number and the width of the buckets, in words."""
        if self.scale is not None:
            scale = f"{len(self.scale)} edges" if isinstance(self.scale, tuple) else self.scale
            return f"estimated in {buckets} buckets of equal width on the scale of {scale}"
        if not self.count:
            return f"estimated in {buckets} buckets of {self.width / buckets:.4g}"
        first, second, last = map(as_text, self.values[[0, 1, -1]])
        part = "value" if buckets == self.count else f"of {buckets} buckets of {self.count // buckets} values"
        return f"rounded by clients to {first}, {second}, ..., {last}, with a share for each {part}"

    @property
    def width(self) -> float:
        """The length of the range, in the attribute's unit."""
        return self.high - self.low

    def to_unit(self, values: ArrayLike) -> Floats:
        """Values scaled to [0, 1]; values outside the domain are clipped to its ends.

        With a step they are rounded to the nearest value, and to the upper one of two that are equally near.
        """
        if self.count:
            return self._steps(values) / (self.count - 1.0)
        if self.scale is not None:
            first, length = self._on_scale
            unit = (on_scale(self.scale, np.clip(values, self.low, self.high)) - first) / length
        else:
            unit = (np.asarray(values, dtype=np.float64) - self.low) / self.width
        return np.clip(unit, 0.0, 1.0)

    @functools.cached_property
    def _on_scale(self) -> tuple[float, float]:
        """The start of the range on the scale, and its length there."""
        assert self.scale is not None
        first, last = on_scale(self.scale, [self.low, self.high]).tolist()
        return first, last - first

    def _steps(self, values: ArrayLike) -> Floats:
        """The nearest values in steps above ``low``, for a domain with a step; NaN stays NaN."""
        steps = (np.asarray(values, dtype=np.float64) - self.low) / (self.step or 1.0)
        return np.clip(np.floor(steps + 0.5), 0.0, self.count - 1.0)

    def nearest(self, numbers: Floats) -> Floats:
        """The nearest values of the domain, as clients clip and round numbers; NaN stays NaN."""
        if self.step is None:
            return np.clip(numbers, self.low, self.high)
        return on_steps(self.low + self.step * self._steps(numbers), self.step)

    def from_unit(self, unit: ArrayLike) -> Floats:
        """The inverse of :meth:`to_unit`."""
        x = np.asarray(unit, dtype=np.float64)
        if self.scale is None:
            return self.at(x)
        first, length = self._on_scale
        values = np.clip(from_scale(self.scale, first + x * length), self.low, self.high)
        return np.where(x <= 0.0, self.low, np.where(x >= 1.0, self.high, values))

    def at(self, part: ArrayLike) -> Floats:
        """The values at parts of the range's width, on any scale."""
        return self.low + np.asarray(part, dtype=np.float64) * self.width

    def edges(self, buckets: int) -> Floats:
        """The ``buckets + 1`` edges of equal value buckets, in the attribute's unit."""
        if isinstance(self.scale, tuple):
            # If a bucket ends at an edge of the scale, its end is exactly that number.
            return from_scale(self.scale, np.arange(buckets + 1) * (len(self.scale) - 1) / buckets)
        if self.step is None:
            return self.from_unit(np.linspace(0.0, 1.0, buckets + 1))
        ends = np.arange(0, self.count + 1, self.count // buckets) - 0.5
        return on_steps(self.low + self.step * ends, self.step)

    def middles(self, buckets: int) -> Floats:
        """The mean value of each of ``buckets`` equal value buckets, as a part of the range's width."""
        if self.scale is not None:
            nodes, weights = nodes_within(buckets)
            return np.asarray((self.from_unit(nodes) - self.low) @ weights / self.width)
        if not self.count:
            return bucket_midpoints(buckets)
        return (bucket_midpoints(buckets) * self.count - 0.5) / (self.count - 1.0)

    def variance_within(self, shares: Floats) -> float:
        """The mean variance of values inside equal buckets with these shares, for a range of width 1."""
        buckets = len(shares)
        if self.scale is not None:
            nodes, weights = nodes_within(buckets)
            apart = (self.from_unit(nodes) - self.low) / self.width - self.middles(buckets)[:, None]
            return float(shares @ (apart**2 @ weights))
        if not self.count:
            return 1.0 / (12.0 * buckets**2)
        return ((self.count // buckets) ** 2 - 1.0) / (12.0 * (self.count - 1.0) ** 2)

    def histogram(self, values: ArrayLike, buckets: int) -> Integers:
        """The number of values in each of ``buckets`` equal buckets, shape (buckets,)."""
        if self.count:
            index = self._steps(values).astype(np.int64) // (self.count // buckets)
        else:
            index = np.minimum((self.to_unit(values) * buckets).astype(np.int64), buckets - 1)
        return np.bincount(index, minlength=buckets).astype(np.int64)


def on_steps(numbers: ArrayLike, step: float) -> Floats:
    """Multiples of a half step, without the rounding errors of their computation."""
    largest = float(np.fmax.reduce(np.abs(numbers), axis=None, initial=step))
    # A float has fifteen digits; the next ones are errors themselves.
    digits = min(10 - math.floor(math.log10(step)), math.floor(15.0 - math.log10(largest)))
    return np.asarray(np.round(np.asarray(numbers), digits), dtype=np.float64)


def digits_of(low: float, high: float, usual: int, of_width: int = 4) -> int:
    """The number of digits that distinguishes numbers between ``low`` and ``high``.

    Args:
        low: the low end.
        high: the high end.
        usual: the number that suffices for most ranges.
        of_width: show at least this many digits of the width, more if it is narrow and far from 0.
    """
    largest, width = max(abs(low), abs(high)), high - low
    if not 0.0 < width < math.inf:
        return usual
    needed = of_width + math.ceil(math.log10(largest / width))
    # With as many digits as its whole part, a number is written without an exponent.
    return usual if needed <= usual else min(max(needed, 1 + math.floor(math.log10(largest))), 15)


def as_text(number: float) -> str:
    """A number with all its digits, as in studies: different numbers never have the same text."""
    return repr(float(number)).removesuffix(".0")


def check_names(names: tuple[str, ...], what: str) -> None:
    """Check that there are at least two names, all of them distinct and not empty.

    Args:
        names: the names.
        what: what has the names, in the plural, for the message.

    Raises:
        ValueError: if there are fewer than two names, or a name is empty or occurs twice.
    """
    if len(names) < 2:
        raise ValueError(f"a domain needs two {what} or more, found {len(names)}")
    if "" in names:
        raise ValueError(f"an empty text cannot be a name: in files it means no value ({what})")
    if len(set(names)) != len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise ValueError(f"{what} are listed twice in the domain: {', '.join(twice[:5])}")


@dataclass(frozen=True)
class Categories:
    """A finite list of categories; a value is an index into ``names``.

    Raises:
        ValueError: if there are fewer than two categories, or a name is empty or occurs twice.
    """

    names: tuple[str, ...]

    def __post_init__(self) -> None:
        check_names(self.names, "categories")

    @property
    def size(self) -> int:
        """The number of categories."""
        return len(self.names)

    def explain(self, buckets: int) -> str:
        """A person's value, one of the categories, in words."""
        return f"one of {self.size} categories"

    def histogram(self, values: ArrayLike) -> Integers:
        """The number of values (category indexes) in each category, shape (size,)."""
        return np.bincount(np.asarray(values, dtype=np.int64), minlength=self.size).astype(np.int64)


@dataclass(frozen=True)
class Candidates(Categories):
    """Categories whose names change from window to window; a value is a place, from 0 on.

    Attributes:
        names: the names of a window in the order of their places, and OTHERS if there are further places; the
            places as texts if the window is unknown.
        places: the number of places.
        place_of_name: the place of each name except OTHERS, ascending.
    """

    places: int
    place_of_name: tuple[int, ...]

    @classmethod
    def unnamed(cls, places: int) -> Candidates:
        """The places, before their names are known."""
        return cls(tuple(map(str, range(places))), places, tuple(range(places)))

    @classmethod
    def named(cls, places: int, names: Mapping[int, str]) -> Candidates:
        """The places with names, by place."""
        others = (OTHERS,) if len(names) < places else ()
        ordered = sorted(names)
        return cls((*map(names.__getitem__, ordered), *others), places, tuple(ordered))

    @classmethod
    def together(cls, several: Sequence[Candidates]) -> Candidates:
        """The names of several windows, in the order of the first window of each, at places from 0 on.

        Windows that have the same names at the same places keep them.

        Raises:
            ValueError: if there are more names than places, with one for others if a window has others.
        """
        first = several[0]
        if all(window == first for window in several):
            return first
        names = dict.fromkeys(name for window in several for name in window.names if name != OTHERS)
        if len(names) + any(len(window.place_of_name) < window.places for window in several) > first.places:
            raise ValueError(
                f"they have {len(names):,} names together; with one place for others, that is more than "
                f"the study's {first.places:,} places"
            )
        return cls.named(first.places, dict(enumerate(names)))

    def moved_to(self, other: Candidates) -> Integers:
        """The place in ``other`` of each place, shape (places,).

        A name moves to its place there, and the first place without a name to the first one there. Of the
        other places without names, the last move to the places of names that only ``other`` has.
        """
        at = dict(zip(other.names, other.place_of_name, strict=False))
        named = np.array(self.place_of_name, dtype=np.int64)
        moved = np.empty(self.places, dtype=np.int64)
        moved[named] = [at[name] for name in self.names[: len(named)]]
        nameless = np.delete(np.arange(self.places), other.place_of_name)
        only_there = np.setdiff1d(other.place_of_name, moved[named])
        moved[np.delete(np.arange(self.places), named)] = np.concatenate((nameless, only_there))
        return moved

    def __post_init__(self) -> None:
        """Do nothing: the names come from a table that was checked."""

    @property
    def size(self) -> int:
        """The number of places."""
        return self.places

    @functools.cached_property
    def fingerprint(self) -> str:
        """32 hexadecimal digits of the names and their places."""
        text = json.dumps([self.places, self.place_of_name, self.names])
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def explain(self, buckets: int) -> str:
        """A person's value, one of the places, in words."""
        return f"one of the candidates of its window, in {self.places} places"

    def of_names(self, shares: Floats) -> Floats:
        """Sums over the places of each name, shape (places,) to (names,); OTHERS is one name."""
        chosen = np.array(self.place_of_name, dtype=np.int64)
        if len(chosen) == self.places:
            return shares
        return np.append(shares[chosen], np.delete(shares, chosen).sum())

    def at_places(self, shares: Floats) -> Floats:
        """The shares of names at their places, shape (names,) to (places,); OTHERS at its first place."""
        named, at = len(self.place_of_name), np.zeros(self.places)
        at[list(self.place_of_name)] = shares[:named]
        at[np.delete(np.arange(self.places), self.place_of_name)[:1]] = shares[named:]
        return at


@dataclass(frozen=True)
class KeyValues:
    """Any number of keys per person, each with a value in the same numeric range.

    Attributes:
        keys: the keys' names; at least two.
        values: the range of every key's value.

    Raises:
        ValueError: if there are fewer than two keys, or a name is empty or occurs twice.
    """

    keys: tuple[str, ...]
    values: Numeric

    def __post_init__(self) -> None:
        check_names(self.keys, "keys")

    @property
    def size(self) -> int:
        """The number of keys."""
        return len(self.keys)

    def explain(self, buckets: int) -> str:
        """A person's keys and values, in words."""
        return f"any of {self.size} keys per person, each with a number in {self.values.ends}"


@dataclass(frozen=True)
class Vector:
    """Several numbers per person, or a time series; every coordinate has the same range.

    Attributes:
        coordinates: the coordinates' names; at least two.
        values: the range of every coordinate.

    Raises:
        ValueError: if there are fewer than two coordinates, or a name is empty or occurs twice.
    """

    coordinates: tuple[str, ...]
    values: Numeric

    def __post_init__(self) -> None:
        check_names(self.coordinates, "coordinates")

    @property
    def size(self) -> int:
        """The number of coordinates."""
        return len(self.coordinates)

    def explain(self, buckets: int) -> str:
        """A person's coordinates and their range, in words."""
        return (
            f"{self.size} numbers per person, each in {self.values.ends} and {self.values.cut_into(buckets)}"
        )


@dataclass(frozen=True)
class Pair:
    """The values of a person for two attributes, whose reports are joined by user.

    Attributes:
        names: the names of the attributes.
        sides: their domains.
    """

    names: tuple[str, str]
    sides: tuple[Numeric | Categories, Numeric | Categories]

    def explain(self, buckets: int) -> str:
        """A person's two values, in words."""
        return f"{self.names[0]!r} and {self.names[1]!r} of the same person"


@dataclass(frozen=True, eq=False)
class KeyValuePairs:
    """The (key, value) pairs of many people, as columns: person i has rows ``starts[i]:starts[i + 1]``.

    Attributes:
        starts: the first row of each person's pairs, and the number of pairs, shape (people + 1,).
        keys: key indexes, strictly ascending within a person, shape (pairs,).
        values: the keys' values scaled to [0, 1], shape (pairs,).
    """

    starts: Integers
    keys: Integers
    values: Floats

    def __len__(self) -> int:
        """The number of people, including those without a pair."""
        return len(self.starts) - 1

    def __getitem__(self, people: Integers) -> KeyValuePairs:
        """The pairs of some people, given by their indexes, in the order of the indexes."""
        lengths = np.diff(self.starts)[people]
        starts = np.concatenate(([0], np.cumsum(lengths)))
        rows = np.repeat(self.starts[people] - starts[:-1], lengths) + np.arange(starts[-1])
        return KeyValuePairs(starts, self.keys[rows], self.values[rows])


Domain = Numeric | Categories | KeyValues | Vector | Pair


def domain_of_numbers(domain: Domain) -> Domain:
    """The domain of a vector's coordinates; any other domain unchanged."""
    return domain.values if isinstance(domain, Vector) else domain


def number_of_values(domain: Domain) -> int:
    """The number of values of a numeric domain with a step; 0 for any other domain."""
    return domain.count if isinstance(domain, Numeric) else 0


def bucket_midpoints(buckets: int) -> Floats:
    """The midpoints of ``buckets`` equal buckets of [0, 1], shape (buckets,)."""
    return (np.arange(buckets) + 0.5) / buckets


def greatest_divisor(buckets: int, most: int) -> int:
    """The greatest divisor of ``buckets`` up to ``most``: a number of groups of equally many buckets."""
    return next(n for n in range(min(buckets, most), 0, -1) if buckets % n == 0)


def least_multiple(buckets: int, least: int) -> int:
    """The least multiple of ``buckets`` that is at least ``least``."""
    return buckets * -(-least // buckets)
