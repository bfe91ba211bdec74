"""What ``difference`` returns: numbers of two windows or groups, and the second minus the first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from ldpbeam.library.needed import needed
from ldpbeam.pipelines.estimates.difference import Difference

if TYPE_CHECKING:
    import pandas

_TIME = pa.timestamp("ms", "UTC")
_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("attribute", "estimate", "number")),
        *((f"{side}_window_start", _TIME) for side in ("first", "second")),
        *((f"{side}_group", pa.string()) for side in ("first", "second")),
        *(
            (name, pa.float64())
            for name in ("first", "second", "difference", "low", "high", "standard_error")
        ),
        ("beyond", pa.bool_()),
        ("flag", pa.string()),
    ]
)


@dataclass(frozen=True, repr=False)
class Differences:
    """The numbers of two windows or groups, and the second minus the first.

    Iterating gives one :class:`~ldpbeam.pipelines.estimates.difference.Difference` after the other:
    ``number``, ``first``, ``second``, the ends ``low`` and ``high`` of the interval of their difference, and
    its standard error ``error``.

    Attributes:
        numbers: one per number of each estimate that is on both sides.
        level: the level of the intervals.
        about: sentences on what the intervals are for, and on what could not be known.
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
        rows = [
            {
                "attribute": entry.key.attribute,
                "estimate": entry.key.name,
                "number": entry.number,
                "first_window_start": entry.key.window and entry.key.window[0],
                "second_window_start": entry.other_key.window and entry.other_key.window[0],
                "first_group": entry.key.group,
                "second_group": entry.other_key.group,
                "first": entry.first,
                "second": entry.second,
                "difference": entry.second - entry.first,
                "low": entry.low,
                "high": entry.high,
                "standard_error": entry.error,
                "beyond": entry.beyond,
                "flag": entry.flag,
            }
            for entry in self.numbers
        ]
        return pa.Table.from_pylist(rows, schema=_SCHEMA)

    def to_pandas(self) -> pandas.DataFrame:
        """:meth:`to_arrow` as a pandas data frame.

        Raises:
            ImportError: if pandas is not installed.
        """
        needed("pandas")
        return self.to_arrow().to_pandas()
