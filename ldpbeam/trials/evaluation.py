"""Evaluations: many trials over populations, epsilons and numbers of people, on all cores."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpbeam.answers.child import limit_blas
from ldpbeam.domains import KeyValuePairs, Pair
from ldpbeam.errors import StudyError, meant_or_known
from ldpbeam.estimators.solving import check
from ldpbeam.processes import results_of
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.study import Study
from ldpbeam.trials.populations import names_for
from ldpbeam.trials.trial import Draw, of_population, trial, untried

#: The name of the population that is drawn from a file.
DATA = "data"


class Case(NamedTuple):
    """One trial of an evaluation.

    Attributes:
        population: the name of a population, or :data:`DATA`.
        mechanism: the mechanism of every service; None for those of the study.
        epsilon: the epsilon of every service; None for those of the study.
        users: the number of people who report.
        seed: the seed of people and reports.
    """

    population: str
    mechanism: str | None
    epsilon: float | None
    users: int
    seed: int


@dataclass(frozen=True)
class Evaluation:
    """The plan of an evaluation.

    Attributes:
        attribute: the attribute's name.
        studies: the study for each mechanism and epsilon; None stands for those of the study.
        draws: a function that draws people, by the population's name.
        cases: all trials, in the order of the table.
    """

    attribute: str
    studies: Mapping[tuple[str | None, float | None], Study]
    draws: Mapping[str, Draw]
    cases: Sequence[Case]

    def study(self, case: Case) -> Study:
        """The study of a trial."""
        return self.studies[case.mechanism, case.epsilon]


#: The errors of one trial: by the estimate's name, then by the kind of error.
Errors = Mapping[str, Mapping[str, float]]


def _resampled(
    values: NDArray[Any] | KeyValuePairs, people: int, rng: np.random.Generator
) -> NDArray[Any] | KeyValuePairs:
    """People drawn with replacement from those of a file."""
    return values[rng.integers(0, len(values), people)]


def study_with(
    study: Study,
    attribute: str,
    *,
    mechanism: str | None = None,
    epsilon: float | None = None,
    estimators: Sequence[str] = (),
) -> Study:
    """The study with changes of one attribute or pair.

    Args:
        study: the study.
        attribute: the name of the attribute, or of a pair, of which only the epsilon can change.
        mechanism: the mechanism for every service, with fresh noise, default options and the epsilon of the
            service's last version; None for no change.
        epsilon: the epsilon for every service and version; None for no change.
        estimators: one estimate by each of these; empty for no change.

    Raises:
        StudyError: if the changed study is invalid.
    """
    data, old = json.loads(study.text), study.attribute(attribute)
    attributes, changed = data["attributes"], []
    if estimators:
        attributes[attribute]["estimates"] = {name: {"estimator": name} for name in estimators}
    if mechanism is not None:
        changed.append(f"mechanism {mechanism}")
        attributes[attribute]["services"] = {
            service: {"mechanism": mechanism, "epsilon": old.versions[old.newest(service)].named.epsilon}
            for service in old.services
        }
    if epsilon is not None:
        changed.append(f"epsilon {epsilon:g}")
        names = old.domain.names if isinstance(old.domain, Pair) else (attribute,)
        for service in (service for name in names for service in attributes[name]["services"].values()):
            service["epsilon"] = epsilon
            for version in (service.get("versions") or {}).values():
                if version and "epsilon" in version:
                    version["epsilon"] = epsilon
    try:
        return parse_study(json.dumps(data, ensure_ascii=False), "study")
    except StudyError as error:
        # The line number counts lines of the changed study, which the user does not have.
        problem = re.sub(r"^study(:\d+)?: ", "", str(error).splitlines()[0])
        raise StudyError(f"{', '.join(changed)}: {problem}") from None


def evaluation(
    study: Study,
    name: str,
    *,
    users: Sequence[int],
    seeds: range,
    populations: Sequence[str] = (),
    values: NDArray[Any] | KeyValuePairs | None = None,
    epsilons: Sequence[float] = (),
    mechanisms: Sequence[str] = (),
    estimators: Sequence[str] = (),
) -> Evaluation:
    """An evaluation of a study's attribute.

    Args:
        study: the study.
        name: an attribute of :func:`attribute_in`.
        users: numbers of people.
        seeds: the seeds of the trials.
        populations: names of populations; empty for all of them, or for none if there are values.
        values: the values of people to draw from, on the mechanisms' scale; None for none.
        epsilons: the epsilons to try for all services; empty for those of the study.
        mechanisms: the mechanisms to try for all services; empty for those of the study.
        estimators: the estimators to use instead of the study's estimates; empty for these.

    Raises:
        StudyError: if the study, or its attribute, does not allow what is asked.
    """
    compiled = study.attribute(name)
    if isinstance(compiled.domain, Pair) and (mechanisms or estimators):
        raise StudyError(f"{name!r} is a pair: other epsilons can be tried, and its attributes each alone")
    # If other mechanisms cannot be tried, their studies are refused below.
    for estimator in () if mechanisms else estimators:
        try:
            check(estimator, compiled, compiled.services, {})
        except ValueError as error:
            raise StudyError(f"estimator {estimator}: {error}") from None
    for epsilon in epsilons:
        if not 0.0 < epsilon < math.inf:
            raise StudyError(f"epsilon {epsilon:g}: a number above 0")
    can_have = names_for(compiled.domain)
    for population in populations:
        if population not in can_have:
            raise StudyError(f"population {population}: {name!r} can have {', '.join(can_have)}")
    studies = {
        (mechanism, epsilon): study_with(
            study, name, mechanism=mechanism, epsilon=epsilon, estimators=estimators
        )
        for mechanism in mechanisms or (None,)
        for epsilon in [*map(float, epsilons)] or (None,)
    }
    if not populations and values is None:
        populations = list(can_have)
    draws: dict[str, Draw] = {people: of_population(study, name, people) for people in populations}
    if values is not None:
        draws[DATA] = partial(_resampled, values)
    cases = [
        Case(population, mechanism, epsilon, count, seed)
        for population in draws
        for mechanism, epsilon in studies
        for count in dict.fromkeys(users)
        for seed in seeds
    ]
    return Evaluation(name, studies, draws, cases)


def attribute_in(study: Study, asked: str | None) -> str:
    """The name of the attribute to evaluate.

    Raises:
        StudyError: if none is asked for and there are several, if there is no such attribute, or if it cannot
            be tried.
    """
    if asked is None and len(study.attributes) > 1:
        raise StudyError(f"the attribute is missing: the study has {', '.join(study.attributes)}")
    name = asked or next(iter(study.attributes))
    if name not in study.described_names:
        raise StudyError(
            f"the study has no attribute {name!r}; {meant_or_known(name, study.described_names)}"
        )
    reason = untried(study.attribute(name))
    if reason is not None:
        raise StudyError(f"{name!r} cannot be evaluated: {reason}")
    return name


def run(wanted: Evaluation, processes: int, done: Callable[[int], None] = lambda _: None) -> list[Errors]:
    """The results of all trials, in the order of the cases.

    Args:
        wanted: the evaluation.
        processes: the number of processes, one or more.
        done: called after each trial with the number of trials done.

    Raises:
        UserError: if a process was killed.
    """
    by_case: dict[Case, Errors] = {}
    for case, errors in _computed(wanted, processes):
        by_case[case] = errors
        done(len(by_case))
    return [by_case[case] for case in wanted.cases]


def _one(given: Evaluation, case: Case) -> Errors:
    limit_blas()
    return trial(given.study(case), given.attribute, given.draws[case.population], case.users, case.seed)


def _computed(wanted: Evaluation, processes: int) -> Iterator[tuple[Case, Errors]]:
    """Each case and its errors, as they are ready."""
    cases = wanted.cases
    if processes == 1 or len(cases) < 2:
        for case in cases:
            yield case, _one(wanted, case)
        return
    # The largest come first, so that no process is alone with one at the end.
    largest = sorted(cases, key=lambda case: -case.users)
    with closing(results_of(_one, wanted, largest, min(processes, len(cases)))) as computed:
        for index, errors in computed:
            yield largest[index], errors


def summarised(wanted: Evaluation, results: Iterable[Errors]) -> list[dict[str, Any]]:
    """The rows of the table: the average of each kind of absolute error over seeds, with its standard error.

    Returns:
        Dictionaries with population, mechanism, epsilon, users, estimate, estimator, services, error (its
        kind), average, standard_error and trials.
    """
    values: dict[tuple[Case, str, str], list[float]] = {}
    for case, by_estimate in zip(wanted.cases, results, strict=True):
        for estimate, errors in by_estimate.items():
            for kind, value in errors.items():
                values.setdefault((case._replace(seed=0), estimate, kind), []).append(value)
    rows = []
    for (case, estimate, kind), errors_of_seeds in values.items():
        study = wanted.study(case)
        how = study.described(wanted.attribute).estimates[estimate]
        compiled = study.attribute(wanted.attribute)
        # Pairs of three or more attributes are described together.
        services = [service for service in how.services if service in compiled.services]
        named = [compiled.versions[compiled.newest(service)].named.name for service in services]
        sizes = np.abs(errors_of_seeds)
        spread = float(sizes.std(ddof=1) / np.sqrt(len(sizes))) if len(sizes) > 1 else None
        rows.append(
            {
                "population": case.population,
                "mechanism": case.mechanism or " ".join(named),
                "epsilon": case.epsilon,
                "users": case.users,
                "estimate": estimate,
                "estimator": how.estimator,
                "services": " ".join(services),
                "error": kind,
                "average": float(sizes.mean()),
                "standard_error": spread,
                "trials": len(sizes),
            }
        )
    return rows
