"""What a file of values suggests for a study: its columns, and a range or categories of one of them."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from ldpbeam.answers.people import CSV, check_once, other_table, start_of
from ldpbeam.domains import Numeric
from ldpbeam.errors import UserError, naming
from ldpbeam.nearest import did_you_mean
from ldpbeam.schemas.files.local_files import refuse_special

#: A column with more different texts is taken for one of ids, not of categories.
MOST_CATEGORIES = 1_000


#: A step is proposed from at least FEWEST_NUMBERS numbers, all below LARGEST and with at most MOST_DIGITS
#: decimals.
FEWEST_NUMBERS, LARGEST, MOST_DIGITS = 20, 1e9, 4
#: If 98% of the numbers fill less than this share of the range, most buckets of an estimate are wasted.
LITTLE = 0.5
#: A tail is heavy if half of the numbers are below this part of what 99% are below. With values of 0, half of
#: them are at least this many units.
HEAVY, UNITS = 0.1, 5.0
_NUMBERS = pa.types.is_floating, pa.types.is_integer, pa.types.is_decimal
_TEXTS = (
    *(pa.types.is_boolean, pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view),
    pa.types.is_dictionary,
)


@dataclass(frozen=True)
class Proposal:
    """What the values of a column suggest.

    Attributes:
        range: (low, high), rounded outward, if they are numbers.
        most: the range of the middle 98% of the numbers, if they fill little of ``range``; else None.
        categories: the different texts in the order of the alphabet, if they are texts.
        step: the greatest number of which all numbers are multiples, if the range has few such values.
        scale: ``log`` or ``log1p`` where few numbers take most of the range; there is then no step.
    """

    range: tuple[float, float] | None = None
    categories: tuple[str, ...] = ()
    most: tuple[float, float] | None = None
    step: float | None = None
    scale: Literal["log", "log1p"] | None = None


#: The names of columns of user ids, in lower case and without other characters than letters.
_USERS = re.compile("id|uid|(user|client|device|person|visitor|account|member|customer)(id|key)?")


def names_users(column: str) -> bool:
    """Whether a column, by its name, has user ids."""
    return bool(_USERS.fullmatch(re.sub("[^a-z]", "", column.lower())))


#: Those of columns of event times.
_TIMES = re.compile(
    "(event|report|created|recorded)?(time|times|timestamp|date|datetime|when)|ts|(created|recorded)at"
)


def columns_of(path: str) -> list[str]:
    """The names of a file's columns.

    Raises:
        UserError: if it cannot be read as CSV or Parquet.
    """
    return [column for column, _ in _types_of(path)]


def times_in(path: str) -> str | None:
    """The first column with event times by its name, and by its first values; None without one.

    Times without a zone may be hours away from what is meant, and are refused later.
    """
    for column, kind in _types_of(path):
        named = _TIMES.fullmatch(re.sub("[^a-z]", "", column.lower()))
        if named and pa.types.is_timestamp(kind) and kind.tz is not None:
            return column
    return None


def _types_of(path: str) -> list[tuple[str, pa.DataType]]:
    """(name, type) of each column; several may have one name."""
    with _as_mistakes(path):
        if _is_parquet(path):
            schema = pq.read_schema(path)
            return list(zip(schema.names, schema.types, strict=True))
        if (other := other_table(start_of(path))) is not None:
            raise UserError(f"{path}: it is {other}")
        with pyarrow.csv.open_csv(path, parse_options=CSV) as reader:
            return list(zip(reader.schema.names, reader.schema.types, strict=True))


def proposal(path: str, column: str) -> Proposal:
    """What the values of a column suggest.

    Raises:
        UserError: if there is no such column, or nothing can be proposed from it.
    """
    names = columns_of(path)
    if column not in names:
        hint = did_you_mean(column, names, after=" ")
        raise UserError(f"{path}: there is no column {column!r}; {hint}There are {', '.join(names)}")
    check_once(path, [column], names)
    with _as_mistakes(path):
        values = _values(path, column)
    if values.null_count == len(values):
        raise UserError(f"{path}: column {column!r} is empty")
    if any(is_type(values.type) for is_type in _NUMBERS):
        numbers = values.cast(pa.float64(), safe=False)
        numbers = numbers.filter(pc.is_finite(numbers))
        ends = pc.min_max(numbers)
        if ends["min"].as_py() is None:
            raise UserError(f"{path}: column {column!r} has no finite number")
        with naming(f"{path}: column {column!r}"):
            whole = rounded_outward(ends["min"].as_py(), ends["max"].as_py())
            most = rounded_outward(*pc.quantile(numbers, [0.01, 0.99], interpolation="nearest").to_pylist())
        if (scaled := on_scale(numbers, whole)) is not None:
            return scaled
        few = most[1] - most[0] < LITTLE * (whole[1] - whole[0])
        stepped = on_multiples(whole, common_step(numbers))
        return Proposal(range=(stepped.low, stepped.high), most=most if few else None, step=stepped.step)
    if any(is_type(values.type) for is_type in _TEXTS):
        if pa.types.is_string_view(values.type):
            values = values.cast(pa.string())
        if names_users(column):
            raise UserError(f"{path}: column {column!r} has the ids of people, not their answers")
        different = sorted({str(text) for text in pc.unique(values.drop_null()).to_pylist()} - {""})
        if not 2 <= len(different) <= MOST_CATEGORIES:
            raise UserError(
                f"{path}: column {column!r} has {len(different):,} different values; categories are 2 to "
                f"{MOST_CATEGORIES:,}: name them with --categories"
            )
        return Proposal(categories=tuple(different))
    raise UserError(f"{path}: column {column!r} has values of type {values.type}, and no numbers or texts")


def on_scale(numbers: pa.ChunkedArray, ends: tuple[float, float]) -> Proposal | None:
    """A range with a scale, if the numbers have a heavy tail and none is below 0; else None.

    Args:
        numbers: the numbers.
        ends: a range that holds them.
    """
    least, middle, most = pc.quantile(numbers, [0.0, 0.5, 0.99], interpolation="nearest").to_pylist()
    if len(numbers) < FEWEST_NUMBERS or least < 0 or middle > HEAVY * most:
        return None
    if least > 0:
        # The first digit of the least number, rounded down.
        power = 10.0 ** math.floor(math.log10(least))
        return Proposal(range=(float(f"{math.floor(least / power) * power:.12g}"), ends[1]), scale="log")
    # Near 0 the logarithm of 1 + x is nearly x.
    return Proposal(range=(0.0, ends[1]), scale="log1p") if middle >= UNITS else None


def common_step(numbers: pa.ChunkedArray) -> float | None:
    """The greatest number of which all are multiples; None if they have many digits, or are few."""
    different = numbers.unique().to_numpy()
    if len(numbers) < FEWEST_NUMBERS or len(different) < 2 or np.abs(different).max() >= LARGEST:
        return None
    for digits in range(MOST_DIGITS + 1):
        scaled = different * 10.0**digits
        if (np.abs(scaled - np.rint(scaled)) < 1e-6).all():
            return float(f"{int(np.gcd.reduce(np.rint(scaled).astype(np.int64))) / 10**digits:.12g}")
    return None


def on_multiples(ends: tuple[float, float], step: float | None) -> Numeric:
    """The least range that holds another one and is of whole steps, if it has few values; else that range."""
    low, high = ends
    if step is not None:
        first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
        with contextlib.suppress(ValueError):
            return Numeric(float(f"{first * step:.12g}"), float(f"{last * step:.12g}"), step)
    return Numeric(low, high)


def rounded_outward(low: float, high: float) -> tuple[float, float]:
    """The ends of a range that holds both numbers, at multiples of 1, 2 or 5 times a power of ten.

    The step is at most a quarter of the distance of the numbers, so the range is at most half as long again.

    Raises:
        ValueError: if the numbers are too far apart for a range, or too close to each other.
    """
    distance = high - low or max(abs(low), 1.0)
    if not 1e-100 < distance < 1e100:
        raise ValueError(f"numbers from {low:g} to {high:g} do not span a range: give one with --range")
    power = 10.0 ** math.floor(math.log10(distance / 4.0))
    step = next(factor * power for factor in (5.0, 2.0, 1.0) if factor * power <= distance / 4.0)
    ends = math.floor(low / step) * step, math.ceil(high / step) * step
    if ends[0] == ends[1]:
        ends = ends[0] - step, ends[1] + step
    # Twelve digits: 0.1 + 0.2 is shown as 0.3.
    first, last = float(f"{ends[0]:.12g}"), float(f"{ends[1]:.12g}")
    if not first <= low <= high <= last:
        raise ValueError(f"numbers from {low:.17g} to {high:.17g} have too many digits: give --range")
    return first, last


def _values(path: str, column: str) -> pa.ChunkedArray:
    if _is_parquet(path):
        return pq.read_table(path, columns=[column]).column(column)
    options = pyarrow.csv.ConvertOptions(include_columns=[column], strings_can_be_null=True, null_values=[""])
    values = pyarrow.csv.read_csv(path, parse_options=CSV, convert_options=options).column(column)
    words = pa.types.is_boolean(values.type)
    if words or any(is_type(values.type) for is_type in _NUMBERS):
        options.column_types = {column: pa.string()}
        texts = pyarrow.csv.read_csv(path, parse_options=CSV, convert_options=options).column(column)
        # Numbers have no zeros before them, and codes keep theirs, as true and TRUE keep their letters.
        if words or pc.any(pc.match_substring_regex(texts, r"^\s*0\d")).as_py():
            return texts
    return values


def _is_parquet(path: str) -> bool:
    with open(path, "rb") as stream:
        return stream.read(4) == b"PAR1"


@contextlib.contextmanager
def _as_mistakes(path: str) -> Iterator[None]:
    """Errors of reading the file become the user's."""
    try:
        refuse_special(path)
        yield
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        said = getattr(error, "strerror", None) or f"it cannot be read as CSV or Parquet: {error}"
        raise UserError(f"{path}: {said}") from None
