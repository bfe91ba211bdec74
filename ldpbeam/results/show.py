"""``ldpbeam show``: all results of a finished run, or of the runs that share a folder; or a table as CSV."""

from __future__ import annotations

import argparse
import io
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.csv
from rich.console import Console

from ldpbeam.answers import ledger_sentences, tables
from ldpbeam.answers.misfits import tally
from ldpbeam.answers.results import Results, RunResults
from ldpbeam.errors import DONE, UserError
from ldpbeam.folders.output import FIT, FIT_FOLDER, LEDGER_PERIODS
from ldpbeam.folders.read import read_results
from ldpbeam.printing import document
from ldpbeam.schemas.outputs.checked import fields_of
from ldpbeam.schemas.outputs.records import EstimateRecord
from ldpbeam.schemas.outputs.tables import ESTIMATES_AT_ONCE, estimate_rows, share_rows
from ldpbeam.times import rfc3339
from ldpbeam.untrusted import shown
from ldpbeam.words import counted


def show_command(options: argparse.Namespace) -> int:
    """Run ``ldpbeam show`` and return its exit code."""
    if options.csv and options.json:
        raise UserError("--csv and --json: choose one")
    results = read_results(options.folder)
    if options.csv:
        for part in csv_of(options.csv, results.estimates):
            print(part, end="")
        return DONE
    document(_as_json(results))
    console = Console()
    print(shown(_title(results)))
    if results.estimates:
        tables.print_estimates(console, results.estimates)
    else:
        print("there are no estimates")
    if results.counts:
        counts: dict[str, Any] = {"in": results.counts["in_"], **results.counts}
        print(tables.accounting_line(counts))
        tables.print_reasons(console, {"dead_letters_by_reason": results.dead_letters_by_reason})
    for sentence in _sentences(results):
        print(shown(sentence))
    return DONE


def _title(results: Results) -> str:
    runs = {
        "batch": f"run {results.about.run}",
        "rollup": f"rollup {results.about.run}",
        "scheduled": counted(len(results.runs), "scheduled run"),
        "stream": counted(len(results.runs), "run") + " of a stream",
    }
    return f"study {results.about.study}, {runs[results.kind]}"


def _sentences(results: Results) -> list[str]:
    """What to know before trusting the numbers: about windows, runs, the ledger and the tests."""
    sentences = []
    early = sum(window.pane_timing == "early" for window in results.windows)
    if early:
        sentences.append(f"{counted(early, 'window')} had not closed: the estimates are early")
    incomplete = sum(window.pane_timing != "early" and not window.complete for window in results.windows)
    if incomplete:
        sentences.append(f"{counted(incomplete, 'window')} may lack reports (complete: false)")
    unfinished = [run.folder for run in results.runs if run.finished is False]
    if unfinished:
        sentences.append(f"not finished: {', '.join(unfinished)}")
    entries = [entry for run in results.runs for entry in run.ledger]
    if entries:
        most = max((spent.epsilon for entry in entries for spent in entry.spent), default=0.0)
        sentences.append(
            f"nobody spent more than epsilon {most:g} on an attribute in one window and group (ledger.json)"
        )
    over = sum(entry.users_over_cap for entry in entries)
    if over:
        sentences.append(f"{over:,} users spent more than the study's epsilon_cap")
    for period in results.periods:
        sentences.append(
            f"nobody spent more than epsilon {period.about_values[-1].at_most:g} about values, or "
            f"{period.changes_included[-1].at_most:g} with changes included, from {period.period_start} to "
            f"{period.period_end} ({LEDGER_PERIODS})"
        )
    sentences += ledger_sentences.sentences(results.periods)
    tests = [test for run in results.runs if run.fit for test in run.fit.tests]
    if tests:
        flags = sum(test.flagged for test in tests)
        where = f"{FIT_FOLDER}/ of a run" if results.kind == "stream" else FIT
        sentences.append(f"{tally(flags, len(tests))} ({where})")
    return sentences


def _as_json(results: Results) -> dict[str, Any]:
    return {
        "folder": results.folder,
        "kind": results.kind,
        "study": results.about.study,
        "study_fingerprint": results.about.study_fingerprint,
        "runs": [_run(run) for run in results.runs],
        "windows": [
            {**window._asdict(), "window": [rfc3339(time) for time in window.window]}
            for window in results.windows
        ],
        "periods": [fields_of(entry) for entry in results.periods],
        "estimates": [fields_of(record) for record in results.estimates],
    }


def _run(run: RunResults) -> dict[str, Any]:
    return {
        "run": run.about.run,
        "folder": run.folder,
        "finished": run.finished,
        "from": run.about.from_,
        "to": run.about.to,
        "accounting": fields_of(run.accounting) if run.accounting else None,
        "ledger": [fields_of(entry) for entry in run.ledger],
        "fit": fields_of(run.fit) if run.fit else None,
    }


#: The function that makes each table from the estimates, by the table's name.
TABLES = {"estimates": estimate_rows, "distribution": share_rows}
#: Spreadsheets read a text that begins with one of these (ASCII or full width) as a formula, so an apostrophe
#: is put before it. One is also put before an apostrophe, so that removing the first one restores every text.
_FORMULA = re.compile("['=+\\-@\uff1d\uff0b\uff0d\uff20]")


def csv_of(name: str, records: Sequence[EstimateRecord]) -> Iterator[str]:
    """The text of a table as CSV, part by part: a line of names, and a line per row.

    Args:
        name: ``estimates`` or ``distribution``.
        records: the estimates.
    """
    rows = TABLES[name]
    for start in range(0, max(len(records), 1), ESTIMATES_AT_ONCE):
        table = rows(records[start : start + ESTIMATES_AT_ONCE])
        columns = {column: _column(table[column]) for column in table.column_names}
        text = io.BytesIO()
        options = pa.csv.WriteOptions(include_header=start == 0)
        pa.csv.write_csv(pa.table(columns), text, options)
        yield text.getvalue().decode()


def harmless(text: str) -> str:
    """A text that no spreadsheet reads as a formula, and no terminal as a command."""
    text = shown(text)
    return f"'{text}" if _FORMULA.match(text) else text


def _column(column: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    """A column as CSV holds it: texts are harmless, and lists are JSON."""
    kind = column.type
    if pa.types.is_nested(kind):
        values = column.to_pylist()
        return pa.array([None if value is None else json.dumps(value) for value in values], pa.string())
    if pa.types.is_dictionary(kind):
        column, kind = column.cast(kind.value_type), kind.value_type
    if not pa.types.is_string(kind):
        return column
    distinct = column.dictionary_encode().combine_chunks()
    texts = pa.array([harmless(text) for text in distinct.dictionary.to_pylist()], pa.string())
    return texts.take(distinct.indices)
