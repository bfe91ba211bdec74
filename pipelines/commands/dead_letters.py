"""``ldpbeam dead-letters``: why reports could not be used, with examples of where they are."""

from __future__ import annotations

import argparse

from ldpbeam.pipelines.errors import DONE, UserError, meant_or_known
from ldpbeam.pipelines.estimates.dead_letters import Reason, by_reason
from ldpbeam.pipelines.estimates.read import read_results
from ldpbeam.pipelines.printing import document
from ldpbeam.schemas.outputs.records import DeadLetterRecord
from ldpbeam.untrusted import shown

#: This many different details of a reason are printed.
MOST_DETAILS = 10


def dead_letters_command(options: argparse.Namespace) -> int:
    """Run ``ldpbeam dead-letters`` and return its exit code.

    Records that ``--keep-bad-records`` kept are not printed: they hold user ids.

    Raises:
        UserError: if the folder cannot be read, or has no dead letters of the reason.
    """
    if options.examples < 0:
        raise UserError(f"--examples {options.examples}: it is 0 or more")
    reasons = by_reason(read_results(options.folder), options.examples)
    if options.reason is not None:
        reasons = _only(reasons, options.reason.replace(" ", "_"), options.folder)
    if document(
        {
            "folder": options.folder,
            "dead_letters": sum(reason.reports for reason in reasons),
            "reasons": [_as_json(reason) for reason in reasons],
        }
    ):
        return DONE
    if not reasons:
        print("there are no dead letters")
    for reason in reasons:
        _print_reason(reason)
    return DONE


def _only(reasons: list[Reason], reason: str, folder: str) -> list[Reason]:
    there = [entry.reason for entry in reasons]
    if reason not in there:
        hint = meant_or_known(reason, there)
        raise UserError(f"--reason {reason}: {folder} has no dead letters of this reason; {hint}")
    return [entry for entry in reasons if entry.reason == reason]


def _print_reason(reason: Reason) -> None:
    print(f"{reason.reports:,} {shown(reason.reason.replace('_', ' '))}")
    details = [(detail, reports) for detail, reports in reason.details.most_common() if detail]
    for detail, reports in details[:MOST_DETAILS]:
        print(f"  {reports:,}: {shown(detail)}")
    if len(details) > MOST_DETAILS:
        print(f"  and {len(details) - MOST_DETAILS:,} other details")
    for letter in reason.examples:
        print(f"  as in {shown(_place(letter))}")


def _place(letter: DeadLetterRecord) -> str:
    position = "" if letter.position is None else f", position {letter.position:,}"
    return f"{letter.file or 'a message'}{position}{'' if letter.row is None else f', row {letter.row:,}'}"


def _as_json(reason: Reason) -> dict[str, object]:
    return {
        "reason": reason.reason,
        "reports": reason.reports,
        "details": [
            {"detail": detail, "reports": reports} for detail, reports in reason.details.most_common()
        ],
        "examples": [
            {
                "file": letter.file,
                "position": letter.position,
                "row": letter.row,
                "detail": letter.detail,
                "sha256": letter.sha256,
            }
            for letter in reason.examples
        ],
    }
