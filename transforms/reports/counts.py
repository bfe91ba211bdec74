"""Accounting: counts of what became of every report, which every stage emits and which are then added up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

#: The tag of every stage's counts.
COUNTS = "counts"

IN = "in"
USED = "used"
DUPLICATES = "duplicates"
LATE = "late"
OUT_OF_RANGE = "out_of_range"
DEAD_LETTERS = "dead_letters"
#: What can become of a report that was read: every one is in one of these counts.
FATES = (USED, DUPLICATES, LATE, OUT_OF_RANGE, DEAD_LETTERS)
#: With sliding windows: a report that is used in three windows counts three times.
IN_WINDOWS = "used_in_windows"
#: With sliding windows: a report that is too late for three of them counts three times.
LATE_IN_WINDOWS = "late_in_windows"
#: Of the reports out of range: those in windows that a stream dropped, because too many were open.
TOO_FAR = "too_far"
#: Of the duplicates, reports of users beyond the study's ``most_reports``.
BEYOND_MOST = "beyond_most_reports"
#: Of the used reports, those in windows that had not begun when a stream ended, which are not published. With
#: sliding windows, a report in two of them counts twice.
NOT_BEGUN = "not_begun"
#: In a running stream, reports that wait in open windows: their fate is still open.
IN_OPEN_WINDOWS = "in_open_windows"
#: Windows, or groups in windows, that are not estimated, and the reports in them, which are used.
NOT_ESTIMATED, REPORTS_NOT_ESTIMATED = "not_estimated", "reports_not_estimated"
#: Windows beyond the study's ``publish.windows``, and windows with one report; both are among the above.
WINDOWS_BEYOND, SINGLE_REPORTS = "windows_beyond", "windows_with_one_report"
#: Windows whose groups are estimated together, because of too many windows with too many groups.
GROUPS_TOGETHER = "windows_with_groups_together"
#: Windows in which no place of candidates had a name when they closed, which are not estimated.
WITHOUT_NAMES = "windows_without_names"
#: The rows of a table of counts, which is read in the place of reports.
ROWS_OF_COUNTS = "rows_of_counts"
#: What may be honest and was not used, or not estimated, because of a bound that the study can raise.
NEED_CARE = (TOO_FAR, BEYOND_MOST, WINDOWS_BEYOND, GROUPS_TOGETHER, WITHOUT_NAMES)
REASON = "dead_letters_by_reason/"
#: Payloads that were checked, and those of them that were refused, by ATTRIBUTE/SERVICE.
CHECKED, REFUSED = "payloads_checked/", "payloads_refused/"
#: Where more than this share of a service's payloads is refused, its estimates are flagged.
MOST_REFUSED = 0.01
#: The reasons of texts and messages that do not decode, maybe because of how the payload is written (``.5``):
#: nobody knows whose they are, so they count as refused payloads of any service.
UNDECODED = ("not_json", "bad_message")
#: Reports without the study's field of groups, by the field that is probably meant.
MEANT = "groups_in_other_fields/"
#: Reports of which counts say the cell and no sum, by ATTRIBUTE/SERVICE.
OF_CELLS = "reports_of_cells/"
#: The starts of the names of counts from which an accounting is computed, and which nobody else is shown.
COMPUTED_FROM = (CHECKED, REFUSED, MEANT, OF_CELLS)
#: Counts that stand in an accounting only if they are above zero.
OCCASIONAL = (
    IN_OPEN_WINDOWS,
    IN_WINDOWS,
    LATE_IN_WINDOWS,
    TOO_FAR,
    BEYOND_MOST,
    NOT_BEGUN,
    NOT_ESTIMATED,
    REPORTS_NOT_ESTIMATED,
    WINDOWS_BEYOND,
    SINGLE_REPORTS,
    GROUPS_TOGETHER,
    WITHOUT_NAMES,
    ROWS_OF_COUNTS,
)
#: The start of a count's name; the rest is the path of a damaged file, so that each file counts once.
DAMAGED = "damaged_file/"


def refused_payloads(counts: Mapping[str, int]) -> dict[str, float]:
    """The share of the payloads that were refused, by ATTRIBUTE/SERVICE, where it is above the most."""
    checked = {name.removeprefix(CHECKED): n for name, n in counts.items() if name.startswith(CHECKED) and n}
    more = sum(counts.get(REASON + reason, 0) for reason in UNDECODED)
    shares = {
        name: (counts.get(REFUSED + name, 0) + more) / (n + more) for name, n in sorted(checked.items())
    }
    return {name: share for name, share in shares.items() if share > MOST_REFUSED}


def accounting(counts: Iterable[tuple[str, int]]) -> dict[str, object]:
    """Add up the counts of all stages of a run into its accounting, the content of ``accounting.json``."""
    total: Counter[str] = Counter()
    for name, reports in counts:
        total[name] += reports
    reasons = {k.removeprefix(REASON): n for k, n in sorted(total.items()) if k.startswith(REASON)}
    sums: dict[str, object] = {name: total[name] for name in (IN, *FATES)}
    sums["damaged_files"] = sum(name.startswith(DAMAGED) for name in total)
    for name in OCCASIONAL:
        if total[name]:
            sums[name] = total[name]
    others = {
        "payloads_refused": refused_payloads(total),
        "groups_in_other_fields": {k.removeprefix(MEANT): n for k, n in total.items() if k.startswith(MEANT)},
        "reports_of_cells": {k.removeprefix(OF_CELLS): n for k, n in total.items() if k.startswith(OF_CELLS)},
    }
    sums |= {name: found for name, found in others.items() if found}
    return {**sums, "dead_letters_by_reason": reasons}
