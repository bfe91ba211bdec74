"""Parts of a study that take minutes, and parts that cannot finish, from counts of operations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ldpbeam.attributes import Attribute
from ldpbeam.estimators import registered_estimators
from ldpbeam.pipelines.errors import UserError
from ldpbeam.study import Study, WantedEstimate, attribute_of

#: Hashes per second that one core of 2026 computes, and those that it looks up in a table.
HASHES_PER_SECOND, LOOKUPS_PER_SECOND = 5e8, 7e8
#: Evaluations that accelerated EM takes at most with local hashing: 12 to 62 were measured.
ACCELERATED_EVALUATIONS = 100
#: Seconds for a million reports, or for a thousand iterations, from which a warning is given.
SLOW = 300.0
#: Seconds for a million reports, and for all iterations of an estimate, from which a run is refused.
ENDLESS_COUNTING, ENDLESS_ESTIMATE = 24 * 3600.0, 3600.0


def slow_parts(study: Study) -> Iterator[str]:
    """One sentence for each service and each estimate that needs more than five minutes of one core."""
    for name in study.estimated:
        attribute = study.attribute(name)
        for label, hashes, seconds in _counting(attribute):
            if SLOW <= seconds < ENDLESS_COUNTING:
                yield (
                    f"Service {label!r} of {attribute_of(name)!r} is slow to count: every report is compared "
                    f"with all {hashes:,} categories, about {_duration(seconds)} of one core for a million "
                    "reports; fewer categories, or hadamard, are faster."
                )
        for estimate, wanted in _iterated(study, name):
            lookups = _lookups(attribute, wanted)
            seconds = lookups / LOOKUPS_PER_SECOND
            all_of_them = _most_iterations(wanted) * seconds
            if 1000 * seconds >= SLOW and SLOW <= all_of_them < ENDLESS_ESTIMATE:
                yield (
                    f"Estimate {estimate!r} of {attribute_of(name)!r} is slow: each iteration looks up "
                    f"{lookups:,} hashes, so up to {_duration(all_of_them)} of one core; {_faster(wanted)}."
                )


def endless_parts(study: Study) -> Iterator[str]:
    """One sentence for each service and each estimate that cannot finish: what, why, and what to do."""
    for name in study.estimated:
        attribute = study.attribute(name)
        for label, hashes, seconds in _counting(attribute):
            if seconds >= ENDLESS_COUNTING:
                yield (
                    f"service {label!r} of {attribute_of(name)!r} cannot be counted: every report is "
                    f"compared with all {hashes:,} categories, about {_duration(seconds)} of one core for a "
                    "million reports; use fewer categories, or hadamard"
                )
        for estimate, wanted in _iterated(study, name):
            lookups, most = _lookups(attribute, wanted), _most_iterations(wanted)
            seconds = lookups / LOOKUPS_PER_SECOND
            if most * seconds >= ENDLESS_ESTIMATE:
                fewer = int(ENDLESS_ESTIMATE / seconds)
                yield (
                    f"estimate {estimate!r} of {attribute_of(name)!r} cannot finish: each of up to {most:,} "
                    f"iterations looks up {lookups:,} hashes, about {_duration(most * seconds)} of one core; "
                    f"{_faster(wanted)}, or set max_iterations to less than {fewer:,}"
                )


def refuse_endless(study: Study) -> None:
    """Refuse a study that has a part which cannot finish.

    Raises:
        UserError: if there is one, with what is too much, why, and what to do.
    """
    for sentence in endless_parts(study):
        raise UserError(sentence)


def _counting(attribute: Attribute) -> Iterator[tuple[str, int, float]]:
    """For each service that computes hashes: its label, hashes per report, seconds for a million reports."""
    for version in attribute.versions:
        if hashes := version.mechanism.hashes_per_report:
            yield version.label, hashes, 1e6 * hashes / HASHES_PER_SECOND


def _iterated(study: Study, name: str) -> Iterator[tuple[str, WantedEstimate]]:
    """The estimates of an attribute whose iterations multiply by the services' channels."""
    for estimate, wanted in study.described(name).estimates.items():
        known = registered_estimators()[wanted.estimator]
        if "max_iterations" in known.options and not known.joins:
            yield estimate, wanted


def _lookups(attribute: Attribute, wanted: WantedEstimate) -> int:
    """The look-ups of an iteration: a product and one with the transpose for each service."""
    indexes = attribute.versions_of(wanted.services)
    return 2 * sum(attribute.versions[index].mechanism.lookups_per_product for index in indexes)


def _is_fast(estimator: str, options: Mapping[str, Any]) -> bool:
    return estimator in ("em", "ems") and bool(options.get("accelerated"))


def _most_iterations(wanted: WantedEstimate) -> int:
    """The most evaluations that an estimate's options let it make."""
    known = registered_estimators()[wanted.estimator]
    most = int(wanted.options.get("max_iterations", known.options["max_iterations"].default))
    return min(most, ACCELERATED_EVALUATIONS) if _is_fast(wanted.estimator, wanted.options) else most


def _faster(wanted: WantedEstimate) -> str:
    """What to do for a faster estimate."""
    if wanted.estimator == "em" and not _is_fast(wanted.estimator, wanted.options):
        return "set accelerated: true, use norm_sub, or give fewer seeds"
    return "use norm_sub, or give fewer seeds"


def _duration(seconds: float) -> str:
    return f"{seconds / 60:,.0f} minutes" if seconds < 7200 else f"{seconds / 3600:,.0f} hours"
