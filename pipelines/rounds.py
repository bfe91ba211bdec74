"""PrivKVM's rounds: a service each, and the means that one round hands to the next."""

from __future__ import annotations

import json
from pathlib import Path

from ldpbeam.attributes import Attribute
from ldpbeam.domains import Floats, KeyValues
from ldpbeam.mechanisms.privkv import PrivKVM
from ldpbeam.pipelines.errors import UserError


def services_of_round(attribute: Attribute, number: int | None) -> tuple[str, ...]:
    """The services that ask in a round; all of them where no round is named.

    Raises:
        UserError: if none does.
    """
    if number is None:
        return attribute.services
    found = [
        v.service
        for v in attribute.versions
        if isinstance(v.mechanism, PrivKVM) and v.mechanism.round == number
    ]
    if not found:
        rounds = sorted({v.mechanism.round for v in attribute.versions if isinstance(v.mechanism, PrivKVM)})
        there = f"there are rounds {', '.join(map(str, rounds))}" if rounds else "no service runs privkvm"
        raise UserError(f"--round {number}: {there}")
    return tuple(dict.fromkeys(found))


def read_means(path: str, attribute: Attribute) -> Floats:
    """Each key's mean, scaled to [0, 1], from the last estimate in a file that has means of the attribute.

    Raises:
        UserError: if there is none.
    """
    try:
        records = [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError) as error:
        raise UserError(f"--means {path}: {error}") from None
    domain = attribute.domain
    if isinstance(domain, KeyValues):
        for record in reversed(records):
            own = record.get("attribute") == attribute.name and record.get("keys") == list(domain.keys)
            if own and record.get("key_means") is not None:
                return domain.values.to_unit(record["key_means"])
    raise UserError(f"--means {path}: it has no estimate of the means of {attribute.name}'s keys")
