"""Estimates as a run writes them: one JSON object per line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, replace
from typing import IO, Any

import numpy as np

from ldpbeam import metrics
from ldpbeam.attributes import Attribute
from ldpbeam.certainty import IF_SMOOTH, LARGEST, Ends, Intervals
from ldpbeam.domains import OTHERS, Candidates, Categories, Domain, Floats, KeyValues, Numeric
from ldpbeam.estimators import Estimate
from ldpbeam.schemas.outputs.checked import fields_of
from ldpbeam.schemas.outputs.records import EstimateRecord, Frequent, RangeShare
from ldpbeam.schemas.outputs.snapshots import Snapshot
from ldpbeam.study import MOST_GROUPS, Study, Summary
from ldpbeam.times import window_fields

#: A note names an answer that this share of the people, or more, give.
ALMOST_ALL = 0.9
#: A note names an end of a numeric domain with this share of the people, or more, ...
AT_AN_END = 0.01
#: ... if that is this many times the largest possible share of the next bucket.
STANDS_OUT = 3.0
_NAMES = [field.name for field in fields(EstimateRecord)]
#: The fields that a record has from its snapshot as they are.
OF_SNAPSHOTS = ("attribute", "group", "other_groups", "pane_index", "pane_timing", "complete", "joined")
#: The same, from the estimator's result: all that both have, but what the domain gives other names or units.
_OF_ANSWERS = {field.name for field in fields(Estimate)}.intersection(_NAMES) - {
    *("distribution", "frequencies", "key_means", "intervals", "warnings"),
}
#: How many of the largest shares have ends that hold for the largest; with ``top``, all of those.
FIRST = 12


def estimate_record(study: Study, snapshot: Snapshot, name: str, answer: Estimate) -> EstimateRecord:
    """The estimate of a pane, as a run keeps and writes it.

    Args:
        study: the study. Its summary has the quantiles, the ranges and the number of most frequent names to
            add if the estimate has a distribution or frequencies.
        snapshot: the attribute, window, group and pane of the estimate.
        name: the key under ``estimates:``.
        answer: the estimator's result.

    Raises:
        ValueError: if a number of it is NaN or infinite, or it has other categories or keys than the study.
    """
    attribute = study.attribute(snapshot.attribute).with_domain(snapshot.candidates)
    summary = study.described(snapshot.attribute).summary
    return EstimateRecord(
        study=study.name,
        name=name,
        **window_fields(snapshot.window),
        window_name=study.clock.name(snapshot.window) if study.clock and snapshot.window else None,
        log_likelihood=float(answer.log_likelihoods[-1]) if len(answer.log_likelihoods) else None,
        intervals=answer.intervals and _first_ones(answer.intervals, max(FIRST, summary.top or 0)),
        warnings=_warnings(answer, snapshot.other_groups),
        notes=tuple(_notes(attribute, answer)),
        **{field: getattr(snapshot, field) for field in OF_SNAPSHOTS},
        **{field: getattr(answer, field) for field in _OF_ANSWERS},
        **_shares(attribute.domain, answer, summary),
    )


def _warnings(answer: Estimate, other_groups: int) -> tuple[str, ...]:
    """The estimate's warnings, with one more if very many groups are merged."""
    if other_groups < MOST_GROUPS:
        return answer.warnings
    warning = (
        f"about {other_groups:,} groups are estimated together: that many are probably ids or free text, "
        f"so check what clients send as group. In a shard of users with more than {MOST_GROUPS:,} groups, "
        "those with the fewest reports are merged, even if they are among the largest over all users"
    )
    return (*answer.warnings, warning)


