"""Whether a run's reports fit what its study claims of them (:mod:`ldpbeam.fit`)."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from ldpbeam.answers.child import limit_blas
from ldpbeam.answers.misfits import impossible_line, misfit, tally
from ldpbeam.fit import FALSE_ALARMS, fit_tests, flagged, not_tested
from ldpbeam.folders.output import FIT, Output
from ldpbeam.printing import warn
from ldpbeam.schemas.outputs.records import FitEntry
from ldpbeam.schemas.outputs.snapshots import Snapshot
from ldpbeam.statistics import MOST_ROWS, merge
from ldpbeam.study import Study
from ldpbeam.times import window_fields
from ldpbeam.transforms.storage import write_bytes

#: This many flagged tests are printed; the file has all.
MOST_PRINTED = 5


class RunFit:
    """The tests of a run, of whose snapshots it is given those of one window after the other."""

    def __init__(self, study: Study) -> None:
        limit_blas()
        self._study = study
        self._tests: list[FitEntry] = []
        self._rolled_up: set[str] = set()

    def add(self, snapshots: Sequence[Snapshot]) -> None:
        """Test the snapshots of one attribute and window."""
        self._tests += tests_of_window(self._study, snapshots)
        self._rolled_up |= {snapshot.attribute for snapshot in snapshots if snapshot.windows > 1}

    def write(self, job: Output) -> list[FitEntry]:
        """Say which tests are flagged, write ``fit.json``, and return the tests."""
        flags = flagged([test.p_value for test in self._tests])
        tests = [replace(test, flagged=flag) for test, flag in zip(self._tests, flags, strict=True)]
        study = self._study
        sentences = [*untested(study, study.estimated), *_shared_noise(study, self._rolled_up)]
        write_tests(job.path(FIT), tests, sentences)
        return tests


def write_tests(path: str, tests: Sequence[FitEntry], sentences: Sequence[str]) -> None:
    """Write a ``fit.json``, or the file of a stream's window, with sentences on what is not tested."""
    # Only the tests of panes have an index and a limit.
    of_panes = ("pane_index", "limit")
    entries = [
        {name: value for name, value in vars(test).items() if name not in of_panes or value is not None}
        for test in tests
    ]
    fit = {"false_alarms": FALSE_ALARMS, "tests": entries, "not_tested": sentences}
    write_bytes(path, json.dumps(fit, indent=1).encode() + b"\n")


def untested(study: Study, names: Iterable[str]) -> Iterator[str]:
    """Sentences on what is not tested of some attributes, whatever the reports are."""
    for name in names:
        for sentence in not_tested(study.attribute(name)):
            yield f"{name}, {sentence}"


def tests_of_window(study: Study, snapshots: Sequence[Snapshot]) -> Iterator[FitEntry]:
    """The tests of each snapshot, and of all groups together if there are several; none is flagged yet.

    Args:
        study: the study.
        snapshots: the snapshots of one attribute and window, one or more.
    """
    for snapshot in snapshots:
        yield from _tests_of(study, snapshot)
    if snapshots[0].joined:
        # Users with reports in two groups are in both, so groups are not added up.
        return
    # The merged statistic must not have more rows of users than are ever held.
    if len(snapshots) > 1 and sum(len(one.statistic.joint_counts) for one in snapshots) <= MOST_ROWS:
        most_windows = max(snapshots, key=lambda snapshot: snapshot.windows)
        together = merge(snapshot.statistic for snapshot in snapshots)
        yield from _tests_of(study, replace(most_windows, group=None, other_groups=0, statistic=together))


def _tests_of(study: Study, snapshot: Snapshot) -> Iterator[FitEntry]:
    place = snapshot.attribute, snapshot.group, snapshot.other_groups > 0
    for test in fit_tests(study.attribute(snapshot.attribute), snapshot.statistic, snapshot.windows):
        start, end = window_fields(snapshot.window).values()
        yield FitEntry(*place, start, end, test.test, test.services, int(test.reports), test.p_value, False)


def _shared_noise(study: Study, rolled_up: Collection[str]) -> Iterator[str]:
    """Sentences on attributes whose reports of several windows are not tested."""
    for name in study.estimated:
        remembering = study.attribute(name).remembering
        if remembering and name in rolled_up:
            yield (
                f"{name}, reports to {', '.join(remembering)} of several windows: a user's reports share "
                "their noise, so test single windows"
            )


def print_fit(study: Study, tests: Sequence[FitEntry], impossible: int, read: int) -> None:
    """Print one line about all tests, and a warning for each that is flagged.

    Args:
        study: the study.
        tests: all tests.
        impossible: how many reports were dropped because their mechanism never sends them; the tests do not
            see those, so that they have a warning of their own.
        read: how many reports were read.
    """
    if impossible:
        warn(impossible_line(impossible, read))
    misfits = [test for test in tests if test.flagged]
    for test in misfits[:MOST_PRINTED]:
        warn(misfit_sentence(study, test))
    if len(misfits) > MOST_PRINTED:
        warn(f"{len(misfits) - MOST_PRINTED:,} more are in {FIT}")
    if tests:
        print(tally(len(misfits), len(tests)))


def misfit_sentence(study: Study, test: FitEntry) -> str:
    """A flagged test in words."""
    where = [test.attribute]
    if test.window_start is not None:
        where.append(f"window {test.window_start}")
    if test.group is not None or test.other_groups:
        where.append("the merged groups" if test.other_groups else f"group {test.group}")
    chance = "below 1e-12" if test.p_value < 1e-12 else f"at most {test.p_value:.1g}"
    version = next(v for v in study.attribute(test.attribute).versions if v.label in test.services)
    mechanism = f"{version.mechanism.title} with epsilon {version.mechanism.epsilon:g}"
    return f"{', '.join(where)}: {misfit(test.test, test.services, test.reports, mechanism, chance)}"
