"""The rows of the tables of estimates: their columns, types and meanings.

The Arrow schemas of :mod:`ldpbeam.schemas.outputs.tables` are derived from these classes, and Beam
has them as they are. Times are RFC 3339 text in UTC, because not every sink of Beam takes its timestamps.
"""

from collections.abc import Sequence
from typing import NamedTuple, Optional

# Beam's schemas know Optional and no X | None. Annotations are not postponed here: Beam would find text.
# ruff: noqa: UP045

#: The version of the columns of :class:`EstimateRow` and :class:`ShareRow`. Every change of them raises it.
SCHEMA_VERSION = 7


class Quantile(NamedTuple):
    """A quantile of an estimated distribution.

    Attributes:
        level: the share of people below it, from 0 to 1.
        value: in the attribute's unit, as are the ends below.
        certain_low: the low end of the interval that holds whatever people's values are; None if there is
            none.
        certain_high: its high end.
        if_smooth_low: the low end of the interval that holds if people are spread smoothly; None if there is
            none.
        if_smooth_high: its high end.
    """

    level: float
    value: float
    certain_low: Optional[float]
    certain_high: Optional[float]
    if_smooth_low: Optional[float]
    if_smooth_high: Optional[float]


class RangeShare(NamedTuple):
    """The share of people between two values, as the study's ``ranges`` ask.

    Attributes:
        low: in the attribute's unit.
        high: in the attribute's unit.
        share: from 0 to 1.
        certain_low: the low end of the share's interval that holds whatever people's values are; None if
            there is none.
        certain_high: its high end.
        if_smooth_low: the low end of the interval that holds if people are spread smoothly; None if there is
            none.
        if_smooth_high: its high end.
    """

    low: float
    high: float
    share: float
    certain_low: Optional[float]
    certain_high: Optional[float]
    if_smooth_low: Optional[float]
    if_smooth_high: Optional[float]


class CumulativeShare(NamedTuple):
    """The share of people with at most a value.

    Attributes:
        at: the value, in the attribute's unit.
        certain_low: the low end of the share's interval that holds whatever people's values are; None if
            there is none.
        certain_high: its high end.
        if_smooth_low: the low end of the interval that holds if people are spread smoothly; None if there is
            none.
        if_smooth_high: its high end.
    """

    at: float
    certain_low: Optional[float]
    certain_high: Optional[float]
    if_smooth_low: Optional[float]
    if_smooth_high: Optional[float]


class Frequent(NamedTuple):
    """One of the most frequent categories or keys, as the study's ``top`` asks.

    Attributes:
        name: the category or key.
        frequency: its share, from 0 to 1.
        largest_low: the low end of the interval that holds for the largest of all shares, whichever it is;
            None if there is none.
        largest_high: its high end.
    """

    name: str
    frequency: float
    largest_low: Optional[float]
    largest_high: Optional[float]


class Flag(NamedTuple):
    """Why intervals may hold the truth less often than their level.

    Attributes:
        of: ``if_smooth``, or ``certain`` for all intervals.
        flag: the reason.
    """

    of: str
    flag: str


