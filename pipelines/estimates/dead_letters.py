"""The dead letters in an output folder: how many there are for each reason, with examples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from apache_beam.io.filesystems import FileSystems

from ldpbeam.pipelines.errors import naming
from ldpbeam.pipelines.estimates.results import Results
from ldpbeam.pipelines.runs.output import DEAD_LETTERS, names_in
from ldpbeam.schemas.outputs.dead_letters import read_dead_letters
from ldpbeam.schemas.outputs.records import DeadLetterRecord
from ldpbeam.transforms.storage import open_raw


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
    for run in results.runs:
        folder = str(FileSystems.join(run.folder, DEAD_LETTERS))
        for name in names_in(folder, "*.avro"):
            path = str(FileSystems.join(folder, name))
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
