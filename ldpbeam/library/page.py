"""The HTML that Jupyter shows for estimates: a table, what became of every report, and all texts escaped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from ldpbeam.answers.tables import MOST_ROWS, accounting_line, estimate_rows
from ldpbeam.schemas.outputs.records import EstimateRecord
from ldpbeam.words import counted

#: Columns of text; numbers stand at the right.
_TEXTS = ("attribute", "window", "group", "estimate", "estimator", "most frequent", "notes")


def as_html(study: str, estimates: Sequence[EstimateRecord], counts: Mapping[str, Any]) -> str:
    """A table of the estimates, the accounting, and the reasons of dead letters."""
    names, rows = estimate_rows(estimates)
    shown = rows if len(rows) <= MOST_ROWS else rows[:MOST_ROWS]
    parts = [f"<p><b>{escape(study)}</b>: {counted(len(rows), 'estimate')}</p>"]
    if rows:
        head = "".join(f'<th scope="col" style="{_side(name)}">{escape(name)}</th>' for name in names)
        body = "".join(
            "<tr>"
            + "".join(f'<td style="{_side(name)}">{escape(row.get(name, ""))}</td>' for name in names)
            + "</tr>"
            for row in shown
        )
        parts.append(f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")
    if len(shown) < len(rows):
        parts.append(f"<p>... and {len(rows) - len(shown):,} more; to_arrow() has all of them</p>")
    parts += [f"<p>{escape(line)}</p>" for line in accounting_line(counts).splitlines()]
    reasons = counts["dead_letters_by_reason"]
    if reasons:
        listed = "".join(
            f"<li>{escape(reason.replace('_', ' '))}: {reports:,}</li>" for reason, reports in reasons.items()
        )
        parts.append(f"<p>dead letters:</p><ul>{listed}</ul>")
    return f"<div>{''.join(parts)}</div>"


def _side(name: str) -> str:
    return "text-align: left" if name in _TEXTS else "text-align: right"
