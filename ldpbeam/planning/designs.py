"""Ways to spend an epsilon over many windows: what each reveals in a month, and how precise it is."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from ldpbeam.attributes import Attribute, ServiceVersion
from ldpbeam.domains import Numeric
from ldpbeam.mechanisms import build_mechanism
from ldpbeam.mechanisms.mechanism import LARGEST_EPSILON
from ldpbeam.mechanisms.mechanism_options import options_of
from ldpbeam.memoised import MEMOISED, Lifetime, SupportChain, released_options, steps_of
from ldpbeam.planning.precision import precision
from ldpbeam.spent import values_of
from ldpbeam.study import Study

DAY = 86_400_000
#: A month, in days.
MONTH = 30
#: The memo buckets of numbers where the study names none.
MEMO_BUCKETS = 256


@dataclass(frozen=True)
class Design:
    """One way to collect reports in every window of a period.

    Attributes:
        attribute: the attribute.
        service: its service; it stands alone.
        design: ``fresh noise``, ``split``, ``panel`` or ``remembered noise``.
        reports: what a user sends, in words.
        quantity: what the errors are of: ``mean``, or ``rare share``.
        windows: how many windows a period has.
        window: the greatest standard error of a window.
        period: that of a period, for users who have one value in all its windows.
        about_values: the epsilon of a user and a month about which values the user had.
        changes_included: the epsilon of a user and a month about anything, times of changes included.
    """

    attribute: str
    service: str
    design: str
    reports: str
    quantity: str
    windows: int
    window: float
    period: float
    about_values: float
    changes_included: float


def designs(study: Study, name: str, users: int) -> Iterator[Design]:
    """The designs of each service of an attribute, at the epsilon of its newest version.

    A period has T windows: ``split`` divides the epsilon by T, and ``panel`` has a user answer one window
    in T. Both need two windows. Remembered noise has the study's lifetime epsilon, or else twice the epsilon,
    but at most the largest one, with 256 memo buckets of numbers. An epsilon that the mechanism refuses makes
    no design. There are no designs for services without a formula of errors, and for
    windows longer than a month. The epsilon of a month is an average where periods do not fill it.

    Args:
        study: a study with windows that do not slide.
        name: an attribute.
        users: how many people there are.
    """
    assert study.windows is not None
    attribute, windows = study.attribute(name), windows_of_period(study)
    in_month = MONTH * DAY / study.windows.size
    for service in attribute.services if in_month >= 1.0 else ():
        version = attribute.versions[attribute.newest(service)]
        fresh = replace(version, mechanism=version.named, lifetime=None)
        quantity_and_error = _error(attribute, fresh)
        if quantity_and_error is None or version.named.delta:
            continue
        quantity, of_one = quantity_and_error
        epsilon, alone = version.named.epsilon, of_one / math.sqrt(users)
        root, month, once = math.sqrt(windows), epsilon * in_month, epsilon * in_month / windows
        rows = [("fresh noise", f"epsilon {epsilon:g} a window", alone, alone / root, month, month)]
        smaller = _split(attribute, version, windows) if windows > 1 else None
        if smaller is not None:
            divided = _error_of(attribute, smaller) / math.sqrt(users)
            reports = f"epsilon {epsilon:g}/{windows} a window"
            rows.append(("split", reports, divided, divided / root, once, once))
        if windows > 1:
            reports = f"epsilon {epsilon:g} in one window of {windows}"
            rows.append(("panel", reports, alone * root, alone, once, once))
        remembered = _remembered(attribute, version)
        if remembered is not None:
            known, lifetime = remembered
            window = _error_of(attribute, known) / math.sqrt(users)
            reports = f"epsilon {epsilon:g} a window, {lifetime.epsilon:g} for life"
            of_values = min(month, values_of(known) * lifetime.epsilon)
            of_period = window / root * math.sqrt(_factor(lifetime, windows))
            rows.append(
                (
                    "remembered noise",
                    reports,
                    window,
                    of_period,
                    of_values,
                    steps_of(lifetime).loss * in_month,
                )
            )
        yield from (
            Design(name, service, design, sent, quantity, windows, *numbers)
            for design, sent, *numbers in rows
        )


def windows_of_period(study: Study) -> int:
    """How many windows a period has: that of the study's panel, or else a day; a month of long windows."""
    assert study.windows is not None
    if study.panel is not None:
        return study.panel.windows
    return (DAY if 2 * study.windows.size <= DAY else MONTH * DAY) // study.windows.size


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


def _split(attribute: Attribute, version: ServiceVersion, windows: int) -> ServiceVersion | None:
    """The service with fresh noise of a part of its epsilon; None if its mechanism refuses so small a one.

    It keeps the options that the study names. Those that follow from the epsilon follow from the part.
    """
    named, lifetime, released = version.named, version.lifetime, {}
    if lifetime is not None and lifetime.as_published:
        released = dict(released_options(named.name, lifetime.epsilon, named.epsilon))
    unnamed = build_mechanism(named.name, attribute.domain, named.epsilon, **released)
    options = {
        name: getattr(named, name)
        for name in options_of(type(named))
        if getattr(named, name) != getattr(unnamed, name)
    }
    try:
        mechanism = build_mechanism(named.name, attribute.domain, named.epsilon / windows, **options)
    except ValueError:
        return None
    return replace(version, mechanism=mechanism, lifetime=None)


def _remembered(attribute: Attribute, version: ServiceVersion) -> tuple[ServiceVersion, Lifetime] | None:
    """The service with clients that remember their noise, and what they remember; None if they cannot."""
    if version.lifetime is not None:
        return version, version.lifetime
    lifetime_epsilon = min(2.0 * version.named.epsilon, LARGEST_EPSILON)
    if not isinstance(version.named, MEMOISED):
        return None
    of_number = isinstance(attribute.domain, Numeric)
    try:
        lifetime = Lifetime(version.named, lifetime_epsilon, memo_buckets=MEMO_BUCKETS if of_number else 0)
        steps_of(lifetime)
    except ValueError:  # the epsilon of a window is too near to the largest one
        return None
    return replace(version, mechanism=lifetime.window, lifetime=lifetime), lifetime


def _factor(lifetime: Lifetime, windows: int) -> float:
    """By how much remembered noise multiplies the variance of several windows with one value.

    For categories it is the factor of a rare share, for numbers an upper bound.
    """
    if isinstance(lifetime.chain, SupportChain):
        return float(lifetime.chain.share_factors(np.zeros(1), windows)[0])
    return lifetime.chain.factor(windows)
