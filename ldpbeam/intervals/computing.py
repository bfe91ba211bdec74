"""The intervals of an estimate, from the statistic that it was computed from.

An interval is for the mean, the shares and so on *of the people whose reports were used*. It covers the noise
of the perturbation, of sampled keys and of hash functions, but not the sampling error of a larger population
(except for joined windows). If services asked different people, it is for all of them together.

An interval belongs to the estimated number, and not to the estimator: every estimator of one statistic has
the same intervals.
"""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np

from ldpbeam.attributes import Attribute
from ldpbeam.certainty import ANY_LOOK, CERTAIN, IF_SMOOTH, LARGEST, Ends, Intervals
from ldpbeam.domains import Categories, KeyValues, Numeric
from ldpbeam.estimators.estimate import Estimate
from ldpbeam.estimators.question import Question
from ldpbeam.fit import FitTest, fit_tests
from ldpbeam.intervals.answer import WantedIntervals
from ldpbeam.intervals.any_look import FOR_ALL_LOOKS, REMEMBERED
from ldpbeam.intervals.flags import MISFIT, MISFIT_TAILS, MISFIT_USERS
from ldpbeam.intervals.key_values import explain_keys, keys_intervals
from ldpbeam.intervals.liars import NO_BOUND, honest
from ldpbeam.intervals.means import has_sums, mean_interval
from ldpbeam.intervals.numbers import explain_numbers, of_distribution
from ldpbeam.intervals.shares import UNBIASED_SHARES, of_shares
from ldpbeam.statistics import Statistic

#: How intervals are computed if windows are joined, in words.
BY_USER = "; with the variance by user"

#: Tests of fit with a smaller p-value flag every interval. A run with ten thousand windows and groups has
#: a false flag once in a hundred times.
SURELY = 1e-6

#: What a refuting test says about the reports of its services.
MISFITS = {
    "reports": MISFIT,
    "tails": MISFIT_TAILS,
    "same_people": MISFIT_USERS,
}


def explain(attribute: Attribute, wanted: WantedIntervals | None) -> str:
    """A sentence about the intervals of an attribute's estimates, and how they are computed."""
    if wanted is None:
        return f"Estimates of {attribute.name!r} have no intervals."
    if isinstance(attribute.domain, KeyValues) and wanted.liars:
        return f"Estimates of {attribute.name!r} have no intervals ({NO_BOUND.removeprefix('none: ')})."
    if isinstance(attribute.domain, Categories):
        kinds = f"the share of every category ({UNBIASED_SHARES})"
    elif isinstance(attribute.domain, KeyValues):
        kinds = explain_keys(attribute)
    else:
        kinds = explain_numbers(attribute)
    together = ", wide enough to hold all shares at once" if wanted.simultaneous else ""
    named = ""
    if wanted.named_only and isinstance(attribute.domain, Numeric):
        named = " Only the mean, and named quantiles and ranges, have certain ones."
    liars = f" Certain ones are {honest(wanted.liars)}." if wanted.liars else ""
    return (
        f"Estimates of {attribute.name!r} have {100.0 * wanted.level:g}% intervals{together}: of {kinds}. "
        f"They are for the people whose reports are used, and do not depend on the estimator.{named}{liars}"
    )


