"""``ldpbeam report``: what it reads and writes, and what it prints."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from ldpbeam.answers.people import People
from ldpbeam.answers.results import Results
from ldpbeam.command_line.checks import check_attribute, check_people, true_values
from ldpbeam.errors import DONE, UserError, check_charts
from ldpbeam.folders.read import read_results
from ldpbeam.inputs.times import time_of
from ldpbeam.printing import document, step
from ldpbeam.results.page.writing import write_page
from ldpbeam.untrusted import shown

#: This many headlines are printed; with ``--json`` all are.
MOST_HEADLINES = 20


def report_command(options: argparse.Namespace) -> int:
    """Run ``ldpbeam report`` and return its exit code."""
    check_charts("the page needs")
    with step("reading"):
        outputs = [read_results(output) for output in options.outputs]
    people, events = _people(options, outputs), _events(options.event, outputs[0])
    with step("drawing"):
        size, headlines = write_page(options.output, outputs, people, events=events)
    document({"page": options.output, "bytes": size, "headlines": headlines})
    print(f"{shown(options.output)}: {size / 1e6:.1f} MB, opens in any browser")
    for headline in headlines[:MOST_HEADLINES]:
        print(shown(headline))
    return DONE


def _events(texts: Sequence[str], results: Results) -> dict[str, int]:
    """The times of ``--event`` by name, and those of the study.

    Raises:
        UserError: if one is not written as TIME=NAME.
    """
    events = dict(results.study.events) if results.study is not None else {}
    for text in texts:
        time, equals, name = text.partition("=")
        if not equals or not name:
            raise UserError(f"--event {text}: write a time and a name, as in 2026-11-20=release")
        events[name] = time_of("--event", time, clock=results.clock) or 0
    return events


def _people(options: argparse.Namespace, outputs: Sequence[Results]) -> dict[str, People]:
    """True values by attribute; empty without ``--truth``."""
    check_people(options, "--truth", options.truth)
    if not options.truth:
        return {}
    for results in outputs:
        study = results.study
        if study is None:
            why = results.study_problem or "it does not hold its study; estimate again with this version"
            raise UserError(f"--truth: {results.folder}: {why}")
        check_attribute(options.attribute, study.attributes)
        if study.fingerprint != outputs[0].about.study_fingerprint:
            raise UserError("--truth: the outputs are of several studies: make a page for each")
    assert study is not None
    if options.group_column is not None and study.groups is not None:
        _refuse_totals(outputs)
    records = [record for results in outputs for record in results.estimates]
    people = true_values(
        options,
        study,
        times=any(record.window is not None for record in records),
        groups=any(record.group is not None or record.other_groups for record in records),
    )
    return {} if people is None else {options.attribute or next(iter(study.attributes)): people}


def _refuse_totals(outputs: Sequence[Results]) -> None:
    """Refuse totals of roll-ups: like reports without a group they name none, but they are of everybody.

    Raises:
        UserError: if the estimates of a roll-up name no group.
    """
    for results in outputs:
        named = any(record.group is not None or record.other_groups for record in results.estimates)
        if results.kind == "rollup" and results.estimates and not named:
            apart = ", and make a page for each folder" if len(outputs) > 1 else ""
            raise UserError(
                f"--group-column: the estimates in {results.folder} are of all groups together: "
                f"leave the option out{apart}"
            )
