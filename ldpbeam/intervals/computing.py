"""The intervals of an estimate, from the statistic that it was computed from.

An interval is for the mean, the shares and so on *of the people whose reports were used*. It covers the noise
of the perturbation, of sampled keys and of hash functions, and not the spread of a larger population that
these people may have been drawn from, but for joined windows. If services asked different people, it is for
all of them together.

An interval is of the number that is estimated, and not of the estimator: every estimator of one statistic has
the same intervals. A flag says where an estimate lies outside; the bias of its estimator is then larger than
the noise.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from ldpbeam import metrics
from ldpbeam.attributes import Attribute
from ldpbeam.domains import Categories, Domain, Floats, KeyValues, Numeric, as_text
from ldpbeam.estimators.estimate import AnyLook, Estimate, Intervals, StrictIntervals
from ldpbeam.estimators.question import Question
from ldpbeam.fit import FitTest, fit_tests
from ldpbeam.intervals.answer import Parts, WantedIntervals
from ldpbeam.intervals.any_look import ANY_LOOK, REMEMBERED
from ldpbeam.intervals.flags import (
    MANY_OUTSIDE,
    MISFIT,
    MISFIT_TAILS,
    MISFIT_USERS,
    OUTSIDE,
    TAKE_STRICT,
    joined,
)
from ldpbeam.intervals.key_values import explain_keys, keys_intervals
from ldpbeam.intervals.means import has_sums, mean_interval
from ldpbeam.intervals.numbers import explain_numbers, of_distribution
from ldpbeam.intervals.shares import UNBIASED_SHARES, of_shares
from ldpbeam.intervals.strict import (
    LEFT_OUT,
    NOT_WANTED,
    STRICT,
    leaves_strict,
    strict_intervals,
)
from ldpbeam.statistics import Statistic

#: How the intervals are computed, in words, of windows that are joined.
BY_USER = "; with the variance by user"

#: Tests of fit with a smaller p-value flag every interval. A run with ten thousand windows and groups has
#: a false flag once in a hundred times.
SURELY = 1e-6

#: What a refuting test says of the reports to its services.
MISFITS = {
    "reports": MISFIT,
    "tails": MISFIT_TAILS,
    "same_people": MISFIT_USERS,
}

#: Of more than this share of the estimates outside of their intervals, all are flagged, else each by itself.
MOST_OUTSIDE = 0.2
#: An estimate is outside if it is further from its interval than this part of the domain, or of all people;
ROUNDING = 1e-4
#: where there are many shares, than this part of the share that each has if all are equal.
ROUNDING_OF_EVEN = 0.05


def explain(attribute: Attribute, wanted: WantedIntervals | None) -> str:
    """A sentence on the intervals of an attribute's estimates, and how they are computed."""
    if wanted is None:
        return f"Estimates of {attribute.name!r} have no intervals."
    if isinstance(attribute.domain, Categories):
        kinds = f"the share of every category ({UNBIASED_SHARES})"
    elif isinstance(attribute.domain, KeyValues):
        kinds = explain_keys(attribute)
    else:
        kinds = explain_numbers(attribute)
        if wanted.strict is not False:
            where = "" if wanted.strict else ", where a run has few estimates of numbers,"
            kinds += f"; and{where} strict ones of quantiles and ranges ({STRICT})"
    together = ", wide enough to hold all shares at once" if wanted.simultaneous else ""
    return (
        f"Estimates of {attribute.name!r} have {100.0 * wanted.level:g}% intervals{together}: of {kinds}. "
        "They are for the people whose reports are used, and do not depend on the estimator."
    )


