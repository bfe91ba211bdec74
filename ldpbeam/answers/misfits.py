"""What tests of fit say of reports, in words: on a terminal, in a log and on the page of a run."""

from __future__ import annotations

from collections.abc import Sequence

from ldpbeam.transforms.reports.counts import MOST_REFUSED
from ldpbeam.words import counted, percent

#: What a flagged test says of reports, and what the cause may be, by the test.
_MISFITS = {
    "reports": (
        "the {reports:,} reports to {services} do not fit {mechanism}",
        "Its clients may use another mechanism, epsilon or domain, or some may send something else",
    ),
    "tails": (
        "the {reports:,} reports to {services} reach further beyond the ends of the domain, or less far, "
        "than the noise of {mechanism} does",
        "Some are false, or were sent with another epsilon or domain; docs/fit.md says what such reports "
        "can do",
    ),
    "same_people": (
        "the reports of {reports:,} users to {services} are inconsistent",
        "A user id may mean different people there, or one of the two may report another value, unit or sign",
    ),
    "remembered_noise": (
        "the reports of {reports:,} users to {services} in several windows agree less than they would if "
        "clients remembered their noise",
        "Its clients may draw fresh noise for each report, which reveals more than the study's "
        "lifetime_epsilon: correct the clients, or the study",
    ),
    "fresh_noise": (
        "the reports of {reports:,} users to {services} in several windows agree more than they would if "
        "clients drew noise for each window",
        "Its clients may repeat reports, or remember noise that the study takes for fresh: correct the "
        "clients, or the study (lifetime_epsilon)",
    ),
}


def misfit(
    test: str,
    services: Sequence[str],
    reports: int,
    mechanism: str = "the mechanism and the epsilon that the study claims",
    chance: str = "",
) -> str:
    """Two sentences on a flagged test, without the last full stop: what it says, and what the cause may be.

    Args:
        test: the test, as :class:`~ldpbeam.fit.FitTest` names it.
        services: the services whose reports were tested, one or two.
        reports: how many reports or users were tested.
        mechanism: what the study says that the clients run.
        chance: the probability of such a misfit by chance, in words; left out if it is empty.
    """
    misfits, cause = _MISFITS[test]
    said = misfits.format(reports=reports, services=" and ".join(services), mechanism=mechanism)
    return f"{said}{f' (by chance: {chance})' if chance else ''}. {cause}"


def impossible_line(reports: int, read: int) -> str:
    """What reports that the mechanism of their service never sends say of the others, if they are many.

    Args:
        reports: how many they are, one or more.
        read: how many reports were read.
    """
    share = f"{counted(reports, 'report')} of {read:,} ({percent(reports / read)})"
    sentence = f"{share} cannot come from the mechanism of their service, and became dead letters"
    if reports <= MOST_REFUSED * read:
        return sentence
    return (
        f"{sentence}. The clients may use another mechanism, epsilon or domain; their other reports would "
        "then be misread, too"
    )


def tally(flagged: int, tests: int) -> str:
    """How many of a run's tests are flagged, in words."""
    if flagged:
        of = f"{flagged:,} of {counted(tests, 'test')} of fit failed"
        return f"{of}: the reports are not what the study claims"
    return "the test of fit passed" if tests == 1 else f"all {tests:,} tests of fit passed"