def _notes(attribute: Attribute, answer: Estimate) -> Iterator[str]:
    """Sentences on very many people who give one answer, as far as intervals are sure of it."""
    domain, given = attribute.domain, answer.intervals
    if given is None or not isinstance(domain, Numeric | Categories):
        return
    of_categories = isinstance(domain, Categories)
    ends = given.of("frequencies" if of_categories else "distribution", IF_SMOOTH)
    if ends is None:
        return
    least, most = ends.T
    if isinstance(domain, Categories):
        for index in np.flatnonzero(least >= ALMOST_ALL):
            if domain.names[index] == OTHERS and isinstance(domain, Candidates):
                yield f"at least {least[index]:.0%} of people answer none of the window's candidates"
                continue
            yield (
                f"at least {least[index]:.0%} of people answer {domain.names[index]}; clients that all send "
                "one answer look the same"
            )
        return
    edges = domain.edges(len(least))
    for which, end, beside in (("low", 0, 1), ("high", -1, -2)):
        if len(least) > 2 and least[end] >= max(AT_AN_END, STANDS_OUT * most[beside]):
            first, last = edges[:2] if end == 0 else edges[-2:]
            where = f"{first:g} to {last:g}" if len(least) != domain.count else f"{domain.values[end]:g}"
            yield (
                f"if others are spread smoothly, {least[end]:.0%} to {most[end]:.0%} of people are at the "
                f"{which} end of the domain, {where}; clients clip values there, or send one false value"
            )


def _shares(domain: Domain, answer: Estimate, summary: Summary) -> dict[str, Any]:
    """The fields of the record that have a distribution or frequencies, and what is computed from them."""
    if isinstance(domain, KeyValues):
        if answer.frequencies is None:
            return {}
        return {
            "keys": domain.keys,
            "frequencies": answer.frequencies.tolist(),
            "key_means": None if answer.key_means is None else answer.key_means.tolist(),
            "top": _top(domain.keys, answer.frequencies, summary.top),
        }
    if answer.distribution is None:
        return {}
    shares = answer.distribution.tolist()
    if isinstance(domain, Categories):
        top = _top(domain.names, answer.distribution, summary.top)
        return {"categories": domain.names, "frequencies": shares, "top": top}
    assert isinstance(domain, Numeric)
    edges = domain.edges(len(shares))
    parts: dict[str, Any] = {"bucket_edges": edges.tolist(), "step": domain.step, "distribution": shares}
    if answer.distribution.sum() > 0:
        quantiles = metrics.quantiles_in(domain, answer.distribution, summary.quantiles).tolist()
        parts["quantiles"] = dict(zip(map(repr, summary.quantiles), quantiles, strict=True))
    if summary.ranges:
        parts["ranges"] = tuple(
            RangeShare(low, high, float(metrics.share_in(domain, answer.distribution, low, high)))
            for low, high in summary.ranges
        )
    return parts


def _top(names: Sequence[str], frequencies: Floats, most: int | None) -> tuple[Frequent, ...] | None:
    """The ``most`` most frequent names, None if ``most`` is None; ties keep the order of the names.

    Raises:
        ValueError: if there are not as many frequencies as names.
    """
    if len(frequencies) != len(names):
        raise ValueError(f"the estimator gave {len(frequencies)} shares for {len(names)} names")
    if most is None:
        return None
    order = np.argsort(-frequencies, kind="stable")[:most]
    return tuple(Frequent(names[index], float(frequencies[index])) for index in order)


def _first_ones(intervals: Intervals, many: int) -> Intervals:
    """The intervals, with those for the largest shares cut to this number."""
    largest = intervals.ends.get(LARGEST, {})
    first = {part: Ends(ends.low[:many], ends.high[:many]) for part, ends in largest.items()}
    return replace(intervals, ends=intervals.ends | ({LARGEST: first} if first else {}))


#: A line leaves these fields out where they have their default.
_OPTIONAL = {
    field.name: field.default_factory() if callable(field.default_factory) else field.default
    for field in fields(EstimateRecord)[_NAMES.index("n_iterations") + 1 :]
}


def json_fields(record: EstimateRecord) -> dict[str, Any]:
    """The fields of a line of ``estimates.jsonl``."""
    return {
        name: value
        for name, value in fields_of(record).items()
        if name not in _OPTIONAL or getattr(record, name) != _OPTIONAL[name]
    }


def write_json_lines(stream: IO[bytes], records: Iterable[EstimateRecord]) -> None:
    """Write each record as one line of JSON."""
    for record in records:
        stream.write(json.dumps(json_fields(record), allow_nan=False).encode() + b"\n")