class StatisticIntervals:
    """The intervals of one statistic. Estimates that ask for the same ones share them.

    Computing them takes longer than most estimates, so each part is computed once, when an estimate first
    asks for it.

    Args:
        attribute: the attribute of the statistic.
        statistic: the statistic that the estimates are computed from.
        windows: how many windows the statistic is of; several in a roll-up.
    """

    def __init__(self, attribute: Attribute, statistic: Statistic, windows: int = 1) -> None:
        self.attribute, self.statistic, self.windows = attribute, statistic, windows
        self._known: dict[tuple[tuple[str, ...], WantedIntervals, bool], Parts] = {}
        self._known_strict: dict[
            tuple[tuple[str, ...], WantedIntervals], tuple[StrictIntervals | None, str]
        ] = {}

    def of(self, estimate: Estimate, wanted: WantedIntervals) -> Intervals:
        """The intervals of what an estimate holds.

        Args:
            estimate: an estimate that was computed from the statistic.
            wanted: which intervals to compute.
        """
        question = Question(self.attribute, self.statistic, estimate.services, windows=self.windows)
        if not question.versions:
            return Intervals(wanted.level, wanted.simultaneous)
        only_mean = estimate.distribution is None and has_sums(question)
        asked = (estimate.services, wanted, only_mean)
        if asked not in self._known:
            self._known[asked] = _parts(question, wanted, only_mean=only_mean)
        parts = self._known[asked]
        how = ""
        if question.statistic.joined is not None:
            how = BY_USER
        elif question.repeats > 1:
            how = f"; for the fewest users who can have reported in {question.repeats:,} windows"
        held = {name: part for name, part in parts.ends.items() if _holds(estimate, name)}
        methods = {name: text + how for name, text in parts.methods.items() if name in held}
        at_any_look = {name: part for name, part in (parts.any_look or {}).items() if name in held}
        if at_any_look and question.repeats > 1:
            at_any_look, methods["any_look"] = {}, REMEMBERED
        elif at_any_look:
            methods["any_look"] = ANY_LOOK.format(reports=wanted.any_look) + how
        strict = None
        if "quantiles" in held or "ranges" in held:
            strict, methods["strict"] = self._strict(question, wanted)
        of_parts = parts.flags
        if strict is not None and strict.mean is not None and "mean" in held:
            held["mean"], methods["mean"] = strict.mean, STRICT
            of_parts = {name: flag for name, flag in of_parts.items() if name != "mean"}
        flags = {
            **dict.fromkeys(held, self._misfit(question)),
            **_outside(estimate, held, self.attribute.domain, wanted),
            **of_parts,
        }
        if strict is not None:
            names = _names(self.attribute.domain, wanted)
            leaves = {
                f"{part} {names[part][place]}": TAKE_STRICT
                for part, of_part in leaves_strict(held, strict).items()
                for place in np.flatnonzero(of_part).tolist()
            }
            flags = {**joined(flags, leaves), "strict": self._misfit(question)}
        return Intervals(
            wanted.level,
            wanted.simultaneous,
            largest=parts.largest,
            strict=strict,
            any_look=AnyLook(wanted.any_look, **at_any_look) if at_any_look else None,
            methods=methods,
            flags={name: text for name, text in flags.items() if text and _holds(estimate, name)},
            **held,
        )

    def _strict(self, question: Question, wanted: WantedIntervals) -> tuple[StrictIntervals | None, str]:
        """The strict intervals and how they are computed; None and why, if there are none."""
        if not wanted.strict:
            return None, LEFT_OUT if wanted.strict is None else NOT_WANTED
        asked = (question.services, wanted)
        if asked not in self._known_strict:
            self._known_strict[asked] = strict_intervals(question, wanted)
        return self._known_strict[asked]

    def _misfit(self, question: Question) -> str:
        """Why no interval holds, if tests of fit refute what the study claims; empty if none does."""
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


def _parts(question: Question, wanted: WantedIntervals, *, only_mean: bool) -> Parts:
    """The intervals of everything that the reports tell, or of the mean alone."""
    domain = question.attribute.domain
    if isinstance(domain, Categories):
        return of_shares(question, wanted)
    if isinstance(domain, KeyValues):
        return keys_intervals(question, wanted)
    return mean_interval(question, wanted) if only_mean else of_distribution(question, wanted)


def _holds(estimate: Estimate, name: str) -> bool:
    """Whether an estimate has a number; quantiles and ranges are of its distribution."""
    part = name.partition(" ")[0]
    of = dict.fromkeys(("cdf", "quantiles", "ranges", "strict"), "distribution")
    return getattr(estimate, of.get(part, part)) is not None


