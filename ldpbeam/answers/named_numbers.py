"""The numbers of estimates by name, with their intervals: what ``diff`` compares and ``check`` checks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from ldpbeam.domains import Floats, as_text, digits_of
from ldpbeam.intervals.answer import UNBIASED_SUMS, each_level
from ldpbeam.schemas.outputs.records import Ends, EstimateKey, EstimateRecord, IntervalsRecord, ManyEnds

#: The level of a mean's interval where the study asks for none.
WITHOUT_INTERVALS = 0.95
#: The quantile of a level of the normal distribution. SciPy's takes longer to import than all of ``check``.
normal_quantile = NormalDist().inv_cdf


@dataclass(frozen=True)
class Numbers:
    """Numbers of one part of an estimate, as its quantiles; all columns have one length.

    Attributes:
        family: what kind of numbers they are, as ``means``; differences of one family hold together.
        level: the level of each interval.
        names: ``mean``, ``variance``, ``quantile 0.5``, ``share of LABEL``, ...
        values: the numbers, in the unit of each.
        low: the low ends of their intervals, NaN for unknown.
        high: the high ends.
        errors: their standard errors, NaN for unknown.
        flags: why each interval may hold the truth less often than its level; empty if it needs no care.
        summed: whether the numbers are sums of one term per report.
        strict: the numbers' intervals that hold whatever the density is, NaN for unknown, shape (numbers, 2);
            None for numbers whose intervals do not rest on a smooth density.
        strict_flag: why the strict intervals may hold the truth less often than their level.
        any_look: the intervals that hold at every look, shape (numbers, 2); None if there are none.
    """

    family: str
    level: float
    names: Sequence[str]
    values: Floats
    low: Floats
    high: Floats
    errors: Floats
    flags: Sequence[str]
    summed: bool = False
    strict: Floats | None = None
    strict_flag: str = ""
    any_look: Floats | None = None

    @property
    def certain(self) -> Floats:
        """The ends of what is certain of each number, NaN where nothing is, shape (numbers, 2)."""
        if self.strict is not None:
            return np.where(bool(self.strict_flag), np.nan, self.strict)
        return self._unless_flagged(np.column_stack((self.low, self.high)))

    @property
    def certain_at_any_look(self) -> Floats:
        """The same at every look at reports that become more."""
        nothing = np.full((len(self.names), 2), np.nan)
        return nothing if self.any_look is None else self._unless_flagged(self.any_look)

    def _unless_flagged(self, ends: Floats) -> Floats:
        flagged = np.array([bool(flag) for flag in self.flags])
        return np.where(flagged[:, None], np.nan, ends)


def by_key(records: Iterable[EstimateRecord]) -> dict[EstimateKey, EstimateRecord]:
    """The estimates by key. If several runs of a stream share a window, the run that closed it counts."""
    best: dict[EstimateKey, EstimateRecord] = {}
    for record in records:
        before = best.get(record.key)
        if before is None or _closes(record) >= _closes(before):
            best[record.key] = record
    return best


def _closes(record: EstimateRecord) -> tuple[bool, int]:
    """What decides between estimates of one key: a closed window wins, and then more reports."""
    return record.pane_timing != "early", record.reports


def numbers_of(record: EstimateRecord) -> Iterator[Numbers]:
    """The numbers of an estimate, part by part."""
    intervals = record.intervals or IntervalsRecord(WITHOUT_INTERVALS)
    level, flags = intervals.level, intervals.flags
    if record.mean is not None:
        yield _mean(record, intervals)
    if record.variance is not None:
        ends = _many(intervals.variance)
        yield _part(
            "variances", ["variance"], [record.variance], ends, level, _flags(flags, "variance", [""])
        )
    if record.quantiles is not None:
        names = [f"quantile {quantile}" for quantile in record.quantiles]
        ends = _of_quantiles(record.quantiles, intervals.quantiles or {})
        each_flag = _flags(flags, "quantiles", list(record.quantiles))
        part = _part("quantiles", names, list(record.quantiles.values()), ends, level, each_flag)
        strict = _of_quantiles(record.quantiles, record.strict.quantiles if record.strict else {})
        yield _with_strict(part, strict, flags)
    if record.ranges is not None:
        texts = [f"{as_text(part.low)} to {as_text(part.high)}" for part in record.ranges]
        names, shares = [f"share from {text}" for text in texts], [part.share for part in record.ranges]
        part = _part("ranges", names, shares, intervals.ranges, level, _flags(flags, "ranges", texts))
        yield _with_strict(part, record.strict.ranges if record.strict else None, flags)
    if record.distribution is not None and record.bucket_edges is not None:
        # Five digits of the width tell the edges of 16,384 buckets apart.
        digits = digits_of(record.bucket_edges[0], record.bucket_edges[-1], 6, of_width=5)
        pairs = zip(*record.bucket_ends, strict=True)
        spans = [(f"{low:.{digits}g}", f"{high:.{digits}g}") for low, high in pairs]
        names = [f"share of {low}" if low == high else f"share in {low} to {high}" for low, high in spans]
        each_flag = _flags(flags, "distribution", [""] * len(names))
        yield _part("value buckets", names, record.distribution, intervals.distribution, level, each_flag)
    if record.frequencies is not None and record.labels is not None:
        names = [f"share of {label}" for label in record.labels]
        each = each_level(level, len(names), intervals.simultaneous)
        each_flag = _flags(flags, "frequencies", record.labels)
        part = _part("shares", names, record.frequencies, intervals.frequencies, each, each_flag)
        any_look = None if intervals.any_look is None else _columns(intervals.any_look.frequencies)
        yield replace(part, summed=record.categories is not None, any_look=any_look)
    if record.key_means is not None and record.keys is not None:
        names = [f"mean of {key}" for key in record.keys]
        each = each_level(level, len(names), intervals.simultaneous)
        each_flag = _flags(flags, "key_means", record.keys)
        yield _part("means of keys", names, record.key_means, intervals.key_means, each, each_flag)


def _mean(record: EstimateRecord, intervals: IntervalsRecord) -> Numbers:
    """The mean; its standard error gives its interval where there is no other."""
    assert record.mean is not None
    error, ends = record.standard_error, _many(intervals.mean)
    summed = intervals.methods.get("mean", UNBIASED_SUMS).startswith(UNBIASED_SUMS)
    if ends is None and error is not None:
        room = normal_quantile(0.5 + intervals.level / 2) * error
        ends = ManyEnds((record.mean - room,), (record.mean + room,))
    part = _part(
        "means", ["mean"], [record.mean], ends, intervals.level, _flags(intervals.flags, "mean", [""])
    )
    any_look = None if intervals.any_look is None else _columns(_many(intervals.any_look.mean))
    errors = part.errors if error is None else np.array([error])
    return replace(part, errors=errors, summed=summed, any_look=any_look)


def _with_strict(part: Numbers, strict: ManyEnds | None, flags: Mapping[str, str]) -> Numbers:
    ends = np.full((len(part.names), 2), np.nan) if strict is None else _columns(strict)
    return replace(part, strict=ends, strict_flag=flags.get("strict", ""))


def _columns(ends: ManyEnds | None) -> Floats | None:
    return None if ends is None else np.column_stack((ends.low, ends.high))


def _flags(flags: Mapping[str, str], part: str, names: Sequence[str]) -> Sequence[str]:
    """The flag of each number: that of all numbers of its part, and its own."""
    of_part = flags.get(part, "")
    return ["; ".join(filter(None, (of_part, flags.get(f"{part} {name}", "")))) for name in names]


def _many(ends: Ends | None) -> ManyEnds | None:
    return None if ends is None else ManyEnds((ends.low,), (ends.high,))


def _of_quantiles(values: dict[str, float], ends: dict[str, Ends]) -> ManyEnds | None:
    if not ends.keys() >= values.keys():
        return None
    return ManyEnds(tuple(ends[level].low for level in values), tuple(ends[level].high for level in values))


def _part(
    family: str,
    names: Sequence[str],
    values: Sequence[float],
    ends: ManyEnds | None,
    level: float,
    flags: Sequence[str],
) -> Numbers:
    """The numbers with the standard errors that their intervals have.

    An interval that was cut where values end, such as at a share of zero, is wide on one side only, and an
    estimate may lie outside of its interval: so the larger of the distances to both ends counts.
    """
    numbers = np.asarray(values, dtype=np.float64)
    low, high = (
        np.full(len(numbers), np.nan) if side is None else np.asarray(side, dtype=np.float64)
        for side in ((ends.low, ends.high) if ends else (None, None))
    )
    wide = np.maximum.reduce([high - numbers, numbers - low, (high - low) / 2])
    errors = np.asarray(wide / normal_quantile(0.5 + level / 2))
    return Numbers(family, level, names, numbers, low, high, errors, flags)
