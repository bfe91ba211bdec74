"""What readers of published estimates learn of one user, in a window and in a period of the ledger.

The claim is of estimates that are published once for each window, and of users who are as many as they seem.
Towards whoever reads reports, statistics or rows of users, the epsilon is that of the reports.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter

from ldpbeam.answers.ledger_sentences import LIMITS, sentence
from ldpbeam.mechanisms import Mechanism
from ldpbeam.over_time.amplification import amplified_epsilon, composed, default_delta, together
from ldpbeam.schemas.outputs.records import Guarantee, LedgerEntry
from ldpbeam.spent import costs_of, services_of
from ldpbeam.study import Study
from ldpbeam.times import format_duration, milliseconds

_amplified = functools.lru_cache(2**12)(amplified_epsilon)


def windows_of(study: Study) -> int:
    """How many windows a period of the ledger has; 1 without one."""
    if study.ledger is None or study.windows is None:
        return 1
    return study.ledger.periods.most_in(study.windows.steps.length)


def groups_of_user(study: Study) -> int:
    """In how many groups a user may be in a window, with an attribute: each service may say another."""
    return max(len(each.services) for each in study.attributes.values()) if study.groups else 1


def _publications(study: Study) -> int:
    """In how many published estimates of a period a user's reports may be."""
    return windows_of(study) * len(study.attributes) * groups_of_user(study)


def of_window(study: Study, mechanisms: Sequence[Mechanism], users: int) -> Guarantee | None:
    """What is claimed of users who send one report by each of some mechanisms in a window, and no other.

    With a ledger over periods, delta is the share of a window, an attribute and a group in that of a period.

    Args:
        study: the study.
        mechanisms: the mechanisms.
        users: how many users send these reports; it is rounded down to two digits.
    """
    if study.pairs:
        # The reports of a pair are published again, by user.
        return None
    try:
        epsilon, variation = together(mechanisms)
    except ValueError:
        return None
    digit = 10 ** max(0, len(str(users)) - 2)
    fewer = users // digit * digit
    delta = default_delta(fewer + digit)
    if study.ledger:
        delta /= 2 * _publications(study)
    return Guarantee(_amplified(delta, epsilon, variation, fewer), delta)


def worst(claims: Iterable[Guarantee | None]) -> Guarantee | None:
    """The weakest of several claims, which holds for all users; None if one is missing."""
    each = list(claims)
    if not each or None in each:
        return None
    return Guarantee(max(one.epsilon for one in each if one), max(one.delta for one in each if one))


def of_period(study: Study, runs: Iterable[Sequence[LedgerEntry]], start: int) -> Guarantee | None:
    """What is claimed of all windows in a period of the ledger, which several runs may have published.

    Args:
        study: the study.
        runs: the ledger of each run.
        start: the start of the period, in milliseconds.
    """
    assert study.ledger is not None
    windows: list[tuple[str, int, Guarantee | None]] = []
    end = study.ledger.periods.holding(start)[1]
    for entries in runs:
        groups: dict[tuple[str, int], list[Guarantee | None]] = defaultdict(list)
        for entry in entries:
            time = start if entry.window_start is None else milliseconds(entry.window_start)
            if start <= time < end:
                groups[entry.attribute, time].append(entry.readers)
        windows += [(name, time, worst(claims)) for (name, time), claims in groups.items()]
    return _together(study, windows)


def of_plan(study: Study, claims: Mapping[str, Guarantee | None]) -> Guarantee | None:
    """What is claimed of a period of which every window is published, with the same claim of an attribute."""
    if study.ledger is None:
        return None
    step = study.windows.steps.length if study.windows else study.ledger.period
    times = [number * step for number in range(windows_of(study))]
    return _together(study, [(name, time, claim) for name, claim in claims.items() for time in times])


def _together(study: Study, windows: Sequence[tuple[str, int, Guarantee | None]]) -> Guarantee | None:
    """What is claimed of (attribute, start, claim) of several windows."""
    again = study.windows is not None and study.windows.slides and len(windows) > 1
    if again or study.windows_joined > 1:
        # Reports are published in several windows.
        return None
    parts: list[Guarantee] = []
    remembered = 0.0
    for name in study.attributes:
        by_time: dict[int, list[Guarantee]] = defaultdict(list)
        for attribute, time, claim in windows:
            if attribute == name:
                if claim is None:
                    return None
                # A user answers one window in a period of the panel.
                turn = time if study.panel is None else time // study.panel.period
                by_time[turn].append(claim)
        if study.attribute(name).remembering and len(by_time) > 1:
            remembered += _instant(study, name) * len(by_time)
            continue
        each_turn = [[worst(each)] if study.panel else each for each in by_time.values()]
        # The estimates of each group that a user is in are a publication.
        parts += [claim for each in each_turn for claim in each if claim] * groups_of_user(study)
    if not parts and not remembered:
        return None
    slack = max((part.delta for part in parts), default=0.0) * _publications(study)
    epsilon, delta = composed([(part.epsilon, part.delta) for part in parts], slack) if parts else (0.0, 0.0)
    return Guarantee(epsilon + remembered, delta)


def _instant(study: Study, name: str) -> float:
    """The epsilon of a window, changes included, of a user who reports to every service of an attribute."""
    most: dict[str, float] = {}
    for (attribute, index), epsilon in zip(services_of(study), costs_of(study).instant, strict=True):
        if attribute == name:
            service = study.attribute(name).versions[index].service
            most[service] = max(most.get(service, 0.0), float(epsilon))
    return sum(most.values())


def everybody(study: Study, name: str, users: int) -> Guarantee | None:
    """What is claimed of a window in which every user reports to every service of an attribute.

    Args:
        study: the study.
        name: the attribute.
        users: how many users report in a window.
    """
    attribute = study.attribute(name)
    # The version of each service that spends most stands for its others.
    mechanisms = [
        max(
            (attribute.versions[index].mechanism for index in attribute.versions_of([service])),
            key=attrgetter("epsilon"),
        )
        for service in attribute.services
    ]
    return of_window(study, mechanisms, users)


def plan_sentences(study: Study, claims: Mapping[str, Guarantee | None]) -> Iterator[str]:
    """What is claimed of each attribute of a study before any report is collected, and of a period."""
    for name, claim in claims.items():
        yield sentence(claim, f"of {name!r}" + (" in a window" if study.windows else ""))
    if any(claims.values()):
        yield LIMITS
    if alone := [repr(name) for name in claims if name in study.without_users]:
        yield (
            f"Reports of {', '.join(alone)} have no users: this is of who sends one to each service, and "
            "nobody can count how many anybody sends."
        )
    if study.ledger is not None and study.windows is not None:
        yield sentence(of_plan(study, claims), f"of all windows in {format_duration(study.ledger.period)}")
    elif any(study.attribute(name).remembering for name in claims):
        yield "Windows share noise, so nothing is claimed of several of them without a ledger over a period."