def _names(domain: Domain, wanted: WantedIntervals) -> Mapping[str, Sequence[str]]:
    """How numbers that can have a flag of their own are called, by what they are of."""
    if isinstance(domain, Categories):
        return {"distribution": domain.names}
    if isinstance(domain, KeyValues):
        return {"frequencies": domain.keys, "key_means": domain.keys}
    ranges = [f"{as_text(low)} to {as_text(high)}" for low, high in wanted.ranges]
    return {"quantiles": list(map(repr, wanted.quantiles)), "ranges": ranges}


def _outside(
    estimate: Estimate, held: Mapping[str, ArrayLike], domain: Domain, wanted: WantedIntervals
) -> dict[str, str]:
    """Flags for estimates that lie outside of their intervals, which are ``held``, by more than rounding.

    Of few among many, each has a flag of its own, as ``quantiles 0.5``, but for value buckets.
    """
    names = _names(domain, wanted)
    values: dict[str, ArrayLike | None] = {name: getattr(estimate, name, None) for name in held}
    shares, bounds, roundings = estimate.distribution, dict[str, Floats](), _roundings(domain)
    if isinstance(domain, Numeric) and shares is not None and np.isfinite(shares).all():
        bounds = _of_buckets(shares, domain, wanted)
    flags: dict[str, str] = {}
    for name, ends in held.items():
        # A distribution says of quantiles and ranges no more than its buckets do.
        value = bounds.get(name, values[name])
        if value is None:
            continue
        if name in ("distribution", "frequencies"):
            # Noise takes unbiased shares beyond zero and one, where intervals are cut: that is no bias.
            value = np.clip(value, 0.0, 1.0)
        low, high = np.asarray(ends, dtype=np.float64).reshape(-1, 2).T
        estimates: Floats = np.asarray(value, dtype=np.float64)
        least, most = estimates.T if name in bounds else (estimates, estimates)
        rounding = roundings.get(name, min(ROUNDING, ROUNDING_OF_EVEN / len(low)))
        if name == "mean" and shares is not None and isinstance(domain, Numeric):
            # Nobody knows where in its bucket a spike is.
            rounding += 0.5 * float((shares * np.diff(domain.edges(len(shares)))).max())
        outside = (most < low - rounding) | (least > high + rounding)
        share, own = float(np.mean(outside)), OUTSIDE.format(estimator=estimate.estimator)
        if np.ndim(value) == 0:
            flags |= {name: own} if share else {}
        elif share > MOST_OUTSIDE:
            flags[name] = MANY_OUTSIDE.format(share=f"{share:.0%}", estimator=estimate.estimator)
        elif name in names:
            flags |= {f"{name} {names[name][place]}": own for place in np.flatnonzero(outside).tolist()}
    return flags


def _roundings(domain: Domain) -> dict[str, float]:
    """How far numbers in the unit of the domain, or of its square, may be off without being biased."""
    numbers = domain.values if isinstance(domain, KeyValues) else domain
    if not isinstance(numbers, Numeric):
        return {}
    error = ROUNDING * numbers.width + 4.0 * float(np.spacing(max(abs(numbers.low), abs(numbers.high))))
    return {"mean": error, "quantiles": error, "key_means": error, "variance": ROUNDING * numbers.width**2}


def _of_buckets(shares: Floats, domain: Numeric, wanted: WantedIntervals) -> dict[str, Floats]:
    """The least and the greatest quantiles and shares of ranges that buckets allow, shape (n, 2) each."""
    edges, below = domain.edges(len(shares)), np.append(0.0, np.cumsum(shares))
    quantiles = metrics.quantiles(shares, edges, wanted.quantiles)
    buckets = np.searchsorted(edges[1:-1], quantiles, "right")
    starts, stops = np.array(wanted.ranges).reshape(-1, 2).T
    half = 0.0
    if domain.step is not None:
        half = 0.5 * domain.step
        starts, stops = metrics.around_values(starts, stops, edges[0], domain.step)
    # Of the buckets inside of a range, and of those that touch it.
    inside = below[np.searchsorted(edges[1:], stops, "right")] - below[np.searchsorted(edges[:-1], starts)]
    touching = below[np.searchsorted(edges[:-1], stops)] - below[np.searchsorted(edges[1:], starts, "right")]
    return {
        "quantiles": np.column_stack((edges[buckets] + half, edges[buckets + 1] - half)),
        "ranges": np.sort(np.column_stack((inside, touching)), axis=1),
    }
