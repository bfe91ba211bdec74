"""The privacy ledger: how many users spent how much epsilon in each window, by attribute and group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from ldpbeam.answers.readers import of_window, worst
from ldpbeam.attributes import Attribute
from ldpbeam.schemas.outputs.records import Guarantee, LedgerEntry, Spent
from ldpbeam.schemas.outputs.snapshots import Snapshot
from ldpbeam.study import Study, attribute_of
from ldpbeam.times import window_fields


def entries_of(study: Study, snapshots: Iterable[Snapshot]) -> list[LedgerEntry]:
    """The entries of the ledger of a run, from its snapshots.

    The epsilons of a user's reports to several services are added up. The ledger does not know which reports
    to different attributes, in different groups or about different coordinates of a vector come from the same
    user, and it does not include reports dropped as duplicates. With any of these, users may have spent more
    than it says. Users over the study's ``epsilon_cap`` are counted. What readers of the estimates learn is
    stated for the users for whom it is most.
    """
    claims: dict[tuple[Any, ...], list[Guarantee | None]] = {}
    spent: dict[tuple[Any, ...], dict[tuple[float, float], int]] = {}
    for snapshot in snapshots:
        # Joined windows have the reports of other snapshots.
        if snapshot.statistic.users is None or snapshot.joined:
            continue
        attribute = study.attribute(snapshot.attribute)
        # The coordinates of a vector share an entry: each user's report is of one of them.
        key = (attribute_of(snapshot.attribute), snapshot.group, snapshot.window, snapshot.other_groups > 0)
        by_epsilon = spent.setdefault(key, {})
        for mask, moments in snapshot.statistic.moments.items():
            answered = [v.mechanism for i, v in enumerate(attribute.versions) if mask >> i & 1]
            total = round(sum(m.epsilon for m in answered), 9), sum(m.delta for m in answered)
            by_epsilon[total] = by_epsilon.get(total, 0) + moments.users
            claims.setdefault(key, []).append(of_window(study, answered, moments.users))
    cap = study.epsilon_cap
    return [
        LedgerEntry(
            attribute=name,
            group=group,
            **window_fields(window),
            spent=tuple(Spent(epsilon, users, delta) for (epsilon, delta), users in sorted(each.items())),
            epsilon_cap=cap,
            users_over_cap=sum(n for (e, _), n in each.items() if cap is not None and e > cap),
            readers=worst(claims.get((name, group, window, other), ())),
        )
        for (name, group, window, other), each in spent.items()
    ]


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
            f"{', per window' if study.windows else ''}; {_counts_of(study, attribute)}."
        )


def _counts_of(study: Study, attribute: Attribute) -> str:
    if not attribute.has_users:
        return "users are not known, so the ledger has nothing of it"
    if attribute.group_users:
        cap = f", and who is over {study.epsilon_cap:g}" if study.epsilon_cap else ""
        return f"the ledger counts who spent how much{cap}"
    reason = "duplicates: keep" if study.duplicates == "keep" else "repeats: all"
    cap = f", and epsilon_cap {study.epsilon_cap:g} is not checked" if study.epsilon_cap else ""
    return f"the ledger stays empty{cap}, because {reason} brings no user's reports together"
