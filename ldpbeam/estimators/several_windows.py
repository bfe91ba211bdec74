"""Estimates of several windows, if clients remember their noise."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import cast

from ldpbeam.domains import Numeric
from ldpbeam.estimators.channel_means import least_noise
from ldpbeam.estimators.estimate import Estimate
from ldpbeam.estimators.question import Question
from ldpbeam.mechanisms import UnbiasedMechanism
from ldpbeam.over_time.joined_windows import JoinedCells
from ldpbeam.over_time.variance_by_user import variance_of


def of_several_windows(question: Question, estimate: Estimate) -> Estimate:
    """An estimate with a warning, and with the standard error for the fewest people who can have reported.

    Unless the reports of a user in several windows are brought together, nobody can know how many windows
    share noise. A user sends one report per window, so the users are fewest if all reported in every window.
    If windows are joined by user, the standard error is computed by user.

    Args:
        question: what the estimate is of.
        estimate: the estimate, which is returned unchanged for one window or fresh noise.
    """
    joined = question.statistic.joined
    if isinstance(joined, JoinedCells) and estimate.standard_error is not None and question.versions:
        width = cast(Numeric, question.attribute.domain).width
        return replace(estimate, standard_error=math.sqrt(mean_variance(question, joined)) * width)
    if question.repeats == 1:
        return estimate
    remembering = [i for i in question.versions if question.attribute.versions[i].lifetime is not None]
    names = ", ".join(question.attribute.versions[index].label for index in remembering)
    fewest = max(math.ceil(question.reports_of(index) / question.windows) for index in remembering)
    sentence = (
        f"clients of {names} remember their noise, and the reports of {question.windows:,} windows were not "
        f"brought together by user: errors and intervals are for the fewest users who can have sent "
        f"them, {fewest:,}, each with one value in all windows"
    )
    error = estimate.standard_error
    if error is not None:
        error *= math.sqrt(max(question.noise_factor(index) for index in question.versions))
    return replace(estimate, standard_error=error, warnings=(*estimate.warnings, sentence))


def mean_variance(question: Question, joined: JoinedCells) -> float:
    """The variance by user of the mean of unbiased reports, on [0, 1], of the one channel in use."""
    (index,) = question.versions
    mechanism: UnbiasedMechanism = question.mechanism(index)
    resolution = question.attribute.buckets
    numbers = mechanism.unbiased(mechanism.representatives(resolution))
    return variance_of(joined, numbers, least_noise(mechanism, resolution))