class EstimateRow(NamedTuple):
    """One estimate; the fields are columns of ``estimates.parquet``.

    Attributes:
        schema_version: the version of the columns.
        study: the study's name.
        attribute: the attribute, or ``attribute.coordinate`` of a vector.
        services: the services whose reports were used.
        estimate: the key under ``estimates:`` in the study.
        estimator: the name of the estimator.
        window_start: the first event time of the window; RFC 3339 text in UTC, None without windows.
        window_end: the first event time after the window; likewise.
        window_name: the window by the clocks of the study's zone; None without one.
        group: the value of the study's group field; None without groups, and for the groups beyond the cap.
        other_groups: how many groups beyond the cap are estimated together here.
        pane_index: how many panes of the window came before; a later pane replaces an earlier one.
        pane_timing: ``early``, ``on_time`` or ``late``.
        complete: whether no report that was read is known to be missing; False for an early pane.
        joined: whether a user's reports in several windows of the study were brought together.
        reports: how many reports were used.
        users: how many users sent these reports; None if users are not counted.
        mean: the mean, in the attribute's unit; None if the estimator has none.
        standard_error: the standard error of the mean, in the attribute's unit.
        mean_certain_low: the low end of the mean's certain interval, which holds whatever people's values
            are;
            None if there is none.
        mean_certain_high: the high end of the mean's certain interval.
        mean_if_smooth_low: the low end of the mean's interval that holds if people are spread smoothly.
        mean_if_smooth_high: the high end of the mean's interval that holds if people are spread smoothly.
        mean_any_look_low: the low end of the mean's interval that holds at every look; None without one.
        mean_any_look_high: the high end of the mean's interval that holds at every look.
        variance: the variance of the values, in the square of the attribute's unit.
        variance_certain_low: the low end of the variance's certain interval.
        variance_certain_high: the high end of the variance's certain interval.
        variance_if_smooth_low: the low end of the variance's interval that holds if people are spread
            smoothly.
        variance_if_smooth_high: the high end of that interval of the variance.
        median: the median of the distribution, in the attribute's unit.
        quantiles: the quantiles that the study asks for, with the ends of their intervals.
        ranges: the shares of people between two values, with the ends of their intervals.
        cdf: the shares of people with at most each of 32 values.
        top: the most frequent categories or keys.
        interval_level: the level of the intervals, from 0 to 1.
        intervals_simultaneous: whether the intervals of all shares hold together.
        interval_flags: why an interval may hold the truth less often than its level, or says little.
        alarm: whether the window differs from those before it; None if it was not judged.
        alarm_number: the number that is farthest from what was expected.
        alarm_expected: the value that was expected of alarm_number.
        converged: whether the estimator converged.
        n_iterations: how many iterations the estimator took.
        log_likelihood: the log-likelihood at the end.
        warnings: sentences on what a person should change.
        notes: sentences on possible problems that no test can decide.
        details: further results of the estimator, as JSON.
        pair: what is estimated of a pair of attributes, as JSON; None for other estimates.
    """

    schema_version: int
    study: str
    attribute: str
    services: Sequence[str]
    estimate: str
    estimator: str
    window_start: Optional[str]
    window_end: Optional[str]
    window_name: Optional[str]
    group: Optional[str]
    other_groups: int
    pane_index: int
    pane_timing: str
    complete: bool
    joined: bool
    reports: int
    users: Optional[int]
    mean: Optional[float]
    standard_error: Optional[float]
    mean_certain_low: Optional[float]
    mean_certain_high: Optional[float]
    mean_if_smooth_low: Optional[float]
    mean_if_smooth_high: Optional[float]
    mean_any_look_low: Optional[float]
    mean_any_look_high: Optional[float]
    variance: Optional[float]
    variance_certain_low: Optional[float]
    variance_certain_high: Optional[float]
    variance_if_smooth_low: Optional[float]
    variance_if_smooth_high: Optional[float]
    median: Optional[float]
    quantiles: Sequence[Quantile]
    ranges: Sequence[RangeShare]
    cdf: Sequence[CumulativeShare]
    top: Sequence[Frequent]
    interval_level: Optional[float]
    intervals_simultaneous: Optional[bool]
    interval_flags: Sequence[Flag]
    alarm: Optional[bool]
    alarm_number: Optional[str]
    alarm_expected: Optional[float]
    converged: bool
    n_iterations: int
    log_likelihood: Optional[float]
    warnings: Sequence[str]
    notes: Sequence[str]
    details: str
    pair: Optional[str]


#: The numbers of an estimate whose intervals have columns.
SCALARS = tuple(name for name in EstimateRow._fields if f"{name}_certain_low" in EstimateRow._fields)


class ShareRow(NamedTuple):
    """One value bucket, category or key of an estimate; the fields are columns of ``distribution.parquet``.

    The fields up to ``joined`` are those of :class:`EstimateRow`.

    Attributes:
        kind: ``bucket``, ``category`` or ``key``.
        place: the number of the bucket, category or key, from 0.
        low: the low end of a bucket, or its least value if the domain has a step, in the attribute's unit.
        high: the high end of a bucket, or its greatest value if the domain has a step.
        label: the name of a category or key.
        share: the share of people in the bucket or category, or who have the key.
        share_certain_low: the low end of the share's certain interval, which holds whatever people's values
            are; None if there is none, as for buckets.
        share_certain_high: the high end of the share's certain interval.
        share_if_smooth_low: the low end of the share's interval that holds if people are spread smoothly.
        share_if_smooth_high: the high end of the share's interval that holds if people are spread smoothly.
        share_any_look_low: the low end of the share's interval that holds at every look; None without one.
        share_any_look_high: the high end of the share's interval that holds at every look.
        key_mean: the mean value of the people who have the key.
        key_mean_certain_low: the low end of the certain interval of the key's mean.
        key_mean_certain_high: the high end of the certain interval of the key's mean.
        interval_level: the level of the intervals, from 0 to 1.
    """

    schema_version: int
    study: str
    attribute: str
    services: Sequence[str]
    estimate: str
    estimator: str
    window_start: Optional[str]
    window_end: Optional[str]
    window_name: Optional[str]
    group: Optional[str]
    other_groups: int
    pane_index: int
    pane_timing: str
    complete: bool
    joined: bool
    kind: str
    place: int
    low: Optional[float]
    high: Optional[float]
    label: Optional[str]
    share: float
    share_certain_low: Optional[float]
    share_certain_high: Optional[float]
    share_if_smooth_low: Optional[float]
    share_if_smooth_high: Optional[float]
    share_any_look_low: Optional[float]
    share_any_look_high: Optional[float]
    key_mean: Optional[float]
    key_mean_certain_low: Optional[float]
    key_mean_certain_high: Optional[float]
    interval_level: Optional[float]
