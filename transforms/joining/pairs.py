"""Rows of users of attributes that come apart or together: a vector by coordinate, a pair by both sides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from ldpbeam.attributes import Attribute
from ldpbeam.domains import Pair, Vector
from ldpbeam.statistics import Answers, of_users
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


def explain(name: str, coordinates: Sequence[str]) -> str:
    """A sentence on a vector and its coordinates' names, ``attribute.coordinate`` each."""
    return (
        f"Each person reports one coordinate of {name!r}, drawn evenly, with the whole epsilon; each of the "
        f"{len(coordinates)} coordinates, {coordinates[0]!r} to {coordinates[-1]!r}, has a statistic and "
        "estimates of its own:"
    )


def by_coordinate(attribute: Attribute, users: UserReports) -> Iterator[UserReports]:
    """Split the rows of a vector by the coordinate that each report is about; other rows stay as they are."""
    if not isinstance(attribute.domain, Vector):
        yield users
        return
    sampled = [answer.payloads["coordinate"] for answer in users.answers]
    for index in np.unique(np.concatenate(sampled)):
        answers, rows = [], []
        for answer, coordinates in zip(users.answers, sampled, strict=True):
            of_coordinate = np.flatnonzero(coordinates == index)
            if len(of_coordinate):
                answers.append(
                    Answers(
                        answer.version, answer.rows[of_coordinate], answer.payloads["report"][of_coordinate]
                    )
                )
                rows.append(answer.rows[of_coordinate])
        numbers, inverse = np.unique(np.concatenate(rows), return_inverse=True)
        places = np.split(inverse, np.cumsum([len(part) for part in rows])[:-1])
        yield UserReports(
            f"{attribute.name}.{attribute.domain.coordinates[index]}",
            users.group,
            len(numbers) if attribute.group_users else 0,
            tuple(replace(a, rows=rows_of_answer) for a, rows_of_answer in zip(answers, places, strict=True)),
        )