class StatisticIntervals:
    """The intervals of one statistic, which its estimates share.

    Computing them takes longer than most estimates, so they are computed once, when an estimate first asks
    for them.

    Args:
        attribute: the attribute of the statistic.
        statistic: the statistic that the estimates are computed from.
        windows: the number of windows of the statistic; several in a roll-up.
    """

    def __init__(self, attribute: Attribute, statistic: Statistic, windows: int = 1) -> None:
        self.attribute, self.statistic, self.windows = attribute, statistic, windows
        self._known: dict[tuple[tuple[str, ...], WantedIntervals, bool], Intervals] = {}

    def of(self, estimate: Estimate, wanted: WantedIntervals) -> Intervals:
        """The intervals of the numbers of an estimate.

        Args:
            estimate: an estimate that was computed from the statistic.
            wanted: the intervals to compute.
        """
        question = Question(self.attribute, self.statistic, estimate.services, windows=self.windows)
        if not question.versions:
            return Intervals(wanted.level, wanted.simultaneous)
        only_mean = estimate.distribution is None and has_sums(question)
        asked = (estimate.services, wanted, only_mean)
        if asked not in self._known:
            self._known[asked] = self._computed(question, wanted, only_mean)
        shared = self._known[asked]
        ends = {
            condition: {part: own for part, own in parts.items() if _holds(estimate, part)}
            for condition, parts in shared.ends.items()
        }
        ends = {condition: parts for condition, parts in ends.items() if parts}
        if LARGEST in ends:
            ends[LARGEST] = {part: _by_size(own, estimate) for part, own in ends[LARGEST].items()}
        return replace(
            shared,
            ends=ends,
            at=shared.at if _holds(estimate, "cdf") else (),
            narrowest=shared.narrowest if ANY_LOOK in ends else None,
            methods={
                name: how for name, how in shared.methods.items() if name in ends or _holds(estimate, name)
            },
        )

    def _computed(self, question: Question, wanted: WantedIntervals, only_mean: bool) -> Intervals:
        """All intervals, or that of the mean alone, with flags and how each is computed."""
        intervals = _intervals(question, wanted, only_mean=only_mean)
        how = ""
        if question.statistic.joined is not None:
            how = BY_USER
        elif question.repeats > 1:
            how = f"; for the fewest users who can have reported in {question.repeats:,} windows"
        certain = how + (f"; {honest(wanted.liars)}" if wanted.liars else "")
        methods = {
            name: text if text.startswith("none") else text + (how if name == IF_SMOOTH else certain)
            for name, text in intervals.methods.items()
        }
        ends, misfit = dict(intervals.ends), self._misfit(question)
        if ANY_LOOK in ends:
            methods[ANY_LOOK] = FOR_ALL_LOOKS.format(reports=wanted.any_look) + certain
            if question.repeats > 1:
                del ends[ANY_LOOK]
                methods[ANY_LOOK] = REMEMBERED
        flags = ({CERTAIN: misfit} if misfit else {}) | intervals.flags
        return replace(
            intervals, simultaneous=wanted.simultaneous, ends=ends, methods=methods, flags=flags,
            liars=wanted.liars or None,
        )  # fmt: skip

    def _misfit(self, question: Question) -> str:
        """Why no interval holds, if tests of fit refute the study's claims; empty if they do not."""
        labels = {self.attribute.versions[index].label for index in question.versions}
        for test in self._refuted:
            if labels.issuperset(test.services):
                return MISFITS[test.test].format(services=" and ".join(test.services))
        return ""

    @functools.cached_property
    def _refuted(self) -> list[FitTest]:
        statistic = self.statistic
        if statistic.joined is not None or any((histogram < 0).any() for histogram in statistic.histograms):
            return []
        tests = fit_tests(self.attribute, statistic, self.windows)
        return [test for test in tests if test.p_value < SURELY]


def _intervals(question: Question, wanted: WantedIntervals, *, only_mean: bool) -> Intervals:
    domain = question.attribute.domain
    if isinstance(domain, Categories):
        return of_shares(question, wanted)
    if isinstance(domain, KeyValues):
        return keys_intervals(question, wanted)
    return mean_interval(question, wanted) if only_mean else of_distribution(question, wanted)


def _holds(estimate: Estimate, name: str) -> bool:
    """Whether an estimate has some of its numbers; many of them follow from its distribution."""
    if name in ("mean", "variance", "key_means"):
        return getattr(estimate, name) is not None
    return estimate.distribution is not None or estimate.frequencies is not None


def _by_size(ends: Ends, estimate: Estimate) -> Ends:
    """The ends of shares; the largest share comes first."""
    shares = estimate.distribution if estimate.frequencies is None else estimate.frequencies
    return Ends.of(ends.columns[np.argsort(-np.asarray(shares), kind="stable")])
