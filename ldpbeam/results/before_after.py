"""The windows of a folder before and after a time, and those of two folders of which one is later."""

from __future__ import annotations

from ldpbeam.answers.before_after import Given, before_after, compared_sides
from ldpbeam.answers.between import PairComparison
from ldpbeam.answers.results import Results
from ldpbeam.errors import UserError, naming
from ldpbeam.folders.output import STATISTICS
from ldpbeam.folders.written import read_all
from ldpbeam.study import Study
from ldpbeam.transforms.candidates import check_tables
from ldpbeam.transforms.storage import join, literal
from ldpbeam.windows import EVERYTHING, Span


def before_after_in(results: Results, time: int, within: Span = EVERYTHING) -> PairComparison:
    """All windows of a folder from a time on minus all windows that end by it.

    Raises:
        UserError: if there is no window on a side, or the folder lacks its study or statistics.
    """
    study, given = _statistics(results)
    with naming(results.folder):
        return before_after(study, given, time, within)


def folders_compared(first: Results, second: Results) -> PairComparison:
    """All windows of the second folder minus all windows of the first.

    Raises:
        UserError: if a folder lacks its study or statistics.
    """
    return compared_sides(_statistics(first), _statistics(second))


def _statistics(results: Results) -> tuple[Study, Given]:
    """The study of a folder, and the statistics of its windows."""
    study = results.study
    if study is None:
        why = results.study_problem or "it does not hold its study; estimate again with this version"
        raise UserError(f"{results.folder}: {why}")
    check_tables(study)
    return study, read_all([join(literal(results.folder), STATISTICS, "*.avro")])
