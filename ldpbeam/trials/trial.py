"""One trial: people report to all services, and the estimates are compared with their values."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpbeam.answers.people import People
from ldpbeam.answers.solve import answers
from ldpbeam.answers.truth import errors_of, errors_of_pair, errors_of_papers, truth_of
from ldpbeam.attributes import Attribute
from ldpbeam.domains import Categories, Domain, KeyValuePairs, Numeric, Pair, Vector
from ldpbeam.schemas.outputs.estimates import estimate_record
from ldpbeam.schemas.outputs.snapshots import Snapshot
from ldpbeam.statistics import Answers, Statistic, merge, tally
from ldpbeam.study import Study
from ldpbeam.trials.populations import drawn

#: The number of people who report at once, which limits the memory of a trial's reports.
AT_ONCE = 250_000


def untried(attribute: Attribute) -> str | None:
    """Why an attribute cannot be tried, in words; None if it can."""
    if isinstance(attribute.domain, Vector):
        return "vectors are not simulated"
    if any(v.mechanism.round > 1 for v in attribute.versions):
        return "a later round of privkvm needs the means of the round before"
    return None


#: A function that draws the values of a number of people, on the mechanisms' scale.
Draw = Callable[[int, np.random.Generator], NDArray[Any] | KeyValuePairs]


def of_population(study: Study, name: str, population: str) -> Draw:
    """Draws from a named population (:func:`ldpbeam.trials.populations.drawn`)."""
    return functools.partial(drawn, population, study.attribute(name).domain)


def trial(study: Study, name: str, draw: Draw, users: int, seed: int) -> dict[str, dict[str, float]]:
    """The errors of each estimate of an attribute, by the estimate's name.

    Everybody reports to the last version of every service.

    Args:
        study: the study.
        name: an attribute for which :func:`untried` is None.
        draw: draws the people.
        users: the number of people, one or more.
        seed: the seed of people and reports.

    Returns:
        The errors of :func:`~ldpbeam.answers.truth.errors_of` and
        :func:`~ldpbeam.answers.truth.errors_of_papers`; for a pair those of
        :func:`~ldpbeam.answers.truth.errors_of_pair`.
    """
    attribute = study.attribute(name)
    # Without windows, places have no names.
    described = {key: replace(value, candidates=None) for key, value in study.attributes.items()}
    study = replace(study, attributes=described)
    rng = np.random.default_rng(seed)
    values = draw(users, rng)
    statistic = merge(_parts(attribute, values, rng))
    snapshot, summary = Snapshot(name, None, None, 0, statistic), study.described(name).summary
    estimates = answers(study, snapshot, with_intervals=False)
    if isinstance(attribute.domain, Pair):
        true = [
            side.from_unit(column) if isinstance(side, Numeric) else column
            for side, column in zip(attribute.domain.sides, _columns(attribute.domain, values), strict=True)
        ]
        return {key: errors_of_pair(answer.pair, *true) for key, answer in estimates.items() if answer.pair}
    if isinstance(attribute.domain, Numeric) and not isinstance(values, KeyValuePairs):
        values = attribute.domain.nearest(attribute.domain.from_unit(values))
    people = People(values, None, None, None, 0, 0)
    truth = truth_of(study, name, None, None, people)
    assert truth is not None
    return {
        estimate: errors_of(estimate_record(study, snapshot, estimate, answer), study, people)
        | errors_of_papers(answer, summary, truth, attribute.domain)
        for estimate, answer in estimates.items()
    }


def _parts(
    attribute: Attribute, values: NDArray[Any] | KeyValuePairs, rng: np.random.Generator
) -> Iterator[Statistic]:
    """The statistics of the reports of :data:`AT_ONCE` people each."""
    of_first = attribute.sides[0] if isinstance(attribute.domain, Pair) else attribute
    newest = [
        (index, attribute.versions[index].mechanism, index >= len(of_first.versions))
        for index in map(attribute.newest, attribute.services)
    ]
    for first in range(0, len(values), AT_ONCE):
        people = np.arange(first, min(first + AT_ONCE, len(values)))
        columns = _columns(attribute.domain, values[people])
        answers = [
            Answers(index, people - first, mechanism.perturb(columns[side], rng))
            for index, mechanism, side in newest
        ]
        yield tally(attribute, len(people), answers)


def _columns(domain: Domain, values: Any) -> list[Any]:
    """The values of both attributes of a pair, with categories as whole numbers; else the values alone."""
    if not isinstance(domain, Pair):
        return [values]
    return [
        column.astype(np.int64) if isinstance(side, Categories) else column
        for side, column in zip(domain.sides, values.T, strict=True)
    ]
