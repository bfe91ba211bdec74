"""``ldpbeam rollup``: estimates of longer windows or totals from the snapshots of runs. No report is read."""

from __future__ import annotations

import argparse
from dataclasses import replace

from rich.console import Console

from ldpbeam.answers import tables
from ldpbeam.answers.added_by_name import names_changed
from ldpbeam.answers.published import warnings_of
from ldpbeam.answers.rolled_up import not_joined, rolled_up
from ldpbeam.cells import Cells, clock_of
from ldpbeam.command_line.checks import duration_of, length_of, study_of
from ldpbeam.errors import DONE, WITH_CARE, UserError
from ldpbeam.folders.output import Output
from ldpbeam.folders.written import read_all, run_name, write_all
from ldpbeam.pipelines.estimates.fit import RunFit, print_fit
from ldpbeam.pipelines.estimates.run_estimates import check_work, estimate_all, write_estimates
from ldpbeam.pipelines.runs.ownership import NOBODY, owned, owner
from ldpbeam.printing import document, step, warn
from ldpbeam.schemas.outputs.estimates import json_fields
from ldpbeam.study import Study
from ldpbeam.transforms.reports.counts import NEED_CARE
from ldpbeam.untrusted import shown
from ldpbeam.windows import check_calendar
from ldpbeam.words import counted, first_ones


def rollup_command(options: argparse.Namespace) -> int:
    """Run ``ldpbeam rollup`` and return its exit code."""
    study = study_of(options.study)
    check_work(study)
    cells = _cells(study, options)
    study = replace(study, clock=cells.clock) if cells else study
    calendar = [cells.offset, cells.clock.zone if cells.clock else ""] if cells else []
    run = run_name(
        study, options.statistics, "rollup", None if cells is None else cells.length, int(options.total),
        *(calendar if any(calendar) else ()),
    )  # fmt: skip
    output = Output(study, options.output, run)
    given = read_all(options.statistics)
    rolled = rolled_up(study, given, cells=cells, total=options.total)
    console = Console()
    owner(output, NOBODY, options.overwrite)
    with owned(output, NOBODY, overwrite=options.overwrite, inputs=options.statistics):
        write_all(output, rolled.snapshots)
        fit = RunFit(study)
        with step("estimating and testing the fit"):
            estimates, left = estimate_all(output, processes=options.processes, look=fit.add)
        tests = fit.write(output)
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
    print_fit(study, tests, 0, 0)
    repeated = f"; {rolled.repeated:,} more were repeated or of earlier panes" if rolled.repeated else ""
    held = f"; {rolled.held:,} more were left out, because others hold their reports" if rolled.held else ""
    print(f"{counted(rolled.merged, 'snapshot')} merged into {len(rolled.snapshots):,}{repeated}{held}")
    print(f"estimates and statistics are in {shown(options.output)}")
    return done


def _cells(study: Study, options: argparse.Namespace) -> Cells | None:
    """The new windows: of the zone and the offset that the options give, or else the study.

    Raises:
        UserError: if there are no such windows.
    """
    if options.window is None:
        for option in ("zone", "offset"):
            if getattr(options, option) is not None:
                raise UserError(
                    f"--{option}: it says where new windows begin: add --window, as in --window 1d"
                )
        return None
    length, windows = length_of("--window", options.window), study.windows
    offset = windows.offset if windows else 0
    if options.offset is not None:
        offset = duration_of("--offset", options.offset)
    try:
        clock = clock_of(options.zone) if options.zone else windows.clock if windows else None
        check_calendar([length], offset, clock)
    except ValueError as error:
        raise UserError(f"--window {options.window}: {error}") from None
    return Cells(length, offset, clock)
