"""The privacy ledger: how many users spent how much epsilon in each window, by attribute and group."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from ldpbeam.pipelines.estimates.readers import of_window, worst
from ldpbeam.pipelines.runs.output import LEDGER, Output, snapshots_of
from ldpbeam.schemas.outputs.records import Central, fields_of
from ldpbeam.study import Study, attribute_of
from ldpbeam.times import window_fields
from ldpbeam.transforms.storage import write_bytes


def write_ledger(job: Output) -> list[dict[str, Any]]:
    """Write the ledger of a run from its snapshots, and return its entries.

    The epsilons of a user's reports to several services are added up. The ledger does not know which reports
    to different attributes, in different groups or about different coordinates of a vector come from the same
    user, and it does not include reports dropped as duplicates. With any of these, users may have spent more
    than it says. Users over the study's ``epsilon_cap`` are counted. What readers of the estimates learn is
    stated for the users for whom it is most.
    """
    claims: dict[tuple[Any, ...], list[Central | None]] = {}
    spent: dict[tuple[Any, ...], dict[tuple[float, float], int]] = {}
    for snapshot in snapshots_of(job):
        # Joined windows have the reports of other snapshots.
        if snapshot.statistic.users is None or snapshot.joined:
            continue
        attribute = job.study.attribute(snapshot.attribute)
        # The coordinates of a vector share an entry: each user's report is of one of them.
        key = (attribute_of(snapshot.attribute), snapshot.group, snapshot.window, snapshot.other_groups > 0)
        by_epsilon = spent.setdefault(key, {})
        for mask, moments in snapshot.statistic.moments.items():
            answered = [v.mechanism for i, v in enumerate(attribute.versions) if mask >> i & 1]
            total = round(sum(m.epsilon for m in answered), 9), sum(m.delta for m in answered)
            by_epsilon[total] = by_epsilon.get(total, 0) + moments.users
            claims.setdefault(key, []).append(of_window(job.study, answered, moments.users))
    cap = job.study.epsilon_cap
    entries = []
    for key, by_epsilon in spent.items():
        (name, group, window, _), claim = key, worst(claims.get(key, ()))
        entries.append(
            {
                "attribute": name,
                "group": group,
                **window_fields(window),
                "spent": [
                    {"epsilon": e, **({"delta": d} if d else {}), "users": n}
                    for (e, d), n in sorted(by_epsilon.items())
                ],
                "epsilon_cap": cap,
                "users_over_cap": sum(n for (e, _), n in by_epsilon.items() if cap is not None and e > cap),
                "readers": claim and fields_of(claim),
            }
        )
    write_bytes(job.path(LEDGER), json.dumps(entries, indent=1).encode() + b"\n")
    return entries


def explain(study: Study) -> Iterator[str]:
    """One sentence per attribute: the epsilon that a user spends, and what the ledger counts."""
    for name in study.attributes:
        attribute = study.attribute(name)
        # A user is kept once per service, whose versions may differ: the largest of each counts.
        versions = [
            [attribute.versions[i].mechanism for i in attribute.versions_of([service])]
            for service in attribute.services
        ]
        total = float(np.sum([max(mechanism.epsilon for mechanism in mechanisms) for mechanisms in versions]))
        delta = float(np.sum([max(mechanism.delta for mechanism in mechanisms) for mechanisms in versions]))
        yield (
            f"A user who reports {name!r} to every service spends epsilon {total:g}"
            f"{f' and delta {delta:g}' if delta else ''} in all"
            f"{', per window' if study.windows else ''}; {_counts_of(study)}."
        )


def _counts_of(study: Study) -> str:
    if study.group_users:
        cap = f", and who is over {study.epsilon_cap:g}" if study.epsilon_cap else ""
        return f"the ledger counts who spent how much{cap}"
    reason = "duplicates: keep" if study.duplicates == "keep" else "repeats: all"
    cap = f", and epsilon_cap {study.epsilon_cap:g} is not checked" if study.epsilon_cap else ""
    return f"the ledger stays empty{cap}, because {reason} brings no user's reports together"
