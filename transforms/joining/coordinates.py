"""Splitting a vector's reports by coordinate: each coordinate is estimated like any other attribute."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from ldpbeam.attributes import Attribute
from ldpbeam.domains import Vector
from ldpbeam.statistics import Answers
from ldpbeam.transforms.joining.join import UserReports


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
