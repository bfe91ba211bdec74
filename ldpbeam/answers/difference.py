"""Two results compared: each number of each estimate, and whether it differs by more than its error.

The interval of a difference comes from the intervals of the two numbers by the method of variance estimates
recovery (Zou and Donner, Statistics in Medicine 27, 2008, eq. 6 and 7): for numbers a in [l_a, u_a] and b in
[l_b, u_b], b - a goes down by sqrt((b - l_b)^2 + (u_a - a)^2) and up by sqrt((u_b - b)^2 + (a - l_a)^2).
Where the errors of both may depend on each other in any way, or liars may have moved both, these distances
are added instead.

The intervals of one family (all means, all quantiles, all shares, ...) hold together: their distances are
those of Bonferroni's level. So the chance of any difference in a family whose interval leaves zero is at most
:data:`FALSE_ALARMS`, where the values of the people are the same on both sides. Sides that share reports have
errors in common, so that their chance is smaller.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

import numpy as np

from ldpbeam.answers.named_numbers import Numbers, by_key, normal_quantile, numbers_of
from ldpbeam.answers.results import Results
from ldpbeam.certainty import ANY_LOOK, CERTAIN, IF_SMOOTH, WITHOUT_NOISE
from ldpbeam.domains import Floats, as_text, digits_of
from ldpbeam.intervals.any_look import widening
from ldpbeam.schemas.outputs.records import EstimateKey, EstimateRecord

#: At most this share of pairs with the same values has a difference beyond the error in any one family.
FALSE_ALARMS = 0.05
#: Shares near a value that tell distributions apart, whatever they are: only their differences say anything.
BLURRED = "blurred shares"
#: The verdicts on a number that differs, and on others.
SIGNS = ("higher", "lower")
NOT_CERTAIN, NO_ERROR = "not certain", "no error is known"
_SMOOTHLY = " if smooth"
_Key = TypeVar("_Key", bound=Hashable)


@dataclass(frozen=True)
class Difference:
    """A number of an estimate that is on both sides.

    Attributes:
        key: the estimate on the first side.
        other_key: the estimate on the second side.
        family: what kind of number: ``means``, ``variances``, ``quantiles``, ``shares``, ...
        number: which number: ``mean``, ``variance``, ``quantile 0.5``, ``share of LABEL``, ...
        first: its value on the first side, in the unit of the number.
        second: its value on the second.
        low: the low end of the interval of ``second - first``, which holds together with those of its family;
            None if one of the two has no interval.
        high: the high end.
        error: the standard error of the difference; None if one of the two has none.
        verdict: ``higher`` or ``lower`` if the interval leaves zero, with ``, at any look`` after it if the
            one for every look does, too; with `` if smooth`` after it if the certain ends include zero or are
            unknown; with ``perhaps`` before it if an interval is flagged; else ``not certain``, or ``no error
            is known``.
        flag: why one of the intervals may hold the truth less often than its level; empty if nothing says so.
        any_look: the ends that hold at every look, together; None where nothing is known.
        certain: the ends that hold whatever people's values are; of quantiles and ranges, those of two
            estimates hold together. None where one of the two has none.
    """

    key: EstimateKey
    other_key: EstimateKey
    family: str
    number: str
    first: float
    second: float
    low: float | None
    high: float | None
    error: float | None
    verdict: str
    flag: str = ""
    any_look: tuple[float, float] | None = None
    certain: tuple[float, float] | None = None

    @property
    def beyond(self) -> bool:
        """Whether the numbers certainly differ."""
        return self.verdict.startswith(SIGNS) and not self.verdict.endswith(_SMOOTHLY)

    @property
    def beyond_if_smooth(self) -> bool:
        """Whether it is if people are spread smoothly."""
        return self.verdict.startswith(SIGNS)


@dataclass(frozen=True)
class Comparison:
    """What two results have in common, and what is in one only.

    Attributes:
        differences: every number of the estimates that are in both, in the order of the first.
        only_first: the estimates that have numbers in the first only (an estimate from no reports has none).
        only_second: those that have numbers in the second only.
        unlike: estimates with numbers that cannot be compared, as only one has them, or as buckets or names
            differ.
        z: this many standard errors are beyond the error, by family.
    """

    differences: tuple[Difference, ...]
    only_first: tuple[EstimateKey, ...]
    only_second: tuple[EstimateKey, ...]
    unlike: tuple[EstimateKey, ...]
    z: Mapping[str, float]

    @property
    def differs(self) -> bool:
        """Whether a difference is beyond the error, or numbers of an estimate are in one only."""
        return any(difference.beyond for difference in self.differences) or bool(
            self.only_first or self.only_second or self.unlike
        )


def largest_first(differences: Iterable[Difference]) -> list[Difference]:
    """What is certain first, then what is if people are smooth; the larger ones in standard errors first.

    Blurred shares, of which there are many, come after other numbers.
    """
    return sorted(
        differences,
        key=lambda row: (
            not row.beyond,
            not row.beyond_if_smooth,
            row.family == BLURRED,
            -abs(row.second - row.first) / (row.error or math.inf),
        ),
    )


class _Pair(NamedTuple):
    """Numbers of two estimates, and how their distances are added."""

    record: EstimateRecord
    other_record: EstimateRecord
    one: Numbers
    two: Numbers
    added: np.ufunc
    at_any_look: bool

    @property
    def errors(self) -> Floats:
        """The standard error of each difference, NaN for unknown."""
        return np.asarray(self.added(self.one.errors, self.two.errors))


def compared(first: Results, second: Results) -> Comparison:
    """Compare the estimates of two results."""
    return comparison([(by_key(first.estimates), by_key(second.estimates))])


def comparison(
    sides: Sequence[tuple[Mapping[_Key, EstimateRecord], Mapping[_Key, EstimateRecord]]],
    dependent: Collection[str] | None = None,
    *,
    flagged: bool = True,
) -> Comparison:
    """Compare estimates that have the same key.

    Args:
        sides: the estimates of both sides; of several pairs, whose intervals are to hold together.
        dependent: the attributes whose errors on both sides may depend on each other in any way, so that
            standard errors add; variances of the others add, and of sums over reports. None if nothing is
            known of that, and variances are to be added.
        flagged: whether differences of numbers with flagged intervals can be beyond the error.
    """
    pairs: list[_Pair] = []
    # As dictionaries, because several pairs of sides lack the same estimates.
    only_first, only_second, unlike = (dict[EstimateKey, None]() for _ in range(3))
    for ours, theirs in sides:
        numbers, other_numbers = _parts(ours), _parts(theirs)
        only_first |= dict.fromkeys(ours[key].key for key in numbers if key not in other_numbers)
        only_second |= dict.fromkeys(theirs[key].key for key in other_numbers if key not in numbers)
        for key in filter(other_numbers.__contains__, numbers):
            record, other = ours[key], theirs[key]
            if _alike(numbers[key]) != _alike(other_numbers[key]):
                unlike[record.key] = None
            shared = dependent is not None and record.attribute in dependent
            at_any_look = dependent is not None and not shared
            # What liars do on both sides does not cancel.
            lied = any(of.intervals is not None and of.intervals.liars for of in (record, other))
            for names, one in numbers[key].items():
                if two := other_numbers[key].get(names):
                    added = np.add if lied or (shared and not one.summed) else np.hypot
                    pairs.append(_Pair(record, other, one, two, added, at_any_look))
    judged = Counter[str]()
    for pair in pairs:
        judged[pair.one.family] += int(np.isfinite(pair.errors).sum())
    each = {family: FALSE_ALARMS / max(many, 1) for family, many in judged.items()}
    return Comparison(
        tuple(row for pair in pairs for row in _differences(pair, each[pair.one.family], flagged)),
        tuple(only_first),
        tuple(only_second),
        tuple(unlike),
        {family: -normal_quantile(chance / 2) for family, chance in each.items()},
    )


def _differences(pair: _Pair, chance: float, flagged: bool) -> Iterator[Difference]:
    """The differences of a pair, each of which fails with a chance of ``chance``."""
    one, two = pair.one, pair.two
    wide = -normal_quantile(chance / 2)
    low, high = ends_of(
        one, two, pair.added, [wide / normal_quantile(0.5 + part.level / 2) for part in (one, two)]
    )
    columns = np.column_stack(
        (
            one.values,
            two.values,
            low,
            high,
            pair.errors,
            *_at_any_look(pair, chance),
            *_certain(pair, low, high),
        )
    ).tolist()
    flag = "; ".join(dict.fromkeys(filter(None, (one.flag(IF_SMOOTH), two.flag(IF_SMOOTH)))))
    for name, numbers in zip(one.names, columns, strict=True):
        first, second, from_, to, error, least, most, surely, at_most = numbers
        apart = surely > 0.0 or at_most < 0.0
        verdict = verdict_on(from_, to)
        if verdict in SIGNS and flag and not (flagged and apart):
            verdict = f"perhaps {verdict}"
        elif verdict in SIGNS and not apart:
            verdict += _SMOOTHLY
        if verdict in SIGNS and verdict_on(least, most) == verdict and not flag:
            verdict = f"{verdict}, at any look"
        yield Difference(
            pair.record.key,
            pair.other_record.key,
            one.family,
            name,
            first,
            second,
            _known(from_),
            _known(to),
            _known(error),
            verdict,
            flag,
            None if math.isnan(least) else (least, most),
            None if math.isnan(surely) else (surely, at_most),
        )


def _at_any_look(pair: _Pair, chance: float) -> tuple[Floats, Floats]:
    """The ends of the differences that hold at every look, each but with a chance of ``chance``."""
    sides, wider = [], []
    for record, part in ((pair.record, pair.one), (pair.other_record, pair.two)):
        narrowest = record.intervals.narrowest if record.intervals else None
        if ANY_LOOK not in part.ends or narrowest is None or not pair.at_any_look:
            nothing = np.full(len(part.names), np.nan)
            return nothing, nothing
        known = record.reports, narrowest
        wider.append(float(widening(1.0 - chance, *known) / widening(part.level, *known)))
        sides.append(replace(part, ends={CERTAIN: part.ends[ANY_LOOK]}))
    return ends_of(sides[0], sides[1], pair.added, wider)


def verdict_on(low: float, high: float) -> str:
    """What an interval of a difference says of its sign."""
    if math.isnan(low) or math.isnan(high):
        return NO_ERROR
    if low <= 0.0 <= high:
        return NOT_CERTAIN
    return "higher" if low > 0.0 else "lower"


def _parts(records: Mapping[_Key, EstimateRecord]) -> dict[_Key, dict[tuple[str, ...], Numbers]]:
    """The numbers of each estimate that has any, part by part, by the names of a part's numbers."""
    parts = {
        key: {tuple(part.names): part for part in (*numbers_of(record), *_blurred(record))}
        for key, record in records.items()
    }
    return {key: of_key for key, of_key in parts.items() if of_key}


