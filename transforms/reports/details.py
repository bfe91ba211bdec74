"""What a dead letter says beside its reason and its place: which field or name is probably meant.

A detail is made of the names of fields and of the study's names. It repeats no value of a report.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ldpbeam.nearest import did_you_mean
from ldpbeam.schemas.reports.columns import NEAR, NEEDED
from ldpbeam.study import Study
from ldpbeam.transforms.reports.reasons import DETAILS, REASONS

#: This many names of the study are listed.
MOST_LISTED = 8
#: This many different names of a batch are compared with the study's names, and only names as short as this.
MOST_COMPARED, LONGEST_COMPARED = 64, 64
#: The field that is missing, by the reason.
_FIELDS = {f"no_{name}": name for name in NEEDED}


def details(
    study: Study, batch: pa.RecordBatch, bad: NDArray[np.int64], codes: NDArray[np.int8]
) -> list[str]:
    """The detail of each dead letter; empty where the reason says it all.

    Args:
        study: the study.
        batch: a decoded batch.
        bad: the rows of the dead letters, shape (n,).
        codes: the code of the reason of each, above 0, shape (n,).
    """
    names = [_values(batch, column, bad) for column in ("attribute", "service", NEAR)]
    unknown = _Unknown(study)
    sentences = []
    for code, attribute, service, near in zip(codes.tolist(), *names, strict=True):
        reason = REASONS[code]
        if near and reason in _FIELDS:
            sentences.append(_missing(_FIELDS[reason], json.loads(near)))
        elif reason in ("unknown_attribute", "unknown_service"):
            sentences.append(unknown.sentence(reason, attribute, service))
        else:
            sentences.append(DETAILS.get(reason, ""))
    return sentences


def _values(batch: pa.RecordBatch, column: str, rows: NDArray[np.int64]) -> list[Any]:
    """The values of a column in some rows, or those of the constant that replaces it."""
    if column in batch.schema.names:
        values: list[Any] = batch.column(column).take(pa.array(rows)).to_pylist()
        return values
    constant = (batch.schema.metadata or {}).get(column.encode())
    return [constant and constant.decode()] * len(rows)


def _missing(name: str, near: dict[str, tuple[str, str]]) -> str:
    if name not in near:
        return ""
    field, missing = near[name]
    return f"the record has {field!r}; did you mean {missing!r}?"


class _Unknown:
    """Sentences on names that the study does not have; each name of a batch is compared once."""

    def __init__(self, study: Study) -> None:
        self._study = study
        self._compared: dict[tuple[str, str], str] = {}

    def sentence(self, reason: str, attribute: str, service: str) -> str:
        if reason == "unknown_attribute":
            return self._about("an unknown attribute", attribute, self._study.attributes)
        services = self._study.attributes[attribute].services
        return self._about(f"an unknown service of {attribute!r}", service, services)

    def _about(self, what: str, name: str, known: Collection[str]) -> str:
        if (what, name) in self._compared:
            return self._compared[what, name]
        listed = ", ".join([*known][:MOST_LISTED]) + (", ..." if len(known) > MOST_LISTED else "")
        there_are = f"there are: {listed}"
        if len(name) > LONGEST_COMPARED or len(self._compared) >= MOST_COMPARED:
            return f"{what}; {there_are}"
        self._compared[what, name] = f"{what}; {did_you_mean(name, known, there_are)}"
        return self._compared[what, name]
