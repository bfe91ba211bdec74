"""``ldpbeam rollup``: estimates of longer windows or totals from the snapshots of runs. No report is read."""

from __future__ import annotations

import argparse

from rich.console import Console

from ldpbeam.answers import tables
from ldpbeam.answers.costs import refuse_endless
from ldpbeam.answers.published import warnings_of
from ldpbeam.command_line.checks import duration_of, study_of
from ldpbeam.errors import DONE, WITH_CARE, UserError
from ldpbeam.folders.output import Output
from ldpbeam.folders.written import run_name
from ldpbeam.pipelines.estimates.added_by_name import names_changed
from ldpbeam.pipelines.estimates.fit import print_fit, write_fit
from ldpbeam.pipelines.estimates.rolled_up import not_joined, read_all, rolled_up, write_all
from ldpbeam.pipelines.estimates.run_estimates import estimate_all, write_estimates
from ldpbeam.pipelines.runs.ownership import NOBODY, owned, owner
from ldpbeam.printing import document, step, warn
from ldpbeam.schemas.outputs.estimates import json_fields
from ldpbeam.transforms.candidates import check_tables
from ldpbeam.transforms.reports.counts import NEED_CARE
from ldpbeam.untrusted import shown
from ldpbeam.words import counted, first_ones


def rollup_command(options: argparse.Namespace) -> int:
    """Run ``ldpbeam rollup`` and return its exit code."""
    study = study_of(options.study)
    refuse_endless(study)
    check_tables(study)
    window = None if options.window is None else duration_of("--window", options.window)
    if window == 0:
        raise UserError(f"--window {options.window}: above 0")
    run = run_name(study, options.statistics, "rollup", window, int(options.total))
    output = Output(study, options.output, run)
    given = read_all(options.statistics)
    rolled = rolled_up(study, given, window=window, total=options.total)
    console = Console()
    owner(output, NOBODY, options.overwrite)
    with owned(output, NOBODY, overwrite=options.overwrite, inputs=options.statistics):
        write_all(output, rolled.snapshots)
        with step("estimating"):
            estimates, left = estimate_all(output, processes=options.processes)
        tests = write_fit(output)
        write_estimates(output, estimates)
    if rolled.incomplete:
        warn(f"these are incomplete, because a part of them lacks reports: {first_ones(rolled.incomplete)}")
    changed = names_changed(study, (snapshot for _, snapshot in given))
    for sentence in (*changed, *not_joined(study, rolled.snapshots), *warnings_of(study, left)):
        warn(sentence)
    done = WITH_CARE if any(map(left.get, NEED_CARE)) else DONE
    document(
        {
            "output": options.output,
            "merged": rolled.merged,
            "repeated": rolled.repeated,
            "held": rolled.held,
            "snapshots": len(rolled.snapshots),
            "incomplete": rolled.incomplete,
            "estimates": [json_fields(record) for record in estimates],
        }
    )
    tables.print_estimates(console, estimates)
    print_fit(study, tests, 0)
    repeated = f"; {rolled.repeated:,} more were repeated or of earlier panes" if rolled.repeated else ""
    held = f"; {rolled.held:,} more were left out, as others hold their reports" if rolled.held else ""
    print(f"{counted(rolled.merged, 'snapshot')} merged into {len(rolled.snapshots):,}{repeated}{held}")
    print(f"estimates and statistics are in {shown(options.output)}")
    return done
