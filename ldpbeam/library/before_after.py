"""``ldpbeam.before_after``: whether estimates changed at a time, such as that of a release."""

from __future__ import annotations

from datetime import datetime

from ldpbeam.answers import before_after as answers
from ldpbeam.clients.times import window_time
from ldpbeam.errors import UserError
from ldpbeam.library.differences import Differences, not_compared
from ldpbeam.library.result import Estimates


def before_after(estimates: Estimates, time: datetime | str | int) -> Differences:
    """All windows from a time on minus all windows that end by it: every number, with an interval.

    The statistics of the windows on each side are added up, and both sums are estimated as the study says.
    Within each kind of number, the largest differences in standard errors come first.

    Args:
        estimates: what :func:`ldpbeam.estimate` gave; what :meth:`Estimates.only` leaves out is not compared.
        time: a time with a zone, or milliseconds since 1970; a date or a text without a zone is taken in the
            zone of the study's windows.

    Raises:
        ValueError: if the time is invalid, a side has no window, or windows slide.
    """
    given = [("", snapshot) for snapshot in estimates.snapshots]
    at = window_time(time, "time", estimates.study.clock)
    try:
        between = answers.before_after(estimates.study, given, at)
    except UserError as error:
        raise ValueError(str(error)) from None
    wanted = {(record.attribute, record.name, record.group) for record in estimates}
    numbers = (
        number
        for number in between.comparison.differences
        if (number.key.attribute, number.key.name, number.key.group) in wanted
    )
    left_out = not_compared(between.comparison, "period")
    return Differences(tuple(numbers), between.level, (*between.sentences, *left_out))
