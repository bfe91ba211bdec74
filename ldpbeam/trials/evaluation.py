"""Evaluations: many trials over populations, epsilons and numbers of people, on all cores, resumable."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpbeam.answers.child import limit_blas
from ldpbeam.answers.people import People
from ldpbeam.clients.values import scaled
from ldpbeam.domains import KeyValuePairs
from ldpbeam.errors import StudyError, UserError
from ldpbeam.processes import results_of
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.study import Study
from ldpbeam.trials.trial import Draw, of_population, trial

#: The word for people from a file, in the place of a population's name.
DATA = "data"


class Case(NamedTuple):
    """One trial of an evaluation.

    Attributes:
        population: the name of a population, or :data:`DATA`.
        epsilon: the epsilon of every service; None for the study's own.
        users: how many people report.
        seed: the seed of people and reports.
    """

    population: str
    epsilon: float | None
    users: int
    seed: int


@dataclass(frozen=True)
class Evaluation:
    """What is evaluated.

    Attributes:
        attribute: the attribute's name.
        studies: the study of each epsilon; the key None is for the study's own epsilons.
        draws: how to draw people, by the population's name.
        cases: all trials, in the order of the table.
    """

    attribute: str
    studies: Mapping[float | None, Study]
    draws: Mapping[str, Draw]
    cases: Sequence[Case]

    def key(self, case: Case) -> str:
        """The text under which the result of a trial is kept: equal texts have equal results."""
        of = {"study": self.studies[case.epsilon].fingerprint, "attribute": self.attribute}
        draw = self.draws[case.population]
        people = {"sha256": draw.sha256} if isinstance(draw, Resampled) else {}
        return json.dumps({**of, **case._asdict(), **people})


#: The errors of one trial: by the estimate's name, then by the kind of error.
Errors = Mapping[str, Mapping[str, float]]


class Resampled:
    """Draws people of a file with replacement.

    Attributes:
        values: the people's values, on the mechanisms' scale.
        sha256: the hash of these values in hexadecimal digits.
    """

    def __init__(self, people: People, study: Study, attribute: str) -> None:
        self.values = values = scaled(study.attribute(attribute).domain, people.values)
        arrays: Any = vars(values).values() if isinstance(values, KeyValuePairs) else (values,)
        self.sha256 = hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()

    def __call__(self, people: int, rng: np.random.Generator) -> NDArray[Any] | KeyValuePairs:
        """The values of this many people, on the mechanisms' scale."""
        return self.values[rng.integers(0, len(self.values), people)]


def with_epsilon(text: str, attribute: str, epsilon: float) -> str:
    """The text of a study in which every service and version of an attribute has another epsilon."""
    data = json.loads(parse_study(text).text)
    for service in data["attributes"][attribute]["services"].values():
        service["epsilon"] = epsilon
        for version in (service.get("versions") or {}).values():
            if version and "epsilon" in version:
                version["epsilon"] = epsilon
    return json.dumps(data, ensure_ascii=False)


def with_estimators(text: str, attribute: str, estimators: Sequence[str]) -> str:
    """The text of a study in which an attribute has one estimate by each of these estimators."""
    data = json.loads(parse_study(text).text)
    data["attributes"][attribute]["estimates"] = {name: {"estimator": name} for name in estimators}
    return json.dumps(data, ensure_ascii=False)


def _study_with_epsilon(text: str, attribute: str, epsilon: float) -> Study:
    try:
        return parse_study(with_epsilon(text, attribute, epsilon), "study")
    except StudyError as error:
        # The line number counts lines of the changed study, which the user does not have.
        problem = re.sub(r"^study(:\d+)?: ", "", str(error))
        raise StudyError(f"--epsilon {epsilon:g}: {problem}") from None


def evaluation(
    text: str,
    attribute: str,
    populations: Sequence[str],
    people: People | None,
    epsilons: Sequence[float],
    users: Sequence[int],
    seeds: range,
) -> Evaluation:
    """An evaluation of a study's attribute.

    Args:
        text: the study, YAML.
        attribute: the attribute's name.
        populations: names of populations.
        people: people to draw from beside the populations; None for none.
        epsilons: each is the epsilon of all services in turn; empty for the study's own.
        users: numbers of people.
        seeds: the seeds of the trials.

    Raises:
        StudyError: if the study does not allow one of the epsilons.
    """
    study = parse_study(text)
    studies: dict[float | None, Study] = {
        epsilon: _study_with_epsilon(text, attribute, epsilon) for epsilon in epsilons
    } or {None: study}
    draws: dict[str, Draw] = {name: of_population(study, attribute, name) for name in populations}
    if people is not None:
        draws[DATA] = Resampled(people, study, attribute)
    cases = [
        Case(population, epsilon, count, seed)
        for population in draws
        for epsilon in studies
        for count in dict.fromkeys(users)
        for seed in seeds
    ]
    return Evaluation(attribute, studies, draws, cases)


