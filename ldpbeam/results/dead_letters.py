"""``ldpbeam dead-letters``: why reports could not be used, with examples of where they are."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from ldpbeam.answers.results import Results
from ldpbeam.errors import DONE, UserError, meant_or_known, naming
from ldpbeam.folders.read import dead_letter_files, read_results
from ldpbeam.printing import document
from ldpbeam.schemas.outputs.dead_letters import read_dead_letters
from ldpbeam.schemas.outputs.records import DeadLetterRecord
from ldpbeam.transforms.storage import open_raw
from ldpbeam.untrusted import shown


@dataclass
class Reason:
    """The dead letters of one reason.

    Attributes:
        reason: the reason.
        reports: how many reports they stand for.
        details: how many of them have each detail.
        examples: the first of them, in the order of the files.
    """

    reason: str
    reports: int = 0
    details: Counter[str] = field(default_factory=Counter)
    examples: list[DeadLetterRecord] = field(default_factory=list)


def dead_letters_of(results: Results) -> Iterator[DeadLetterRecord]:
    """The dead letters of all runs of a folder, file by file in the order of their names.

    Raises:
        UserError: if a file is damaged, or none of dead letters; it names the file.
    """
    for path in dead_letter_files(results):
        with naming(path), open_raw(path) as stream:
            yield from read_dead_letters(stream)


def by_reason(results: Results, examples: int) -> list[Reason]:
    """The dead letters of a folder by reason, the most frequent first.

    Args:
        results: what is in the folder.
        examples: how many of each reason are kept.

    Raises:
        UserError: if a file is damaged, or none of dead letters.
    """
    reasons: dict[str, Reason] = {}
    for letter in dead_letters_of(results):
        reason = reasons.setdefault(letter.reason, Reason(letter.reason))
        reason.reports += letter.reports
        reason.details[letter.detail] += letter.reports
        if len(reason.examples) < examples:
            reason.examples.append(letter)
    return sorted(reasons.values(), key=lambda reason: (-reason.reports, reason.reason))


#: This many different details of a reason are printed.
MOST_DETAILS = 10


def dead_letters_command(options: argparse.Namespace) -> int:
    """Run ``ldpbeam dead-letters`` and return its exit code.

    Records that ``--keep-bad-records`` kept are not printed: they hold user ids.
    """
    if options.examples < 0:
        raise UserError(f"--examples {options.examples}: it is 0 or more")
    reasons = by_reason(read_results(options.folder), options.examples)
    if options.reason is not None:
        reasons = _only(reasons, options.reason.replace(" ", "_"), options.folder)
    document(
        {
            "folder": options.folder,
            "dead_letters": sum(reason.reports for reason in reasons),
            "reasons": [_as_json(reason) for reason in reasons],
        }
    )
    if not reasons:
        print("there are no dead letters")
    for reason in reasons:
        _print_reason(reason)
    return DONE


def _only(reasons: list[Reason], reason: str, folder: str) -> list[Reason]:
    names = [entry.reason for entry in reasons]
    if reason not in names:
        hint = meant_or_known(reason, names)
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
            {name: getattr(letter, name) for name in ("file", "position", "row", "detail", "sha256")}
            for letter in reason.examples
        ],
    }
