"""Pairs: reports of two attributes under the name of the pair, and the users who have reports of both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from ldpbeam.attributes import Attribute
from ldpbeam.domains import Pair
from ldpbeam.statistics import of_users
from ldpbeam.transforms.joining.join import UserReports
from ldpbeam.transforms.reports.batches import attribute_name, tagged, version_index

#: The pairs that each attribute is in, with the place there of its first channel.
InPairs = Mapping[str, tuple[tuple[str, int], ...]]


def with_pairs(batch: pa.RecordBatch, in_pairs: InPairs) -> Iterator[pa.RecordBatch]:
    """The reports of a channel, and the same reports as those of each pair that the attribute is in.

    The statistics of a pair count no report: those of its attributes do.
    """
    yield batch
    for pair, first in in_pairs.get(attribute_name(batch), ()):
        yield tagged(batch, pair, first + version_index(batch))


def of_both(attribute: Attribute, users: UserReports) -> Iterator[UserReports]:
    """The rows of users who have reports of both attributes of a pair; all rows of other attributes."""
    if not isinstance(attribute.domain, Pair):
        yield users
        return
    first = attribute.sides[0].versions
    has = np.zeros((2, users.users), dtype=np.bool_)
    for answer in users.answers:
        has[int(answer.version >= len(first)), answer.rows] = True
    both = has[0] & has[1]
    if both.any():
        yield users._replace(users=int(both.sum()), answers=tuple(of_users(users.answers, both)))