def run(wanted: Evaluation, kept: Path, processes: int, done: Callable[[int, int], None]) -> list[Errors]:
    """The results of all trials, in the order of the cases.

    Results are written to a file as they come, and those that are in the file are not computed again.

    Args:
        wanted: the evaluation.
        kept: the file of results, JSON lines; it need not exist.
        processes: how many processes compute, one or more.
        done: called after each trial with the number of trials done now and of those left.

    Raises:
        UserError: if a process was killed.
        KeyboardInterrupt: with Ctrl-C; its text says how many results are kept.
    """
    errors_by_key = _read(kept)
    missing = [case for case in wanted.cases if wanted.key(case) not in errors_by_key]
    with kept.open("a", encoding="utf-8") as stream:
        done_now = 0
        try:
            for done_now, (case, errors) in enumerate(_computed(wanted, missing, processes), 1):
                key = wanted.key(case)
                errors_by_key[key] = errors
                stream.write(json.dumps({"key": key, "errors": errors}) + "\n")
                stream.flush()
                done(done_now, len(missing) - done_now)
        except KeyboardInterrupt:
            kept_now = len(wanted.cases) - len(missing) + done_now
            raise KeyboardInterrupt(
                f"{kept_now:,} of {len(wanted.cases):,} trials are kept; the same command computes the rest"
            ) from None
    return [errors_by_key[wanted.key(case)] for case in wanted.cases]


def _read(kept: Path) -> dict[str, Errors]:
    """The results in a file, by key; a last line that was not written to its end is cut off."""
    if not kept.exists():
        return {}
    data = kept.read_bytes()
    end = data.rfind(b"\n") + 1
    if end < len(data):
        # The lines before are not written again: a kill or a full disk would take them.
        os.truncate(kept, end)
    try:
        lines = [json.loads(line) for line in data[:end].splitlines()]
        return {line["key"]: line["errors"] for line in lines}
    except (ValueError, KeyError, TypeError):
        raise UserError(f"{kept}: the file does not hold trials; give another --output") from None


def _one(given: Evaluation, case: Case) -> Errors:
    limit_blas()
    study = given.studies[case.epsilon]
    return trial(study, given.attribute, given.draws[case.population], case.users, case.seed)


def _computed(wanted: Evaluation, cases: Sequence[Case], processes: int) -> Iterator[tuple[Case, Errors]]:
    """Each case and its errors, as they are ready."""
    if processes == 1 or len(cases) < 2:
        for case in cases:
            yield case, _one(wanted, case)
        return
    # The largest first, so that no process is left with one at the end.
    largest = sorted(cases, key=lambda case: -case.users)
    with closing(results_of(_one, wanted, largest, min(processes, len(cases)))) as computed:
        for index, errors in computed:
            yield largest[index], errors


def summarised(wanted: Evaluation, results: Iterable[Errors]) -> list[dict[str, Any]]:
    """The rows of the table: the mean of each kind of absolute error over the seeds, and its standard error.

    Returns:
        Dictionaries with population, epsilon, users, estimate, estimator, services, error (its kind), mean,
        standard_error and trials.
    """
    values: dict[tuple[str, float | None, int, str, str], list[float]] = {}
    for case, by_estimate in zip(wanted.cases, results, strict=True):
        of = case.population, case.epsilon, case.users
        for estimate, errors in by_estimate.items():
            for kind, value in errors.items():
                values.setdefault((*of, estimate, kind), []).append(value)
    rows = []
    for (population, epsilon, users, estimate, kind), errors_of_seeds in values.items():
        how = wanted.studies[epsilon].attributes[wanted.attribute].estimates[estimate]
        sizes = np.abs(errors_of_seeds)
        spread = float(sizes.std(ddof=1) / np.sqrt(len(sizes))) if len(sizes) > 1 else None
        rows.append(
            {
                "population": population,
                "epsilon": epsilon,
                "users": users,
                "estimate": estimate,
                "estimator": how.estimator,
                "services": " ".join(how.services),
                "error": kind,
                "mean": float(sizes.mean()),
                "standard_error": spread,
                "trials": len(sizes),
            }
        )
    return rows
