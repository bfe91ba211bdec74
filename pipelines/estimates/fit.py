"""Whether a run's reports fit what its study claims of them (:mod:`ldpbeam.fit`)."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ldpbeam.fit import FALSE_ALARMS, FitTest, fit_tests, flagged, not_tested
from ldpbeam.fit.words import misfit, tally
from ldpbeam.pipelines.estimates.blas import limit_blas
from ldpbeam.pipelines.runs.output import FIT, Output, snapshots_of, windows_of
from ldpbeam.schemas.outputs.snapshots import Snapshot
from ldpbeam.statistics import MOST_ROWS, merge
from ldpbeam.study import Study
from ldpbeam.times import rfc3339, window_fields
from ldpbeam.transforms.storage import write_bytes
from ldpbeam.untrusted import shown

#: This many flagged tests are printed; the file has all.
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
    tested = [entry for snapshots in windows_of(job) for entry in tests_of_window(job.study, snapshots)]
    flags = flagged([entry.test.p_value for entry in tested])
    entries = [fields_of_test(entry, flag) for entry, flag in zip(tested, flags, strict=True)]
    untested_parts = [*untested(job.study, job.study.estimated), *_shared_noise(job)]
    write_tests(job.path(FIT), entries, untested_parts)
    return tested, [entry for entry, flag in zip(tested, flags, strict=True) if flag]


def write_tests(path: str, entries: Sequence[Mapping[str, Any]], sentences: Sequence[str]) -> None:
    """Write a ``fit.json``, or the file of a stream's window.

    Args:
        path: where to.
        entries: the tests, as of :func:`fields_of_test`; those of panes have fields of their own besides.
        sentences: on what is not tested.
    """
    fit = {"false_alarms": FALSE_ALARMS, "tests": entries, "not_tested": sentences}
    write_bytes(path, json.dumps(fit, indent=1).encode() + b"\n")


def fields_of_test(entry: Tested, flag: bool) -> dict[str, Any]:
    """The fields of a test in ``fit.json``."""
    return {
        "attribute": entry.attribute,
        "group": entry.group,
        "other_groups": entry.rest,
        **window_fields(entry.window),
        "test": entry.test.test,
        "services": list(entry.test.services),
        "reports": entry.test.reports,
        "p_value": entry.test.p_value,
        "flagged": flag,
    }


def untested(study: Study, names: Iterable[str]) -> Iterator[str]:
    """Sentences on what is not tested of some attributes, whatever the reports are."""
    for name in names:
        for sentence in not_tested(study.attribute(name)):
            yield f"{name}, {sentence}"


def explain() -> str:
    """A sentence on what a run does with its tests."""
    return (
        f"`ldpbeam estimate` and `ldpbeam rollup` write all tests to {FIT} and warn of those that fail; if "
        f"all claims of the study are true, at most {FALSE_ALARMS:.0%} of runs warn. `ldpbeam stream` tests "
        f"each pane, and at most {FALSE_ALARMS:.0%} of streams ever warn."
    )


def tests_of_window(study: Study, snapshots: Sequence[Snapshot]) -> Iterator[Tested]:
    """The tests of each snapshot, and of all groups of a window together if there are several.

    Args:
        study: the study.
        snapshots: the snapshots of one attribute and window, one or more.
    """
    name, window = snapshots[0].attribute, snapshots[0].window
    attribute = study.attribute(name)
    for snapshot in snapshots:
        for test in fit_tests(attribute, snapshot.statistic, snapshot.windows):
            yield Tested(name, window, snapshot.group, snapshot.other_groups > 0, test)
    if snapshots[0].joined:
        # Users with reports in two groups are in both, so groups are not added up.
        return
    # The merged statistic must not have more rows of users than are ever held.
    if len(snapshots) > 1 and sum(len(one.statistic.joint_counts) for one in snapshots) <= MOST_ROWS:
        together = merge(snapshot.statistic for snapshot in snapshots)
        for test in fit_tests(attribute, together, max(snapshot.windows for snapshot in snapshots)):
            yield Tested(name, window, None, False, test)


def _shared_noise(job: Output) -> Iterator[str]:
    """Sentences on attributes whose reports of several windows are not tested."""
    names = {snapshot.attribute for snapshot in snapshots_of(job) if snapshot.windows > 1}
    for name in job.study.estimated:
        remembering = job.study.attribute(name).remembering
        if remembering and name in names:
            yield (
                f"{name}, reports to {', '.join(remembering)} of several windows: a user's reports share "
                "their noise, so test single windows"
            )


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
        print(f"ldpbeam: warning: {shown(misfit_sentence(study, entry))}", file=sys.stderr)
    if len(misfits) > MOST_PRINTED:
        print(f"ldpbeam: warning: {len(misfits) - MOST_PRINTED:,} more are in {FIT}", file=sys.stderr)
    if tested:
        print(tally(len(misfits), len(tested)))


def misfit_sentence(study: Study, entry: Tested) -> str:
    """A flagged test in words."""
    test = entry.test
    where = [entry.attribute]
    if entry.window is not None:
        where.append(f"window {rfc3339(entry.window[0])}")
    if entry.group is not None or entry.rest:
        where.append("the merged groups" if entry.rest else f"group {entry.group}")
    chance = "below 1e-12" if test.p_value < 1e-12 else f"at most {test.p_value:.1g}"
    version = next(v for v in study.attribute(entry.attribute).versions if v.label in test.services)
    mechanism = f"{version.mechanism.title} with epsilon {version.mechanism.epsilon:g}"
    return f"{', '.join(where)}: {misfit(test.test, test.services, test.reports, mechanism, chance)}"
