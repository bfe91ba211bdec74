"""Warnings about the parts of a study that take minutes or hours, from counts of operations."""

from __future__ import annotations

from collections.abc import Iterator

from ldpbeam.attributes import Attribute
from ldpbeam.estimators import registered_estimators
from ldpbeam.mechanisms.categories.local_hashing import LocalHashing
from ldpbeam.study import Study, attribute_of

#: Hashes per second that one core of 2026 computes, and those that it looks up in a table.
HASHES_PER_SECOND, LOOKUPS_PER_SECOND = 1e8, 4e8
#: Seconds for a million reports, or for a thousand iterations, from which a warning is given.
_SECONDS = 300.0


def slow_parts(study: Study) -> Iterator[str]:
    """One sentence for each service and each estimate that needs more than five minutes of one core."""
    for name in study.estimated:
        attribute = study.attribute(name)
        yield from _tallies(attribute)
        for estimate, wanted in study.described(name).estimates.items():
            if "max_iterations" in registered_estimators()[wanted.estimator].options:
                yield from _iterations(attribute, estimate, wanted.services)


def _tallies(attribute: Attribute) -> Iterator[str]:
    for version in attribute.versions:
        mechanism = version.mechanism
        if isinstance(mechanism, LocalHashing) and mechanism.seeds == "any":
            seconds = 1e6 * mechanism.size / HASHES_PER_SECOND
            if seconds >= _SECONDS:
                yield (
                    f"Service {version.label!r} of {attribute_of(attribute.name)!r} is slow to count: olh "
                    f"with any seed compares every report with all {mechanism.size:,} categories, about "
                    f"{_duration(seconds)} of one core for a million reports; fewer categories, or hadamard, "
                    "are faster."
                )


def _iterations(attribute: Attribute, estimate: str, services: tuple[str, ...]) -> Iterator[str]:
    mechanisms = [attribute.versions[index].mechanism for index in attribute.versions_of(services)]
    entries = sum(
        int(mechanism.seeds) * mechanism.size
        for mechanism in mechanisms
        if isinstance(mechanism, LocalHashing) and mechanism.seeds != "any"
    )
    # Each iteration passes over the table twice: forward and back.
    seconds = 2.0 * entries / LOOKUPS_PER_SECOND
    if 1000 * seconds >= _SECONDS:
        yield (
            f"Estimate {estimate!r} of {attribute_of(attribute.name)!r} is slow: each iteration goes twice "
            f"over {entries:,} hashes, about {_duration(1000 * seconds)} for a thousand iterations; norm_sub "
            "needs no iteration, and fewer seeds are faster."
        )


def _duration(seconds: float) -> str:
    return f"{seconds / 60:,.0f} minutes" if seconds < 7200 else f"{seconds / 3600:,.0f} hours"
