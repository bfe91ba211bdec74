"""Parts of a study that take minutes or hours, from counts of operations."""

from __future__ import annotations

from collections.abc import Iterator

from ldpbeam.attributes import Attribute
from ldpbeam.estimators import registered_estimators
from ldpbeam.study import Study, WantedEstimate, attribute_of

#: One core of 2026 computes this many hashes per second, or looks up this many in a table.
HASHES_PER_SECOND, LOOKUPS_PER_SECOND = 5e8, 7e8
#: Evaluations that accelerated EM takes at most with local hashing: 12 to 62 were measured.
ACCELERATED_EVALUATIONS = 100
#: Seconds for a million reports, or for a thousand iterations, from which a warning is given.
SLOW = 300.0


def slow_parts(study: Study) -> Iterator[str]:
    """One sentence for each service and each estimate that needs more than five minutes of one core."""
    for name in study.estimated:
        attribute, of = study.attribute(name), f"of {attribute_of(name)!r}"
        for version in attribute.versions:
            hashes = version.mechanism.hashes_per_report
            seconds = 1e6 * hashes / HASHES_PER_SECOND
            if seconds >= SLOW:
                yield (
                    f"Service {version.label!r} {of} is slow to count: every report is compared with all "
                    f"{hashes:,} categories, about {_duration(seconds)} of one core for a million reports; "
                    "fewer categories, or hadamard, are faster."
                )
        for estimate, wanted in study.described(name).estimates.items():
            lookups = _lookups(attribute, wanted)
            per_iteration = lookups / LOOKUPS_PER_SECOND
            seconds = _most_iterations(wanted) * per_iteration
            if 1000 * per_iteration >= SLOW and seconds >= SLOW:
                yield (
                    f"Estimate {estimate!r} {of} is slow: each iteration looks up {lookups:,} hashes, so up "
                    f"to {_duration(seconds)} of one core; {_faster(wanted)}."
                )


def _lookups(attribute: Attribute, wanted: WantedEstimate) -> int:
    """The look-ups of an iteration: a product and one with the transpose for each service."""
    indexes = attribute.versions_of(wanted.services)
    return 2 * sum(attribute.versions[index].mechanism.lookups_per_product for index in indexes)


def _is_fast(wanted: WantedEstimate) -> bool:
    return wanted.estimator in ("em", "ems") and bool(wanted.options.get("accelerated"))


def _most_iterations(wanted: WantedEstimate) -> int:
    """The most evaluations that an estimate may make; 0 if none multiplies by the services' channels."""
    estimator = registered_estimators()[wanted.estimator]
    if estimator.joins or "max_iterations" not in estimator.options:
        return 0
    most = int(wanted.options.get("max_iterations", estimator.options["max_iterations"].default))
    return min(most, ACCELERATED_EVALUATIONS) if _is_fast(wanted) else most


def _faster(wanted: WantedEstimate) -> str:
    """What to do for a faster estimate."""
    accelerated = "set accelerated: true, " if wanted.estimator == "em" and not _is_fast(wanted) else ""
    return f"{accelerated}use norm_sub, or give fewer seeds"


def _duration(seconds: float) -> str:
    return f"{seconds / 60:,.0f} minutes" if seconds < 7200 else f"{seconds / 3600:,.0f} hours"
