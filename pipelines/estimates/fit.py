"""Whether a run's reports fit what its study claims of them (:mod:`ldpbeam.fit`)."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ldpbeam.fit import FALSE_ALARMS, FitTest, fit_tests, flagged, not_tested
from ldpbeam.pipelines.estimates.blas import limit_blas
from ldpbeam.pipelines.runs.output import FIT, Output, snapshots_of
from ldpbeam.pipelines.terminal import shown
from ldpbeam.schemas.outputs.snapshots import Snapshot
from ldpbeam.statistics import MOST_ROWS, merge
from ldpbeam.study import Study
from ldpbeam.times import rfc3339
from ldpbeam.transforms.storage import write_bytes

#: So many flagged tests are printed; the file has all.
MOST_PRINTED = 5


@dataclass(frozen=True)
class Tested:
    """A test of a snapshot, or of all groups of a window together.

    Attributes:
        attribute: the attribute, or a vector's coordinate.
        window: the window in epoch milliseconds; None for one window over everything.
        group: the group; None for all groups together, and where the study has none.
        rest: whether the snapshot is of the groups without one of their own.
        test: the test.
    """

    attribute: str
    window: tuple[int, int] | None
    group: str | None
    rest: bool
    test: FitTest


def write_fit(job: Output) -> tuple[list[Tested], list[Tested]]:
    """Test all snapshots of a run, and write ``fit.json``: (all tests, those that are flagged)."""
    limit_blas()
    tested = list(_tests(job))
    flags = flagged([entry.test.p_value for entry in tested])
    entries = [
        {
            "attribute": entry.attribute,
            "group": entry.group,
            "other_groups": entry.rest,
            "window_start": rfc3339(entry.window[0]) if entry.window else None,
            "window_end": rfc3339(entry.window[1]) if entry.window else None,
            "test": entry.test.test,
            "services": list(entry.test.services),
            "reports": entry.test.reports,
            "p_value": entry.test.p_value,
            "flagged": flag,
        }
        for entry, flag in zip(tested, flags, strict=True)
    ]
    untested = [
        f"{name}, {sentence}"
        for name in job.study.estimated
        for sentence in not_tested(job.study.attribute(name))
    ]
    found = {"false_alarms": FALSE_ALARMS, "tests": entries, "not_tested": untested}
    write_bytes(job.path(FIT), json.dumps(found, indent=1).encode() + b"\n")
    return tested, [entry for entry, flag in zip(tested, flags, strict=True) if flag]


def explain() -> str:
    """A sentence on what a run does with its tests."""
    return (
        f"`ldpbeam estimate` and `ldpbeam rollup` write all tests to {FIT} and warn of those that fail; if "
        f"all claims of the study are true, at most {FALSE_ALARMS:.0%} of runs warn. `ldpbeam stream` makes "
        "no tests."
    )


def _tests(job: Output) -> Iterator[Tested]:
    """The tests of each snapshot, and of all groups of a window together if there are several."""
    by_window = itertools.groupby(snapshots_of(job), lambda snapshot: (snapshot.attribute, snapshot.window))
    for (name, window), snapshots in by_window:
        attribute = job.study.attribute(name)
        own: list[Snapshot] = list(snapshots)
        for snapshot in own:
            for test in fit_tests(attribute, snapshot.statistic):
                yield Tested(name, window, snapshot.group, snapshot.other_groups > 0, test)
        # The merged statistic must not have more rows of users than are ever held.
        if len(own) > 1 and sum(len(one.statistic.joint_counts) for one in own) <= MOST_ROWS:
            for test in fit_tests(attribute, merge(snapshot.statistic for snapshot in own)):
                yield Tested(name, window, None, False, test)


def print_fit(study: Study, tested: Sequence[Tested], misfits: Sequence[Tested], impossible: int) -> None:
    """Print one line about all tests, and a warning for each that is flagged.

    Args:
        study: the study.
        tested: all tests.
        misfits: the tests that are flagged.
        impossible: how many reports were dropped because their mechanism never sends them; the tests do not
            see those, so that they have a warning of their own.
    """
    if impossible:
        lie = "report is" if impossible == 1 else "reports are"
        print(
            f"ldpbeam: warning: {impossible:,} {lie} outside of what the mechanism of the service can send, "
            "and became dead letters. The clients may use another mechanism, epsilon or domain, and their "
            "other reports would then be read wrongly, too",
            file=sys.stderr,
        )
    for entry in misfits[:MOST_PRINTED]:
        print(f"ldpbeam: warning: {shown(_warning(study, entry))}", file=sys.stderr)
    if len(misfits) > MOST_PRINTED:
        print(f"ldpbeam: warning: {len(misfits) - MOST_PRINTED:,} more are in {FIT}", file=sys.stderr)
    if tested:
        print(f"{len(misfits):,} of {len(tested):,} tests say that the reports are not what the study claims")


def _warning(study: Study, entry: Tested) -> str:
    """A flagged test in words."""
    test = entry.test
    where = [entry.attribute]
    if entry.window is not None:
        where.append(f"window {rfc3339(entry.window[0])}")
    if entry.group is not None or entry.rest:
        where.append("the merged groups" if entry.rest else f"group {entry.group}")
    chance = "below 1e-12" if test.p_value < 1e-12 else f"at most {test.p_value:.1g}"
    if test.test == "same_people":
        one, other = test.services
        return (
            f"{', '.join(where)}: the reports of {test.reports:,} users to {one} and {other} do not go "
            f"together (by chance: {chance}). A user id may mean different people there, or one of the two "
            "may report another value, unit or sign"
        )
    (label,) = test.services
    version = next(v for v in study.attribute(entry.attribute).versions if v.label == label)
    if test.test == "tails":
        return (
            f"{', '.join(where)}: the {test.reports:,} reports to {label} reach further than the noise of "
            f"{version.mechanism.title} with epsilon {version.mechanism.epsilon:g} (by chance: {chance}). "
            "Some are false, or of another epsilon or domain; docs/fake_users.md says what these can do"
        )
    return (
        f"{', '.join(where)}: the {test.reports:,} reports to {label} do not fit {version.mechanism.title} "
        f"with epsilon {version.mechanism.epsilon:g} (by chance: {chance}). Its clients may use another "
        "mechanism, epsilon or domain, or some may send something else"
    )
