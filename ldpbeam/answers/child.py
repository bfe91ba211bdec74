"""The work of a process that computes estimates.

It imports the statistics only, neither Beam nor file formats, so that it starts in about a second.

BLAS uses one thread there. With several, it splits a product among them, and the last bits of the result
depend on their number, which is the number of the machine's cores. With one thread, an estimate has the same
bits on every machine, and processes side by side do not compete for cores.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import scipy.linalg  # noqa: F401 - loads SciPy's own BLAS, so that the controller finds it
from threadpoolctl import ThreadpoolController

from ldpbeam.attributes import Attribute
from ldpbeam.domains import Candidates, Domain, Pair
from ldpbeam.estimators import Estimate, Progress, estimate
from ldpbeam.estimators.pairs.answer import pair
from ldpbeam.estimators.question import Question
from ldpbeam.estimators.several_windows import of_several_windows
from ldpbeam.intervals.computing import StatisticIntervals
from ldpbeam.statistics import Statistic
from ldpbeam.study import WantedEstimate


def limit_blas() -> None:
    """Limit BLAS to one thread in this process, from now on.

    The limit is not lifted after an estimate, because all threads of Python share it, and others may still be
    computing.
    """
    _controller().limit(limits=1, user_api="blas")


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread during the block, for a program that computes more than estimates."""
    with _controller().limit(limits=1, user_api="blas"):
        yield


@functools.cache
def _controller() -> Any:
    # Finding the libraries takes milliseconds.
    return ThreadpoolController()


def compute(
    intervals: StatisticIntervals,
    wanted: WantedEstimate,
    progress: Progress | None = None,
) -> Estimate:
    """Compute one estimate with its intervals, with the same bits in every process.

    Args:
        intervals: the statistic that the estimate is computed from, with the intervals of all its estimates.
        wanted: the estimator, its services, its options and its intervals.
        progress: called after every iteration.
    """
    limit_blas()
    attribute, statistic = intervals.attribute, intervals.statistic
    if isinstance(attribute.domain, Pair):
        level, liars = (wanted.intervals.level, wanted.intervals.liars) if wanted.intervals else (None, 0.0)
        return pair(attribute, statistic, level, honest=not liars)
    answer = estimate(wanted.estimator, attribute, statistic, wanted.services, wanted.options, progress)
    question = Question(attribute, statistic, answer.services, windows=intervals.windows)
    answer = of_several_windows(question, answer)
    if isinstance(attribute.domain, Candidates) and answer.distribution is not None:
        answer = replace(answer, distribution=attribute.domain.of_names(answer.distribution))
    if wanted.intervals is None:
        return answer
    return replace(answer, intervals=intervals.of(answer, wanted.intervals))


def compute_here(
    attributes: Mapping[str, Attribute],
    asked: Sequence[tuple[str, Domain | None, Statistic, int, WantedEstimate]],
) -> list[Estimate]:
    """Estimates in this process.

    Args:
        attributes: the study's attributes by name.
        asked: the attribute, the candidates of its window (None if the study says the domain), the statistic,
            the number of its windows and the wanted estimate of each. Neighbours with one statistic share its
            intervals.
    """
    answers = []
    for (name, _), group in itertools.groupby(asked, lambda one: (one[0], id(one[2]))):
        intervals = None
        for _, domain, statistic, windows, wanted in group:
            attribute = attributes[name].with_domain(domain)
            intervals = intervals or StatisticIntervals(attribute, statistic, windows)
            answers.append(compute(intervals, wanted))
    return answers
