"""``ldpbeam dead-letters``: why reports could not be used, with examples of where they are."""

from __future__ import annotations

import argparse

from ldpbeam.pipelines.errors import DONE, UserError, meant_or_known
from ldpbeam.pipelines.printing import document
from ldpbeam.pipelines.results.dead_letters import Reason, by_reason
from ldpbeam.pipelines.results.read import read_results
from ldpbeam.pipelines.terminal import shown
from ldpbeam.schemas.outputs.records import DeadLetterRecord

#: So many different details of a reason are printed.
MOST_DETAILS = 10


def dead_letters_command(options: argparse.Namespace) -> int:
    """Run ``ldpbeam dead-letters`` and return its exit code.

    Records that ``--keep-bad-records`` kept are not printed: they hold user ids.

    Raises:
        UserError: if the folder cannot be read, or has no dead letters of the reason.
    """
    if options.examples < 0:
        raise UserError(f"--examples {options.examples}: it is 0 or more")
    found = by_reason(read_results(options.folder), options.examples)
    if options.reason is not None:
        found = _only(found, options.reason.replace(" ", "_"), options.folder)
    if document(
        {
            "folder": options.folder,
            "dead_letters": sum(own.reports for own in found),
            "reasons": [_as_json(own) for own in found],
        }
    ):
        return DONE
    if not found:
        print("there are no dead letters")
    for own in found:
        _print_reason(own)
    return DONE


def _only(found: list[Reason], reason: str, folder: str) -> list[Reason]:
    there = [own.reason for own in found]
    if reason not in there:
        hint = meant_or_known(reason, there)
        raise UserError(f"--reason {reason}: {folder} has no dead letters of this reason; {hint}")
    return [own for own in found if own.reason == reason]


def _print_reason(own: Reason) -> None:
    print(f"{own.reports:,} {shown(own.reason.replace('_', ' '))}")
    details = [(detail, reports) for detail, reports in own.details.most_common() if detail]
    for detail, reports in details[:MOST_DETAILS]:
        print(f"  {reports:,}: {shown(detail)}")
    if len(details) > MOST_DETAILS:
        print(f"  and {len(details) - MOST_DETAILS:,} other details")
    for letter in own.examples:
        print(f"  as in {shown(_place(letter))}")


def _place(letter: DeadLetterRecord) -> str:
    position = "" if letter.position is None else f", position {letter.position:,}"
    return f"{letter.file or 'a message'}{position}{'' if letter.row is None else f', row {letter.row:,}'}"


def _as_json(own: Reason) -> dict[str, object]:
    return {
        "reason": own.reason,
        "reports": own.reports,
        "details": [{"detail": detail, "reports": reports} for detail, reports in own.details.most_common()],
        "examples": [
            {
                "file": letter.file,
                "position": letter.position,
                "row": letter.row,
                "detail": letter.detail,
                "sha256": letter.sha256,
            }
            for letter in own.examples
        ],
    }
