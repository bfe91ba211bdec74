"""The numbers of estimates by name, with their intervals: what ``diff`` compares and ``check`` checks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from ldpbeam.certainty import CERTAIN, IF_SMOOTH, LARGEST, Intervals
from ldpbeam.domains import Floats, as_text, digits_of
from ldpbeam.intervals.answer import UNBIASED_SUMS, each_level
from ldpbeam.schemas.outputs.records import EstimateKey, EstimateRecord
from ldpbeam.schemas.outputs.rows import SCALARS

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
        ends: the ends of their intervals by the condition under which they hold, shape (numbers, 2) each.
        errors: their standard errors if people are spread smoothly, NaN for unknown.
        flags: why the intervals of a condition may hold the truth less often than their level.
        summed: whether the numbers are sums of one term per report.
    """

    family: str
    level: float
    names: Sequence[str]
    values: Floats
    ends: Mapping[str, Floats]
    errors: Floats
    flags: Mapping[str, str]
    summed: bool = False

    def under(self, condition: str) -> Floats:
        """The ends of intervals that hold under a condition, NaN where there are none, shape (numbers, 2).

        An interval that needs no smoothness is both the certain one and the one of smooth people. Of shares,
        those of the first ones by size hold for the largest, and others are the certain ones.
        """
        ends = self.ends.get(condition)
        if condition in (IF_SMOOTH, LARGEST) and ends is None:
            ends = self.ends.get(CERTAIN)
        return np.full((len(self.names), 2), np.nan) if ends is None else ends

    def interval(self, condition: str, index: int = 0) -> tuple[float, float] | None:
        """The ends of one interval that holds under a condition; None if there is none."""
        low, high = self.under(condition)[index].tolist()
        return None if math.isnan(low) else (low, high)

    @property
    def of_differences(self) -> Floats:
        """The ends that a difference starts from: of sums the certain ones, shape (numbers, 2)."""
        return self.under(CERTAIN if self.summed else IF_SMOOTH)

    def flag(self, condition: str = CERTAIN) -> str:
        """Why the intervals of a condition may be wrong; empty if nothing says so.

        What is said of certain intervals is true of all.
        """
        flag = self.flags.get(condition, "") if condition in self.ends else ""
        return flag or self.flags.get(CERTAIN, "")

    def trusted(self, condition: str) -> Floats:
        """The ends of intervals that nothing speaks against, NaN where there are none."""
        return np.where(bool(self.flag(condition)), np.nan, self.under(condition))

    def only(self, index: int) -> Numbers:
        """One of the numbers."""
        at = slice(index, index + 1)
        ends = {condition: columns[at] for condition, columns in self.ends.items()}
        return replace(self, names=self.names[at], values=self.values[at], ends=ends, errors=self.errors[at])


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
    intervals = record.intervals or Intervals(WITHOUT_INTERVALS)
    for family, part, names, given in _parts(record):
        level = intervals.level
        if family in ("shares", "means of keys"):
            level = each_level(level, len(names), intervals.simultaneous)
        values, z = np.asarray(given, dtype=np.float64), normal_quantile(0.5 + level / 2)
        ends = {condition: held[part].columns for condition, held in intervals.ends.items() if part in held}
        if LARGEST in ends:
            first = np.argsort(-values, kind="stable")[: len(ends[LARGEST])]
            by_size, ends[LARGEST] = ends[LARGEST], ends[CERTAIN].copy()
            ends[LARGEST][first] = by_size
        error = record.standard_error if part == "mean" else None
        if error is not None and not ends:
            ends = {CERTAIN: values[:, None] + z * error * np.array([[-1.0, 1.0]])}
        summed = intervals.methods.get(part, "").startswith(UNBIASED_SUMS) or IF_SMOOTH not in ends
        summed = summed and family in ("means", "shares") and record.keys is None
        numbers = Numbers(family, level, names, values, ends, values, intervals.flags, summed)
        low, high = numbers.of_differences.T
        # An interval that was cut where values end, such as at a share of zero, is wide on one side only, and
        # an estimate may lie outside of its interval: so the larger of the distances to both ends counts.
        errors = np.maximum.reduce([high - values, values - low, (high - low) / 2]) / z
        if error is not None:
            errors = np.array([error])
        yield replace(numbers, errors=errors)


def _parts(record: EstimateRecord) -> Iterator[tuple[str, str, Sequence[str], Sequence[float]]]:
    """(the family, the part that has intervals, the names, the values) of all numbers of an estimate."""
    for part in SCALARS:
        if (number := getattr(record, part)) is not None:
            name = part.replace("_", " ")
            yield f"{name}s", part, [name], [number]
    if record.quantiles is not None:
        names = [f"quantile {level}" for level in record.quantiles]
        yield "quantiles", "quantiles", names, list(record.quantiles.values())
    if record.ranges is not None:
        names = [f"share from {as_text(span.low)} to {as_text(span.high)}" for span in record.ranges]
        yield "ranges", "ranges", names, [span.share for span in record.ranges]
    if record.distribution is not None and record.bucket_edges is not None:
        # Five digits of the width tell the edges of 16,384 buckets apart.
        digits = digits_of(record.bucket_edges[0], record.bucket_edges[-1], 6, of_width=5)
        pairs = zip(*record.bucket_ends, strict=True)
        spans = [(f"{low:.{digits}g}", f"{high:.{digits}g}") for low, high in pairs]
        names = [f"share of {low}" if low == high else f"share in {low} to {high}" for low, high in spans]
        yield "value buckets", "distribution", names, record.distribution
    if record.frequencies is not None and record.labels is not None:
        yield "shares", "frequencies", [f"share of {label}" for label in record.labels], record.frequencies
    if record.key_means is not None and record.keys is not None:
        yield "means of keys", "key_means", [f"mean of {key}" for key in record.keys], record.key_means
