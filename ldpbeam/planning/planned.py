"""Plans: the expected errors of a study's estimates, by formula."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from ldpbeam.domains import Numeric, as_text
from ldpbeam.intervals.answer import WantedIntervals
from ldpbeam.intervals.finest_detail import expected_intervals
from ldpbeam.planning.influence import influence
from ldpbeam.planning.precision import OF_UNBIASED_REPORTS, precision
from ldpbeam.study import Study, attribute_of


@dataclass(frozen=True)
class Planned:
    """One line of a plan: the error of one quantity of one estimate.

    Attributes:
        attribute: the attribute, or ``attribute.coordinate`` of a vector.
        estimate: the estimate's name in the study.
        estimator: its estimator.
        quantity: the quantity that has the error.
        users: the number of people who report.
        error: the standard error with these people, for the least favourable of a few populations.
        least_error: the same for the most favourable population.
        users_for_error: the number of people that the wanted error needs; None without a wanted error, or if
            it needs more than 1,000,000,000,000.
        source: how the error was computed.
        one_percent_fake: the most by which a share of 1% of fake users moves the estimate, in the unit of the
            error; m of n fake users move it by 100 m/n times that. None if there is no such bound, such as if
            a user may count several times, or if there are too many categories to compute it.
        finest_detail: the finest detail of numbers that the reports show, as a part of the range; None for
            other domains, and if it is unknown.
        certain_widths: the expected widths of the certain intervals of quantiles and of ranges, by name.
    """

    attribute: str
    estimate: str
    estimator: str
    quantity: str
    users: int
    error: float
    least_error: float
    users_for_error: int | None
    source: str
    one_percent_fake: float | None = None
    finest_detail: float | None = None
    certain_widths: Mapping[str, float] = field(default_factory=dict)


def computed(study: Study, wanted: set[str], users: int, error: float | None) -> Iterator[Planned]:
    """The errors that have a formula.

    Args:
        study: the study.
        wanted: the attributes to plan for.
        users: the number of people who report.
        error: also compute how many people this error needs; None for no such number.
    """
    for name in study.estimated:
        if attribute_of(name) not in wanted:
            continue
        attribute = study.attribute(name)
        for estimate, asked in study.described(name).estimates.items():
            expected = precision(attribute, asked.estimator, asked.services)
            if expected is None:
                continue
            # Honest people draw a coordinate, but fake users can all name the same one.
            crowd = sum(attribute_of(other) == attribute_of(name) for other in study.estimated)
            root = math.sqrt(crowd)
            expected = replace(expected, best=root * expected.best, worst=root * expected.worst)
            least, most = expected.error(users)
            # There is no bound if a user may count several times.
            moved = influence(attribute, asked.estimator, asked.services) if attribute.group_users else None
            yield Planned(
                attribute=name,
                estimate=estimate,
                estimator=asked.estimator,
                quantity=expected.quantity,
                users=users,
                error=most,
                least_error=least,
                users_for_error=None if error is None else expected.users_for(error),
                source=expected.source,
                one_percent_fake=None if moved is None else 0.01 * moved * crowd,
            )


def detailed(study: Study, line: Planned) -> Planned:
    """A line with the detail of the distribution of numbers that its reports can show."""
    attribute = study.attribute(line.attribute)
    asked, summary = (
        study.described(line.attribute).estimates[line.estimate],
        study.described(line.attribute).summary,
    )
    # The others estimate a mean, and no distribution.
    if not isinstance(attribute.domain, Numeric) or asked.estimator in OF_UNBIASED_REPORTS:
        return line
    # A person answers one coordinate of a vector.
    people = line.users // sum(attribute_of(name) == attribute_of(line.attribute) for name in study.estimated)
    reports = {attribute.newest(service): people for service in asked.services}
    quantiles = tuple(sorted({0.5, *summary.quantiles}))
    wanted = replace(asked.intervals or WantedIntervals(), quantiles=quantiles, ranges=summary.ranges)
    expected = expected_intervals(attribute, reports, wanted)
    if (ends := expected.ends.get("certain")) is None:
        return line
    names = [f"quantile {quantile}" for quantile in quantiles]
    names += [f"share from {as_text(low)} to {as_text(high)}" for low, high in summary.ranges]
    columns = [ends[part].columns for part in ("quantiles", "ranges") if part in ends]
    widths = np.diff(np.concatenate(columns), axis=1)[:, 0].tolist()
    return replace(
        line,
        finest_detail=float(
            np.ptp(attribute.domain.to_unit(ends["quantiles"].columns[quantiles.index(0.5)]))
        ),
        certain_widths=dict(zip(names, widths, strict=True)),
    )
