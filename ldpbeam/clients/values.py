"""True values in natural units and names, checked and scaled for mechanisms."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ldpbeam.attributes import Attribute
from ldpbeam.clients.arrays import array_of
from ldpbeam.domains import (
    Candidates,
    Categories,
    Domain,
    Floats,
    Integers,
    KeyValuePairs,
    KeyValues,
    Numeric,
    Pair,
    Vector,
    domain_of_numbers,
)
from ldpbeam.schemas.reports.casts import cast_column


def scaled_values(attribute: Attribute, values: Any, clip: bool) -> NDArray[Any] | KeyValuePairs:
    """The values of n people, as inputs of the attribute's mechanisms.

    Args:
        attribute: the attribute of the values.
        values: numbers or names, shape (n,); n dicts of keys and values; coordinates, by name or of shape
            (n, coordinates); or those of both attributes of a pair.
        clip: whether numbers outside the domain are moved to its nearest end.

    Raises:
        ValueError: if a value is missing, of another type or outside the domain.
    """
    domain, name = attribute.domain, attribute.name
    if isinstance(domain, Pair):
        both = zip(attribute.sides, values, strict=True)
        return np.column_stack([np.asarray(scaled_values(side, one, clip)) for side, one in both])
    if isinstance(domain, Vector):
        return scaled(domain, _inside(_coordinates(values, domain, name), domain.values, name, clip))
    one = isinstance(values, str | bytes | Mapping) or getattr(values, "ndim", 1) == 0
    if one or not isinstance(values, Iterable):
        raise ValueError(f"values of {name!r} are of type {type(values).__name__}: give a list with one each")
    values = list(values) if isinstance(values, Iterator) else values
    if isinstance(domain, Numeric):
        return scaled(domain, _inside(_one_each(values, name), domain, name, clip))
    if isinstance(domain, Candidates):
        looked_up = "places (clients look up the place of a name in their window's table)"
        return _indexes(values, domain.names, name, "place", looked_up)
    if isinstance(domain, Categories):
        return _indexes(values, domain.names, name, "category", "categories")
    assert isinstance(domain, KeyValues)
    return _pairs(values, domain, name, clip)


def scaled(domain: Domain, values: NDArray[Any] | KeyValuePairs) -> NDArray[Any] | KeyValuePairs:
    """The values as inputs of mechanisms: numbers are scaled to [0, 1], all others unchanged."""
    numbers = domain_of_numbers(domain)
    if isinstance(numbers, Numeric) and not isinstance(values, KeyValuePairs):
        return numbers.to_unit(values)
    return values


def scaled_means(domain: KeyValues, means: Mapping[str, float]) -> Floats:
    """Each key's mean, scaled to [0, 1], shape (keys,).

    Raises:
        ValueError: if a key has none, or a mean lies outside the range of the values.
    """
    missing = [key for key in domain.keys if key not in means]
    if missing:
        raise ValueError(f"means has no mean for the key {missing[0]!r}: give one for each key of the study")
    given = _one_each([means[key] for key in domain.keys], "means")
    return domain.values.to_unit(_inside(given, domain.values, "means", clip=False))


def _one_each(values: Any, name: str) -> Floats:
    """Numbers as doubles, shape (n,).

    Raises:
        ValueError: if one is no number, or the shape is another.
    """
    numbers = _numbers(values, name)
    if numbers.ndim != 1:
        raise ValueError(f"values of {name!r} have the shape {numbers.shape}: give one number each")
    return numbers


def _numbers(values: Any, name: str) -> Floats:
    """Numbers as doubles, of any shape.

    Raises:
        ValueError: if one is no number.
    """
    if isinstance(values, pa.Array | pa.ChunkedArray):
        values = values.to_numpy(zero_copy_only=False) if isinstance(values, pa.Array) else values.to_numpy()
    try:
        given = np.asarray(values)
    except ValueError:
        raise ValueError(
            f"values of {name!r} are lists of different lengths: give each person equally many"
        ) from None
    if given.dtype.kind not in "iufO":
        kind = given.dtype.type.__name__.removesuffix("_")
        raise ValueError(f"{name!r} is a number, found {kind}: give numbers, not text or truth values")
    try:
        return given.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        for row, value in enumerate(given.ravel().tolist()):
            try:
                float(value)
            except OverflowError:
                raise ValueError(f"value [{row}] of {name!r} is an integer that is too large") from None
            except (TypeError, ValueError):
                raise ValueError(
                    f"value [{row}] of {name!r} is {type(value).__name__}, not a number: leave out people "
                    "without a value"
                ) from None
        raise


def _inside(numbers: Floats, domain: Numeric, name: str, clip: bool) -> Floats:
    """The numbers, all inside the domain.

    Raises:
        ValueError: for the first that is not finite, or outside if it is not to be clipped.
    """
    flat = numbers.ravel()
    finite = np.isfinite(flat)
    if not finite.all():
        row = int(np.argmin(finite))
        raise ValueError(
            f"value [{row}] of {name!r} is {flat[row]}, not a number: leave out people without a value"
        )
    outside = (flat < domain.low) | (flat > domain.high)
    if outside.any() and not clip:
        row = int(np.argmax(outside))
        more = f", and so do {outside.sum() - 1:,} more" if outside.sum() > 1 else ""
        raise ValueError(
            f"value [{row}] of {name!r} lies outside the domain {domain.ends}{more}: "
            "give values in the study's unit, or clip=True to the client, which moves them to the nearest end"
        )
    return np.clip(numbers, domain.low, domain.high)


def _indexes(values: Any, names: Sequence[str], attribute: str, kind: str, kinds: str) -> Integers:
    """The index of each name, shape (n,).

    Raises:
        ValueError: for the first value that is no name.
    """
    given = array_of(values)
    if given is None:
        # Values of several types, or text that is not UTF-8: anything may be there that is no name.
        values, allowed = list(values), set(names)
        given = pa.array([value if isinstance(value, str) and value in allowed else None for value in values])
    texts = cast_column("category", given)
    codes = pc.fill_null(pc.index_in(texts, value_set=pa.array(names, pa.string())), -1)
    indexes: Integers = codes.to_numpy(zero_copy_only=False).astype(np.int64)
    if (indexes < 0).any():
        row = int(np.argmax(indexes < 0))
        wrong = values[row] if isinstance(values, list) else given[row].as_py()
        if wrong is None:
            raise ValueError(f"value [{row}] of {attribute!r} is missing: leave out people without a value")
        listed = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
        raise ValueError(
            f"value [{row}] of {attribute!r} is {type(wrong).__name__} that is no {kind} of the study; the "
            f"{kinds} are: {listed}"
        )
    return indexes


def _pairs(values: Any, domain: KeyValues, name: str, clip: bool) -> KeyValuePairs:
    """The pairs of people, each of whom has a dict of keys and values.

    Raises:
        ValueError: if a person has none, or a key or value is not in the domain.
    """
    people: Sequence[Any] = list(values)
    for row, pairs in enumerate(people):
        if not isinstance(pairs, Mapping):
            raise ValueError(
                f"value [{row}] of {name!r} is {type(pairs).__name__}: write a dict of keys and values, "
                f"such as {{{domain.keys[0]!r}: {domain.values.low:g}}}, or {{}} for a person without any"
            )
    lengths = np.array([len(pairs) for pairs in people], dtype=np.int64)
    keys = _indexes([str(key) for pairs in people for key in pairs], domain.keys, name, "key", "keys")
    numbers = _one_each([number for pairs in people for number in pairs.values()] or np.zeros(0), name)
    inside = domain.values.to_unit(_inside(numbers, domain.values, name, clip))
    person = np.repeat(np.arange(len(people)), lengths)
    order = np.lexsort((keys, person))
    return KeyValuePairs(np.concatenate(([0], np.cumsum(lengths))), keys[order], inside[order])


def _coordinates(values: Any, domain: Vector, name: str) -> Floats:
    """Numbers of shape (n, coordinates) in the order of the study, found by name if they have names.

    Raises:
        ValueError: if a coordinate is missing or unknown, or the shape is another.
    """
    people = _by_name(values) if isinstance(values, tuple) else values
    people = [_by_name(person) for person in people] if isinstance(people, list | tuple) else people
    # Tables of Arrow have column names in one attribute, those of pandas and polars in the other.
    names = getattr(people, "column_names", getattr(people, "columns", None))
    if isinstance(people, Mapping):
        names = people
    elif isinstance(people, list) and people and all(isinstance(person, Mapping) for person in people):
        names = dict.fromkeys(key for person in people for key in person)
        people = {key: [person.get(key) for person in people] for key in names}
    if names is not None:
        _check_coordinates(list(names), domain, name)
        columns = [_numbers(people[key], f"{name}.{key}") for key in domain.coordinates]
        if len({column.shape for column in columns}) > 1 or columns[0].ndim != 1:
            raise ValueError(
                f"the coordinates of {name!r} are not lists of one length: give each once per person"
            )
        return np.column_stack(columns)
    numbers = _numbers(people, name)
    if numbers.ndim != 2 or numbers.shape[1] != domain.size:
        raise ValueError(
            f"values of {name!r} have the shape {numbers.shape}: give (people, {domain.size}), or a dict of "
            f"the coordinates {domain.coordinates[0]!r} to {domain.coordinates[-1]!r}"
        )
    return numbers


def _by_name(person: Any) -> Any:
    """A named tuple, or a row of pandas, as a dict."""
    if hasattr(person, "_asdict"):
        return person._asdict()
    return person.to_dict() if hasattr(person, "to_dict") else person


def _check_coordinates(names: Sequence[Any], domain: Vector, name: str) -> None:
    """Check that the names are those of the study's coordinates.

    Raises:
        ValueError: if one is missing, unknown or duplicated.
    """
    given = set(names)
    missing = next((key for key in domain.coordinates if key not in given), None)
    if missing is not None:
        raise ValueError(f"{name!r} has no coordinate {missing!r}: give all of the study's")
    if len(names) > domain.size:
        more = next(key for at, key in enumerate(names) if key not in domain.coordinates or key in names[:at])
        raise ValueError(
            f"values of {name!r} have {more!r} as well: give each coordinate of the study once, and nothing "
            "else"
        )
