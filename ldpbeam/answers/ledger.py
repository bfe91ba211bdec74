"""The privacy ledger: how many users spent how much epsilon in each window, by attribute and group."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

import numpy as np

from ldpbeam.attributes import Attribute
from ldpbeam.schemas.outputs.records import LedgerEntry, Spent
from ldpbeam.schemas.outputs.snapshots import Snapshot
from ldpbeam.spent import DECIMALS
from ldpbeam.study import Study, attribute_of
from ldpbeam.times import window_fields
from ldpbeam.windows import Bounds

#: Of each attribute that shares an entry, how many users sent each set of channels.
_Sent = tuple[tuple[str, tuple[tuple[int, int], ...]], ...]
#: An attribute, a group, a window, and whether it is of the rest of the groups.
_Place = tuple[str, str | None, Bounds | None, bool]


class Ledger:
    """The ledger of a run, from its snapshots.

    The epsilons of a user's reports to several services are added up. The ledger does not know which reports
    to different attributes, in different groups or about different coordinates of a vector come from the same
    user, and it does not include reports dropped as duplicates. With any of these, users may have spent more
    than it says. Users over the study's ``epsilon_cap`` are counted.

    Args:
        study: the study of the run.
    """

    def __init__(self, study: Study) -> None:
        self._study = study
        self._sent: dict[_Place, _Sent] = {}
        # There may be hundreds of thousands of windows in which one user sent the same.
        self._alike: dict[_Sent, _Sent] = {}

    def add(self, snapshots: Iterable[Snapshot]) -> None:
        """Take further snapshots."""
        for snapshot in snapshots:
            # Joined windows and pairs have the reports of other snapshots.
            again = snapshot.joined or self._study.is_pair(snapshot.attribute)
            if snapshot.statistic.users is None or again:
                continue
            # The coordinates of a vector share an entry: each user's report is of one of them.
            name = attribute_of(snapshot.attribute)
            key = name, snapshot.group, snapshot.window, snapshot.other_groups > 0
            users = tuple((mask, moments.users) for mask, moments in snapshot.statistic.moments.items())
            sent = *self._sent.get(key, ()), (snapshot.attribute, users)
            self._sent[key] = self._alike.setdefault(sent, sent)

    def alike(self) -> Iterator[tuple[LedgerEntry, Iterator[Bounds | None]]]:
        """(an entry without its window, the windows of all that follow each other and are else equal).

        Entries come in the order of their first snapshots.
        """
        spent = cache(self._spent)
        for (name, group, _, sent), alike in itertools.groupby(self._sent.items(), _but_window):
            entry = LedgerEntry(attribute=name, group=group, **window_fields(None), **spent(sent))
            yield entry, (window for (_, _, window, _), _ in alike)

    def _spent(self, sent: _Sent) -> dict[str, Any]:
        """The fields of an entry that depend on what was sent."""
        by_epsilon: dict[tuple[float, float], int] = {}
        for name, each in sent:
            versions = self._study.attribute(name).versions
            for mask, users in each:
                answered = [v.mechanism for i, v in enumerate(versions) if mask >> i & 1]
                total = round(sum(m.epsilon for m in answered), DECIMALS), sum(m.delta for m in answered)
                by_epsilon[total] = by_epsilon.get(total, 0) + users
        cap = self._study.epsilon_cap
        most = math.inf if cap is None else round(cap, DECIMALS)
        return {
            "spent": tuple(Spent(epsilon, n, delta) for (epsilon, delta), n in sorted(by_epsilon.items())),
            "epsilon_cap": cap,
            "users_over_cap": sum(n for (epsilon, _), n in by_epsilon.items() if epsilon > most),
        }


def _but_window(entry: tuple[_Place, _Sent]) -> tuple[str, str | None, bool, _Sent]:
    (name, group, _, rest), sent = entry
    return name, group, rest, sent


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
        return "its reports have no users, so the ledger leaves it out"
    if attribute.group_users:
        cap = f", and how many exceed {study.epsilon_cap:g}" if study.epsilon_cap else ""
        return f"the ledger counts how many users spent how much{cap}"
    reason = "duplicates: keep" if study.duplicates == "keep" else "repeats: all"
    cap = f", and epsilon_cap {study.epsilon_cap:g} is not checked" if study.epsilon_cap else ""
    return f"the ledger stays empty{cap}, because {reason} brings no user's reports together"
