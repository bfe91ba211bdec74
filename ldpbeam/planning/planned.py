"""Plans: the errors that estimates of a study will have, by formula or by simulation."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ldpbeam.domains import Floats, KeyValues, Numeric, as_text
from ldpbeam.intervals.answer import WantedIntervals
from ldpbeam.intervals.finest_detail import expected_intervals
from ldpbeam.planning.influence import influence
from ldpbeam.planning.planning_options import MOST_SIMULATED
from ldpbeam.planning.precision import OF_UNBIASED_REPORTS, precision
from ldpbeam.study import Study, attribute_of
from ldpbeam.trials.trial import of_population, trial

#: The search for a number of people starts at FIRST, and multiplies by FACTOR.
FIRST, FACTOR = 1_000, 4
#: The most people that the search simulates.
LAST = FIRST * FACTOR ** int(math.log(MOST_SIMULATED / FIRST, FACTOR))

#: The quantity of each kind of error of a simulation.
SIMULATED = {
    "wasserstein": "W1",
    "mean": "mean",
    "mean_absolute_error": "shares",
    "key_mean_error": "key means",
    "correlation": "correlation",
    "conditional_shares": "conditional shares",
}
#: Keys have frequencies, which do not add up to one.
SIMULATED_KEYS = {**SIMULATED, "mean_absolute_error": "frequencies"}


@dataclass(frozen=True)
class Planned:
    """One line of a plan: the error of one quantity of one estimate.

    Attributes:
        attribute: the attribute, or ``attribute.coordinate`` of a vector.
        estimate: the estimate's name in the study.
        estimator: its estimator.
        quantity: what the error is of.
        population: the population of a simulation, or that of the greatest error if several were simulated;
            ``any`` for a formula.
        users: how many people report.
        error: the error with these people: a standard error, or the mean of simulated errors.
        least_error: the same for the most favourable population; None if one population was simulated.
        uncertainty: the standard error of ``error``; None where it is computed.
        users_for_error: how many people the wanted error needs; None without a wanted error, if more than
            10,000,000 people had to be simulated, or if a formula gives more than 1,000,000,000,000.
        source: how the error was found.
        one_percent_fake: the most by which a share of 1% of fake users moves the estimate, in the unit of the
            error; m of n fake users move it by 100 m/n times that. None if there is no such bound, as where a
            user may count several times, or if there are too many categories to compute it.
        finest_detail: the finest detail of numbers that the reports show, as a part of the range; None for
            others, and where it is not known.
        certain_widths: how wide the certain intervals of quantiles and of ranges are expected to be, by name.
    """

    attribute: str
    estimate: str
    estimator: str
    quantity: str
    population: str
    users: int
    error: float
    least_error: float | None
    uncertainty: float | None
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
        users: how many people report.
        error: also say how many people this error needs; None for not.
    """
    for name in study.estimated:
        if attribute_of(name) not in wanted:
            continue
        for estimate, asked in study.described(name).estimates.items():
            expected = precision(study.attribute(name), asked.estimator, asked.services)
            if expected is not None:
                # Honest people draw a coordinate, and fake users can all name the same one.
                crowd = sum(attribute_of(other) == attribute_of(name) for other in study.estimated)
                root = math.sqrt(crowd)
                expected = replace(expected, best=root * expected.best, worst=root * expected.worst)
                least, most = expected.error(users)
                enough = None if error is None else expected.users_for(error)
                # A user who counts several times has no bound.
                moved = (
                    influence(study.attribute(name), asked.estimator, asked.services)
                    if study.attribute(name).group_users
                    else None
                )
                yield Planned(
                    name, estimate, asked.estimator, expected.quantity, "any", users, most, least, None,
                    enough, expected.source, None if moved is None else 0.01 * moved * crowd,
                )  # fmt: skip


def detailed(study: Study, line: Planned) -> Planned:
    """A line with what the estimate's reports show of the distribution of numbers."""
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


def simulated(
    study: Study, name: str, populations: Sequence[str], users: int, error: float | None, seeds: range
) -> Iterator[Planned]:
    """The mean errors of trials, one per seed: the greatest of some populations.

    People of a population of keys have, on average, at most half as many keys as the padding of the study's
    mechanisms: who uses padding takes one that few people exceed.

    Args:
        study: the study.
        name: an attribute that can be tried.
        populations: the names of populations that the attribute's domain can have, one or more.
        users: how many people report.
        error: also say how many people this error needs; None for not.
        seeds: the seeds of the trials, two or more.
    """
    attribute = study.attribute(name)
    paddings = [getattr(version.mechanism, "padding", math.inf) for version in attribute.versions]
    of_keys = isinstance(attribute.domain, KeyValues)

    @functools.cache
    def errors(population: str, people: int) -> dict[tuple[str, str], Floats]:
        """The absolute errors of the trials, by estimate and kind of error, if two or more trials have it."""
        draw = of_population(study, name, population, 0.5 * min(paddings))
        of_trials: dict[tuple[str, str], list[float]] = {}
        for seed in seeds:
            for estimate, kinds in trial(study, name, draw, people, seed).items():
                for kind, off in kinds.items():
                    if kind in SIMULATED:
                        of_trials.setdefault((estimate, kind), []).append(abs(off))
        return {of: np.array(sizes) for of, sizes in of_trials.items() if len(sizes) > 1}

    def greatest(of: tuple[str, str], people: int) -> float:
        of_populations = [errors(population, people).get(of) for population in populations]
        return max(math.inf if sizes is None else float(sizes.mean()) for sizes in of_populations)

    # An estimate may have no mean of some people: where all shares are cut to zero.
    for shown_error in {of: None for population in populations for of in errors(population, users)}:
        estimate, kind = shown_error
        means = {
            population: float(errors(population, users)[shown_error].mean())
            for population in populations
            if shown_error in errors(population, users)
        }
        population = max(means, key=means.__getitem__)
        shown_errors = errors(population, users)[shown_error]
        enough = None if error is None else _enough(functools.partial(greatest, shown_error), error)
        yield Planned(
            attribute=name,
            estimate=estimate,
            estimator=study.described(name).estimates[estimate].estimator,
            quantity=(SIMULATED_KEYS if of_keys else SIMULATED)[kind],
            population=population,
            users=users,
            error=means[population],
            least_error=min(means.values()) if len(means) > 1 else None,
            uncertainty=float(shown_errors.std(ddof=1) / math.sqrt(len(shown_errors))),
            users_for_error=enough,
            source=f"{len(seeds)} simulations of each of {', '.join(means)}",
        )


def _enough(error: Callable[[int], float], wanted: float) -> int | None:
    """The people that an error of ``wanted`` needs, between two simulated numbers of people on a power law.

    None if :data:`LAST` people have a larger error.
    """
    users, before = FIRST, error(FIRST)
    if before <= wanted:
        return FIRST
    while users < LAST:
        now = error(users * FACTOR)
        if now <= wanted:
            if before == math.inf:
                return users * FACTOR
            share = math.log(before / wanted) / math.log(before / now)
            enough: float = users * FACTOR**share
            return math.ceil(enough)
        users, before = users * FACTOR, now
    return None
