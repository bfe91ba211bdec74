"""Statistics of reports in memory, by the functions that the stages of a batch run call."""

from __future__ import annotations

from typing import Any

from ldpbeam.library.tables import decoded_batches
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.transforms.reports.validation import checked_columns
from ldpbeam.transforms.tally import Tally, tally_of
from ldpbeam.windows import EVERYTHING, Span


def tallied(text: str, reports: Any, span: Span = EVERYTHING) -> Tally:
    """The statistics of reports of a study, and what became of each."""
    study = parse_study(text)
    return tally_of(study, decoded_batches(reports, checked_columns(study, None, None)), span)
