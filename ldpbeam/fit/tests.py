"""The tests of a statistic, and which of a run's tests are flagged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ldpbeam.attributes import Attribute
from ldpbeam.domains import Pair
from ldpbeam.fit.histograms import histogram_p_value, is_tested
from ldpbeam.fit.people import FEWEST_USERS, is_compared, pairs
from ldpbeam.fit.tails import tail_p_value
from ldpbeam.over_time.joined_windows import JoinedSupports
from ldpbeam.over_time.remembered_noise import noise_p_values
from ldpbeam.statistics import Statistic, has_tail

#: The share of clean runs that may have a flag: the probability of one or more false alarms in a run.
FALSE_ALARMS = 0.01
#: Histograms of fewer reports are not tested.
FEWEST_REPORTS = 50


@dataclass(frozen=True)
class FitTest:
    """One test of whether reports fit the study's claims.

    Attributes:
        test: ``reports``: one channel's histogram fits its mechanism and epsilon. ``tails``: its reports
            reach as far as the noise does. ``same_people``: the reports of two joined services come from the
            same people. ``remembered_noise``: the reports of a user in several windows agree as much as
            remembered noise makes them agree. ``fresh_noise``: they differ as much as noise that is drawn
            afresh in each window makes them differ.
        services: the service of the histogram, or both, with versions as in ``maps@v2``.
        reports: the number of reports in the histogram, of users who answered both, or of users with reports
            in two windows or more.
        p_value: an upper bound of the p-value of the claim.
    """

    test: Literal["reports", "tails", "same_people", "remembered_noise", "fresh_noise"]
    services: tuple[str, ...]
    reports: int
    p_value: float


def fit_tests(attribute: Attribute, statistic: Statistic, windows: int = 1) -> Iterator[FitTest]:
    """Every test of a statistic.

    Args:
        attribute: the attribute of the statistic.
        statistic: the statistic. Negative counts, such as those of a difference, cannot be tested. Reports of
            joined windows depend on each other, so only what clients remember is tested.
        windows: the number of windows of the statistic. With several, clients that remember their noise are
            not tested, because the windows share it.
    """
    if statistic.joined is not None:
        yield from _noise_tests(attribute, statistic)
        return
    if isinstance(attribute.domain, Pair):
        # The two attributes of a pair are tested.
        return
    for index, version in enumerate(attribute.versions):
        if windows > 1 and version.lifetime is not None:
            continue
        reports = statistic.reports_of(index)
        if reports >= FEWEST_REPORTS and is_tested(attribute, index):
            p_value = histogram_p_value(attribute, index, statistic.histograms[index], reports)
            yield FitTest("reports", (version.label,), reports, p_value)
        if reports >= FEWEST_REPORTS and has_tail(version.mechanism):
            p_value = tail_p_value(attribute, index, statistic)
            yield FitTest("tails", (version.label,), reports, p_value)
    for services, users, p_value in pairs(attribute, statistic):
        yield FitTest("same_people", services, users, p_value)


def _noise_tests(attribute: Attribute, statistic: Statistic) -> Iterator[FitTest]:
    # A study that joins windows has one service.
    (version,) = attribute.versions
    joined = statistic.joined
    remembered = noise_p_values(version, joined) if isinstance(joined, JoinedSupports) else None
    if remembered is None:
        return
    users, p_values = remembered
    for kind, p_value in p_values.items():
        yield FitTest(kind, (version.label,), users, p_value)


def explain(attribute: Attribute) -> Iterator[str]:
    """Sentences about what is tested in an attribute's reports, and what is not."""
    versions = attribute.versions
    tested = [version.label for index, version in enumerate(versions) if is_tested(attribute, index)]
    if tested:
        yield (
            f"Tests say whether the reports of {attribute.name!r} to {', '.join(tested)} fit the mechanism "
            f"and the epsilon of their service, if there are {FEWEST_REPORTS} or more."
        )
    tailed = [version.label for version in versions if has_tail(version.mechanism)]
    if tailed:
        yield f"Tests say whether the reports to {', '.join(tailed)} reach as far as the noise does."
    joined = attribute.versions_of(attribute.joint_services)
    compared = [versions[index].label for index in joined if is_compared(attribute, index)]
    if len(compared) > 1:
        yield (
            f"Tests say whether a user id means the same person at any two of {', '.join(compared)}, if "
            f"{FEWEST_USERS} or more users answered both."
        )
    for sentence in not_tested(attribute):
        yield f"Not tested: {sentence}."


def not_tested(attribute: Attribute) -> Iterator[str]:
    """Sentences about what is never tested; for a pair, its attributes have them."""
    if isinstance(attribute.domain, Pair):
        return
    for index, version in enumerate(attribute.versions):
        if not is_tested(attribute, index):
            yield f"{version.label}: its channel is too large to be fitted"
        if version.service in attribute.joint_services and not is_compared(attribute, index):
            yield f"{version.label}: not compared with other services, because its reports cannot be pooled"


def flagged(p_values: Sequence[float], false_alarms: float = FALSE_ALARMS) -> list[bool]:
    """Which tests of a run are flagged, by Holm's correction.

    However the tests depend on each other, the probability that a true claim is flagged is at most
    ``false_alarms``.

    Args:
        p_values: the p-value of each test.
        false_alarms: the probability of one or more false alarms.
    """
    values = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(values, kind="stable")
    limits = false_alarms / np.arange(len(values), 0, -1)
    within = values[order] <= limits
    last = len(values) if within.all() else int(np.argmin(within))
    flags = np.zeros(len(values), dtype=bool)
    flags[order[:last]] = True
    return [bool(entry) for entry in flags]