def _blurred(record: EstimateRecord) -> Iterator[Numbers]:
    """The blurred shares of each mechanism, with names that have the mechanism: others blur otherwise."""
    if (given := record.intervals) is None:
        return
    for mechanism, blurred in given.blurred.items():
        digits = digits_of(min(blurred.at), max(blurred.at), 6, of_width=5)
        names = [
            f"blurred share near {as_text(float(f'{at:.{digits}g}'))} ({mechanism})" for at in blurred.at
        ]
        shares, errors = np.array(blurred.shares), np.array(blurred.errors)
        reach = normal_quantile(0.5 + given.level / 2) * errors
        ends = {CERTAIN: np.column_stack((shares - reach, shares + reach))}
        yield Numbers(BLURRED, given.level, names, shares, ends, errors, given.flags, summed=True)


def _alike(parts: Mapping[tuple[str, ...], Numbers]) -> set[tuple[str, ...]]:
    """The names that both sides of an estimate must have."""
    return {names for names, part in parts.items() if part.family != BLURRED}


def _certain(pair: _Pair, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """The certain ends of the differences: given ones of sums; of others, those of both sides together.

    Of shares, the allowances for noise are added as errors are. The certain intervals of an estimate's
    quantiles and ranges miss in half of the samples that its level leaves, so that those of two estimates
    hold together at that level.
    """
    if all(part.summed or IF_SMOOTH not in part.ends for part in (pair.one, pair.two)):
        return low, high
    ends, allowed = [], []
    for part in (pair.one, pair.two):
        certain = part.under(CERTAIN)
        # Of an end that was cut at 0 or 1, the allowance is not known.
        cut = (certain <= 0.0) | (certain >= 1.0)
        ends.append(np.where(cut, certain, part.ends.get(WITHOUT_NOISE, certain)))
        allowed.append(np.abs(certain - ends[-1]))
    apart, noise = ends[1] - ends[0][:, ::-1], pair.added(allowed[1], allowed[0][:, ::-1])
    return apart[:, 0] - noise[:, 0], apart[:, 1] + noise[:, 1]


def _known(number: float) -> float | None:
    return None if math.isnan(number) else number


def ends_of(
    one: Numbers, two: Numbers, added: np.ufunc, wider: Sequence[float] = (1.0, 1.0)
) -> tuple[Floats, Floats]:
    """The ends of the intervals of ``two`` minus ``one``.

    An estimate outside of its interval is moved to the nearer end: the interval is of the number.

    Args:
        one: the numbers of the first side.
        two: those of the second.
        added: how two distances are added: ``np.hypot`` for independent errors, else ``np.add``.
        wider: how many times as far the ends of each side are from its numbers.
    """
    (low, high), (other_low, other_high) = one.of_differences.T, two.of_differences.T
    first, second = np.clip(one.values, low, high), np.clip(two.values, other_low, other_high)
    down = added(wider[1] * (second - other_low), wider[0] * (high - first))
    up = added(wider[1] * (other_high - second), wider[0] * (first - low))
    return second - first - down, second - first + up
