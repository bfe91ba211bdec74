"""The laws of mechanisms, and of which cases each is one."""

from __future__ import annotations

from collections.abc import Callable

from cases import Case, has_whole_reports

from ldpbeam.mechanisms import FrequencyMechanism, NumericMechanism, SampledCoordinate

Law = Callable[[Case], None]
#: Each law, and whether it is one of a case's.
LAWS: dict[Law, Callable[[Case], bool]] = {}


def law(holds: Callable[[Case], bool] = lambda case: True) -> Callable[[Law], Law]:
    """Decorator: a law of the cases that ``holds`` is true of."""

    def add(function: Law) -> Law:
        LAWS[function] = holds
        return function

    return add


def reports_numbers(case: Case) -> bool:
    return isinstance(case.at(1.0), NumericMechanism)


def reports_indexes(case: Case) -> bool:
    mechanism = case.at(1.0)
    return mechanism.payload_dtype.kind in "fu" and not isinstance(mechanism, NumericMechanism)


def counts_frequencies(case: Case) -> bool:
    return isinstance(case.at(1.0), FrequencyMechanism)


def is_pure(case: Case) -> bool:
    """Whether epsilon holds without exception, and can be checked over all whole reports."""
    mechanism = case.at(1.0)
    return mechanism.delta == 0.0 and has_whole_reports(mechanism)


def is_estimated_whole(case: Case) -> bool:
    return not isinstance(case.at(1.0), SampledCoordinate)
