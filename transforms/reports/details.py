"""What was wrong with a dead letter, in words: found for each distinct value of a batch, not for each report.

A detail may name an attribute or a service that the study does not have, so that a misspelt name is found. A
broken client may send anything there, a user id above all. So such a name is shown only if it looks like a
name (:func:`_is_name`), is no user id of the batch, and is one of few in the batch. None is shown if a user
id of the batch is the name of a service or an attribute, as when columns were swapped. No other value of a
report is shown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ldpbeam.nearest import did_you_mean
from ldpbeam.schemas.reports.columns import NEAR_KEY
from ldpbeam.study import Study
from ldpbeam.transforms.reports.reasons import DETAILS, REASONS

#: More unknown names than this in a batch are no names, but something else of each report.
MOST_UNKNOWN = 10
#: So many known names are listed.
MOST_LISTED = 8
#: Stands for a name that is not shown.
_HIDDEN = ""
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,31}")
#: What names of services do not have: long numbers, and the hexadecimal digits of ids and hashes.
_LIKE_AN_ID = re.compile(r"\d{5}|[0-9a-fA-F]{8}")


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
    services = sorted({name for own in study.attributes.values() for name in own.services})
    reserved = pa.array([name.encode() for name in (*study.attributes, *services)], pa.binary())
    attributes = _named(batch, bad, "attribute", list(study.attributes), reserved)
    answered = _named(batch, bad, "service", services, reserved)
    places = np.stack([codes.astype(np.int64), attributes.indices, answered.indices])
    distinct, where = np.unique(places, axis=1, return_inverse=True)
    near = json.loads((batch.schema.metadata or {}).get(NEAR_KEY.encode(), b"{}"))
    sentences = [
        _missing(REASONS[code], near)
        or _sentence(study, REASONS[code], attributes.values[attribute], answered.values[service])
        for code, attribute, service in distinct.T.tolist()
    ]
    return [sentences[place] for place in where.ravel().tolist()]


@dataclass(frozen=True)
class _Named:
    """A column of names: its distinct values (None for no value), and the index of each row's, shape (n,)."""

    values: Sequence[str | None]
    indices: NDArray[np.int64]


def _named(
    batch: pa.RecordBatch, bad: NDArray[np.int64], column: str, known: Sequence[str], reserved: pa.Array
) -> _Named:
    """A column's values in some rows, or the constant that replaces it; what must not be shown is hidden."""
    if column in batch.schema.names:
        encoded = batch.column(column).take(pa.array(bad)).dictionary_encode()
        values, indices = encoded.dictionary, pc.fill_null(encoded.indices, -1).to_numpy()
    else:
        constant = (batch.schema.metadata or {}).get(column.encode())
        values = pa.array([constant.decode()] if constant else [], pa.string())
        indices = np.full(len(bad), 0 if constant else -1)
    unknown = values.filter(pc.invert(pc.is_in(values, value_set=pa.array(known, pa.string()))))
    shown = set(known) | _showable(unknown, batch.column("user_id"), reserved)
    if len(values) > len(known) + MOST_UNKNOWN:
        # Few of so many values can be known: the others share an index.
        places = pc.fill_null(pc.index_in(values, value_set=pa.array(known, pa.string())), len(known))
        indices = np.where(indices < 0, -1, np.append(places.to_numpy(), 0)[indices])
        return _Named([*known, _HIDDEN, None], indices.astype(np.int64))
    told: list[str | None] = [value if value in shown else _HIDDEN for value in values.to_pylist()]
    return _Named([*told, None], indices.astype(np.int64))


def _showable(unknown: pa.Array, users: pa.Array, reserved: pa.Array) -> set[str]:
    """Those of the unknown names that may be shown."""
    if not 0 < len(unknown) <= MOST_UNKNOWN:
        return set()
    if pc.any(pc.is_in(users, value_set=reserved)).as_py():
        return set()
    ids = pc.is_in(unknown.cast(pa.binary()), value_set=users.drop_null()).to_pylist()
    return {
        name for name, is_id in zip(unknown.to_pylist(), ids, strict=True) if not is_id and _is_name(name)
    }


def _is_name(text: str) -> bool:
    """Whether a text may be the name of a service, and is not like an id, a number or a hash."""
    return _NAME.fullmatch(text) is not None and _LIKE_AN_ID.search(text) is None


#: The field that is missing, by the reason.
_FIELDS = {f"no_{name}": name for name in ("user_id", "attribute", "service", "event_time", "payload")}


def _missing(reason: str, near: Mapping[str, str]) -> str:
    """The detail of a report without a field, if the record has one that is probably meant; else empty."""
    name = _FIELDS.get(reason, "")
    return f"the record has {near[name]!r}; did you mean {name!r}?" if name in near else ""


def _sentence(study: Study, reason: str, attribute: str | None, service: str | None) -> str:
    """The detail of a reason; attribute and service are those of the report, empty if they are not shown."""
    if reason == "unknown_attribute":
        return _unknown("attribute", attribute, "", list(study.attributes))
    described = study.attributes.get(attribute or "")
    if described is None:
        return DETAILS.get(reason, "")
    if reason == "unknown_service":
        return _unknown("service", service, f" of {attribute!r}", list(described.services))
    model = described.services.get(service or "")
    if model is None:
        return DETAILS.get(reason, "")
    if reason == "unknown_version":
        if model.version_field:
            return f"its field {model.version_field!r} names no version of service {service!r}"
        return f"its event time lies in no version of service {service!r}"
    if reason == "other_stamp":
        return f"its file states another mechanism, epsilon or domain than the study for service {service!r}"
    if reason.startswith("payload_"):
        compiled = study.attribute(attribute or "")
        mechanisms = [compiled.versions[index].mechanism for index in compiled.versions_of([service or ""])]
        told = " or ".join(dict.fromkeys(f"{own.title} with epsilon {own.epsilon:g}" for own in mechanisms))
        width = mechanisms[0].payload_dtype
        bytes_ = f" of {width.itemsize} bytes" if width.kind == "V" and len(mechanisms) == 1 else ""
        return f"service {service!r} of {attribute!r} sends reports{bytes_} of {told}"
    return DETAILS.get(reason, "")


def _unknown(what: str, name: str | None, of: str, known: Sequence[str]) -> str:
    """A sentence on a name that the study does not have."""
    listed = ", ".join(known[:MOST_LISTED]) + (", ..." if len(known) > MOST_LISTED else "")
    if not name:
        hidden = "not shown, because it may identify somebody"
        return f"an unknown {what}{of} ({hidden}); there are: {listed}"
    return f"{what} {name!r}{of} is unknown; {did_you_mean(name, known, f'there are: {listed}')}"
