"""The bound on the groups of a fold: those with the fewest reports are merged before they are counted.

A group has statistics of its own, of thousands of bytes, however few reports it has. So a client that sends
another group with each report would fill the memory of a worker. Pure functions over arrays.
"""

from __future__ import annotations

import zlib

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

#: The start of the name of merged groups. It is longer than a group of a report can be.
_MERGED = "merged groups".ljust(300, ".")


def at_most_groups(
    codes: NDArray[np.int64], counted: NDArray[np.bool_], names: pa.Array, most: int
) -> tuple[NDArray[np.int64], pa.Array]:
    """The codes and names of groups, where the groups beyond the ``most`` with the most reports are one.

    Reports without a group are no group that is merged. The result does not depend on the order of reports.

    Args:
        codes: the index of each report's group, shape (n,).
        counted: which reports count, shape (n,).
        names: the distinct groups, text, with a null for reports without one.
        most: how many groups stay as they are.
    """
    reports = np.bincount(codes[counted], minlength=len(names))
    named = np.flatnonzero((reports > 0) & names.is_valid().to_numpy(zero_copy_only=False))
    if len(named) <= most:
        return codes, names
    ranks = pc.rank(names.take(pa.array(named)), tiebreaker="dense").to_numpy()
    order = named[np.lexsort((ranks, -reports[named]))]
    merged = np.zeros(len(names), dtype=np.bool_)
    merged[order[most:]] = True
    # Which groups are merged differs between folds: the first of them tells the folds apart.
    first = zlib.crc32(names[int(order[most])].as_py().encode())
    name = f"{_MERGED}{first:08x}/{len(order) - most}"
    return np.where(merged[codes], len(names), codes), pa.concat_arrays([names, pa.array([name])])


def groups_merged(name: str | None) -> int:
    """How many groups have this name: 0 if it is that of one group, or of reports without a group."""
    return int(name.rpartition("/")[2]) if name is not None and name.startswith(_MERGED) else 0
