"""Parts of a study that take minutes, and parts that cannot finish, from counts of operations."""

from __future__ import annotations

from collections.abc import Iterator

from ldpbeam.attributes import Attribute
from ldpbeam.errors import UserError
from ldpbeam.estimators import registered_estimators
from ldpbeam.study import Study, WantedEstimate, attribute_of

#: One core of 2026 computes this many hashes per second, or looks up this many in a table.
HASHES_PER_SECOND, LOOKUPS_PER_SECOND = 5e8, 7e8
#: Evaluations that accelerated EM takes at most with local hashing: 12 to 62 were measured.
ACCELERATED_EVALUATIONS = 100
#: Seconds for a million reports, or for a thousand iterations, from which a warning is given.
SLOW = 300.0
#: Seconds for a million reports, and for all iterations of an estimate, from which a run is refused.
ENDLESS_COUNTING, ENDLESS_ESTIMATE = 24 * 3600.0, 3600.0


def slow_parts(study: Study) -> Iterator[str]:
    """One sentence for each service and each estimate that needs more than five minutes of one core."""
    return (sentence for is_endless, sentence in _long_parts(study) if not is_endless)


def endless_parts(study: Study) -> Iterator[str]:
    """One sentence for each service and each estimate that cannot finish: what, why, and what to do."""
    return (sentence for is_endless, sentence in _long_parts(study) if is_endless)


def refuse_endless(study: Study) -> None:
    """Refuse a study that has a part which cannot finish.

    Raises:
        UserError: if there is one, with what is too much, why, and what to do.
    """
    for sentence in endless_parts(study):
        raise UserError(sentence)


def _long_parts(study: Study) -> Iterator[tuple[bool, str]]:
    """(whether it cannot finish, a sentence) for each service and each estimate that takes long."""
    for name in study.estimated:
        attribute, of = study.attribute(name), f"of {attribute_of(name)!r}"
        for version in attribute.versions:
            hashes = version.mechanism.hashes_per_report
            seconds = 1e6 * hashes / HASHES_PER_SECOND
            why = (
                f"every report is compared with all {hashes:,} categories, about {_duration(seconds)} of one "
                "core for a million reports; "
            )
            if seconds >= ENDLESS_COUNTING:
                what = f"service {version.label!r} {of} cannot be counted: "
                yield True, f"{what}{why}use fewer categories, or hadamard"
            elif seconds >= SLOW:
                what = f"Service {version.label!r} {of} is slow to count: "
                yield False, f"{what}{why}fewer categories, or hadamard, are faster."
        for estimate, wanted in study.described(name).estimates.items():
            lookups, most = _lookups(attribute, wanted), _most_iterations(wanted)
            per_iteration = lookups / LOOKUPS_PER_SECOND
            looked_up = f"looks up {lookups:,} hashes, "
            lasts = f"{_duration(most * per_iteration)} of one core; {_faster(wanted)}"
            if most * per_iteration >= ENDLESS_ESTIMATE:
                what = f"estimate {estimate!r} {of} cannot finish: each of up to {most:,} iterations "
                fewer = int(ENDLESS_ESTIMATE / per_iteration)
                yield True, f"{what}{looked_up}about {lasts}, or set max_iterations to less than {fewer:,}"
            elif 1000 * per_iteration >= SLOW and most * per_iteration >= SLOW:
                what = f"Estimate {estimate!r} {of} is slow: each iteration "
                yield False, f"{what}{looked_up}so up to {lasts}."


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
