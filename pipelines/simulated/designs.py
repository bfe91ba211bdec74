"""Ways to spend an epsilon over many windows: what each reveals in a month, and how precise it is."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from ldpbeam.attributes import Attribute, ServiceVersion
from ldpbeam.domains import Numeric
from ldpbeam.mechanisms import build_mechanism
from ldpbeam.memoised import MEMOISED, Lifetime, SupportChain
from ldpbeam.precision import precision
from ldpbeam.spent import values_of
from ldpbeam.study import Study

DAY = 86_400_000
#: A month, in days.
MONTH = 30
#: The memo buckets of numbers where the study names none.
MEMO_BUCKETS = 256


@dataclass(frozen=True)
class Design:
    """One way to collect reports in every window of a day.

    Attributes:
        attribute: the attribute.
        service: its service; it stands alone.
        design: ``fresh noise``, ``split``, ``panel`` or ``remembered noise``.
        reports: what a user sends, in words.
        quantity: what the errors are of: ``mean``, or ``rare share``.
        window: the greatest standard error of a window.
        day: that of a day, for users who have one value in all its windows.
        about_values: the epsilon of a user and a month about which values the user had.
        changes_included: the epsilon of a user and a month about anything, times of changes included.
    """

    attribute: str
    service: str
    design: str
    reports: str
    quantity: str
    window: float
    day: float
    about_values: float
    changes_included: float


def designs(study: Study, name: str, users: int) -> Iterator[Design]:
    """The designs of each service of an attribute, at the epsilon of its newest version.

    A day has T windows: ``split`` divides the epsilon by T, and ``panel`` has a user answer one window in T.
    Remembered noise has the study's lifetime epsilon, or else twice the epsilon, with 256 memo buckets of
    numbers. There are none for services without a formula of errors, and for windows longer than half a day.

    Args:
        study: a study with windows that do not slide.
        name: an attribute.
        users: how many people there are.
    """
    assert study.windows is not None
    attribute, windows = study.attribute(name), DAY // study.windows.size
    for service in attribute.services if windows > 1 else ():
        version = attribute.versions[attribute.versions_of([service])[-1]]
        fresh = replace(version, mechanism=version.named, lifetime=None)
        quantity_and_error = _error(attribute, fresh)
        if quantity_and_error is None or version.named.delta:
            continue
        quantity, of_one = quantity_and_error
        epsilon, alone = version.named.epsilon, of_one / math.sqrt(users)
        smaller = replace(
            fresh, mechanism=build_mechanism(fresh.mechanism.name, attribute.domain, epsilon / windows)
        )
        divided = _error_of(attribute, smaller) / math.sqrt(users)
        day, month, once = math.sqrt(windows), epsilon * windows * MONTH, epsilon * MONTH
        rows = [
            ("fresh noise", f"epsilon {epsilon:g} a window", alone, alone / day, month, month),
            ("split", f"epsilon {epsilon:g}/{windows} a window", divided, divided / day, once, once),
            ("panel", f"epsilon {epsilon:g} in one window of {windows}", alone * day, alone, once, once),
        ]
        remembered = _remembered(attribute, version)
        if remembered is not None:
            known, lifetime = remembered
            window = _error_of(attribute, known) / math.sqrt(users)
            reports = f"epsilon {epsilon:g} a window, {lifetime.epsilon:g} for life"
            of_values = min(month, values_of(known) * lifetime.epsilon)
            of_day = window / day * math.sqrt(_factor(lifetime, windows))
            rows.append(
                (
                    "remembered noise",
                    reports,
                    window,
                    of_day,
                    of_values,
                    lifetime.chain.loss * windows * MONTH,
                )
            )
        yield from (
            Design(name, service, design, sent, quantity, *numbers) for design, sent, *numbers in rows
        )


def _error(attribute: Attribute, version: ServiceVersion) -> tuple[str, float] | None:
    """(what the error is of, the greatest standard error of one user) of a service that stands alone."""
    alone = Attribute(attribute.name, attribute.domain, attribute.buckets, (version,))
    expected = precision(alone, "ivw", [version.service])
    return None if expected is None else (expected.quantity, expected.error(1)[1])


def _error_of(attribute: Attribute, version: ServiceVersion) -> float:
    """The greatest standard error of one user, of a service that has a formula of it."""
    quantity_and_error = _error(attribute, version)
    assert quantity_and_error is not None
    return quantity_and_error[1]


def _remembered(attribute: Attribute, version: ServiceVersion) -> tuple[ServiceVersion, Lifetime] | None:
    """The service with clients that remember their noise, and what they remember; None if they cannot."""
    if version.lifetime is not None:
        return version, version.lifetime
    if not isinstance(version.named, MEMOISED):
        return None
    of_number = isinstance(attribute.domain, Numeric)
    lifetime = Lifetime(
        version.named, 2.0 * version.named.epsilon, memo_buckets=MEMO_BUCKETS if of_number else 0
    )
    return replace(version, mechanism=lifetime.window, lifetime=lifetime), lifetime


def _factor(lifetime: Lifetime, windows: int) -> float:
    """The variance of a day of users with one value, relative to fresh noise: of a rare share, or a bound."""
    if isinstance(lifetime.chain, SupportChain):
        return float(lifetime.chain.share_factors(np.zeros(1), windows)[0])
    return lifetime.chain.factor(windows)
