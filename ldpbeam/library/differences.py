"""The result of ``difference``: numbers of two windows or groups, and the second minus the first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ldpbeam.answers.difference import Comparison, Difference
from ldpbeam.library.needed import needed
from ldpbeam.schemas.outputs.records import EstimateKey
from ldpbeam.untrusted import shown
from ldpbeam.words import counted

if TYPE_CHECKING:
    import pandas

#: A sentence names at most this many estimates.
_MOST_NAMED = 5
_TIME = pa.timestamp("ms", "UTC")
#: The type of each column of a table of differences, and its value.
_COLUMNS: Mapping[str, tuple[pa.DataType, Callable[[Difference], Any]]] = {
    "attribute": (pa.string(), lambda entry: entry.key.attribute),
    "estimate": (pa.string(), lambda entry: entry.key.name),
    "number": (pa.string(), lambda entry: entry.number),
    "first_window_start": (_TIME, lambda entry: entry.key.window and entry.key.window[0]),
    "second_window_start": (_TIME, lambda entry: entry.other_key.window and entry.other_key.window[0]),
    "first_group": (pa.string(), lambda entry: entry.key.group),
    "second_group": (pa.string(), lambda entry: entry.other_key.group),
    "other_groups": (pa.bool_(), lambda entry: entry.key.rest),
    "first": (pa.float64(), lambda entry: entry.first),
    "second": (pa.float64(), lambda entry: entry.second),
    "difference": (pa.float64(), lambda entry: entry.second - entry.first),
    "low": (pa.float64(), lambda entry: entry.low),
    "high": (pa.float64(), lambda entry: entry.high),
    "certain_low": (pa.float64(), lambda entry: entry.certain and entry.certain[0]),
    "certain_high": (pa.float64(), lambda entry: entry.certain and entry.certain[1]),
    "standard_error": (pa.float64(), lambda entry: entry.error),
    "verdict": (pa.string(), lambda entry: entry.verdict),
    "beyond": (pa.bool_(), lambda entry: entry.beyond),
    "flag": (pa.string(), lambda entry: entry.flag),
}


@dataclass(frozen=True, repr=False)
class Differences:
    """The numbers of two windows or groups, and the second minus the first.

    Iterating gives :class:`~ldpbeam.answers.difference.Difference` values:
    ``number``, ``first``, ``second``, the ends ``low`` and ``high`` of the interval of their difference, the
    ``certain`` ends, its standard error ``error``, and the ``verdict``.

    Attributes:
        numbers: one per number of each estimate that is on both sides.
        level: the level at which the intervals of a family, such as all means, hold together.
        about: sentences about what the intervals cover, what is unknown, and what is not compared.
    """

    numbers: tuple[Difference, ...]
    level: float
    about: tuple[str, ...]

    def __iter__(self) -> Iterator[Difference]:
        return iter(self.numbers)

    def __len__(self) -> int:
        return len(self.numbers)

    def __repr__(self) -> str:
        return f"{len(self):,} differences with {100.0 * self.level:g}% intervals; {'; '.join(self.about)}"

    def to_arrow(self) -> pa.Table:
        """The differences as an Arrow table, one row per number; its columns are always the same."""
        return pa.table(
            {name: pa.array(map(value, self.numbers), kind) for name, (kind, value) in _COLUMNS.items()}
        )

    def to_pandas(self) -> pandas.DataFrame:
        """:meth:`to_arrow` as a pandas data frame.

        Raises:
            ImportError: if pandas is not installed.
        """
        needed("pandas")
        return self.to_arrow().to_pandas()


def not_compared(comparison: Comparison, kind: str) -> Iterator[str]:
    """Sentences about the estimates without a difference.

    Args:
        comparison: the comparison of two windows or groups.
        kind: ``window`` or ``group``.
    """
    for keys, why in (
        (comparison.only_first, f"only in the first {kind}"),
        (comparison.only_second, f"only in the second {kind}"),
        (comparison.unlike, f"of other buckets or names in the second {kind}"),
    ):
        if keys:
            more = ", ..." if len(keys) > _MOST_NAMED else ""
            names = ", ".join(map(_named, keys[:_MOST_NAMED]))
            yield f"not compared: {counted(len(keys), 'estimate')} {why}: {names}{more}"


def _named(key: EstimateKey) -> str:
    group = "all other groups" if key.rest else key.group
    return shown(" ".join(filter(None, (key.attribute, key.name, key.start, group))))
