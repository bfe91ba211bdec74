"""PrivKVM's rounds: the services of each round, and the means that one round passes to the next."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from ldpbeam.attributes import Attribute
from ldpbeam.domains import Floats, KeyValues
from ldpbeam.pipelines.errors import UserError
from ldpbeam.schemas.files.local_files import refuse_special
from ldpbeam.study import Study


def services_of_round(attribute: Attribute, number: int | None) -> tuple[str, ...]:
    """The services whose mechanism belongs to a round of PrivKVM; all services if the round is None.

    Raises:
        UserError: if no service belongs to the round.
    """
    if number is None:
        return attribute.services
    services = [v.service for v in attribute.versions if 0 < v.mechanism.round == number]
    if not services:
        rounds = sorted({v.mechanism.round for v in attribute.versions} - {0})
        there = f"there are rounds {', '.join(map(str, rounds))}" if rounds else "no service runs privkvm"
        raise UserError(f"--round {number}: {there}")
    return tuple(dict.fromkeys(services))


def read_means(path: str, study: Study, attribute: Attribute) -> Floats:
    """Each key's mean, scaled to [0, 1], shape (keys,), from a file of estimates (``estimates.jsonl``).

    Exactly one estimate in the file must have means of the attribute's keys in this study.

    Raises:
        UserError: if the file cannot be read, has no such estimate or several, or its means are malformed.
    """
    try:
        refuse_special(path)
        records = [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError) as error:
        raise UserError(f"--means {path}: {error}") from None
    domain = attribute.domain
    if not isinstance(domain, KeyValues):
        raise UserError(f"--means: attribute {attribute.name} has no keys")
    wanted = {"study": study.name, "attribute": attribute.name, "keys": list(domain.keys)}
    estimates = [
        record["key_means"]
        for record in records
        if isinstance(record, dict)
        and record.get("key_means") is not None
        and all(record.get(field) == value for field, value in wanted.items())
    ]
    if len(estimates) != 1:
        raise UserError(
            f"--means {path}: it has {len(estimates) or 'no'} estimates of the means of {attribute.name} in "
            f"study {study.name}; keep only the line of the window, group and estimate meant"
        )
    try:
        means = np.array(estimates[0], dtype=np.float64)
    except (TypeError, ValueError):
        means = np.zeros(0)
    slack = 1e-9 * domain.values.width
    within = (means >= domain.values.low - slack) & (means <= domain.values.high + slack)
    if means.shape != (domain.size,) or not within.all():
        raise UserError(
            f"--means {path}: key_means must be {domain.size} numbers in [{domain.values.low:g}, "
            f"{domain.values.high:g}]"
        )
    return domain.values.to_unit(means)
