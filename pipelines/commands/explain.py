"""``ldpbeam explain``: what will happen, in numbered plain sentences, from the objects that will run."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from ldpbeam.attributes import MOST_JOINT_CELLS, Attribute
from ldpbeam.domains import Categories, KeyValues, Numeric, Vector
from ldpbeam.estimators import registered_estimators
from ldpbeam.mechanisms import Mechanism, SampledCoordinate
from ldpbeam.pipelines.runs.costs import slow_parts
from ldpbeam.study import Service, Study, StudyAttribute, attribute_of
from ldpbeam.times import format_duration, rfc3339
from ldpbeam.windows import FAR


def explain(study: Study) -> list[str]:
    """The sentences, in the order data passes."""
    sentences = [
        f"Study {study.name!r} estimates {_count(len(study.attributes), 'attribute')}: "
        f"{', '.join(study.attributes)}."
    ]
    for name, model in study.attributes.items():
        sentences += _collection(study.attribute(name), model)
    sentences.append(_windows(study))
    sentences.append(_duplicates(study))
    if study.groups:
        sentences.append(
            f"Estimates are made for each value of the field {study.groups.field!r}, a user's reports "
            f"joined within it; the {study.groups.at_most} with the most reports stand alone, the rest "
            "are added up."
        )
    for name, model in study.attributes.items():
        if isinstance(study.attribute(name).domain, Vector):
            sentences.append(_coordinates(study, name))
        # Coordinates differ in their names alone: one stands for all.
        estimated = study.attribute(next(n for n in study.estimated if attribute_of(n) == name))
        sentences += _statistics(estimated)
        sentences += _estimates(estimated, model)
    sentences += slow_parts(study)
    sentences += _privacy(study)
    return sentences


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def _collection(attribute: Attribute, model: StudyAttribute) -> Iterator[str]:
    yield f"{attribute.name!r} is {_kind(attribute)}."
    for version in attribute.versions:
        mechanism = version.mechanism
        yield (
            f"Service {version.label!r} of {attribute.name!r} runs {_run_by(mechanism)} with epsilon "
            f"{mechanism.epsilon:g}{_delta(mechanism)}: a report is {mechanism.output()}"
            f"{_told_apart(model.services[version.service], version.version)}."
        )


def _kind(attribute: Attribute) -> str:
    domain = attribute.domain
    if isinstance(domain, Categories):
        return f"one of {domain.size} categories"
    numbers = domain if isinstance(domain, Numeric) else domain.values
    within = f"[{numbers.low:g}, {numbers.high:g}]"
    if isinstance(domain, KeyValues):
        return f"any of {domain.size} keys a person, each with a number in {within}"
    buckets = f"estimated in {attribute.buckets} buckets of {numbers.width / attribute.buckets:.4g}"
    if isinstance(domain, Vector):
        return f"{domain.size} numbers a person, each in {within} and {buckets}"
    return f"a number in {within}, {buckets}"


def _coordinates(study: Study, name: str) -> str:
    names = [own for own in study.estimated if attribute_of(own) == name]
    return (
        f"Each person reports one coordinate of {name!r}, drawn evenly, with the whole epsilon; each of the "
        f"{len(names)} coordinates, {names[0]!r} to {names[-1]!r}, has a statistic and estimates of its own:"
    )


def _told_apart(service: Service, version: str) -> str:
    if not service.versions:
        return ""
    if service.version_field:
        values = service.versions[version].values
        return f"; told by {service.version_field!r} being {' or '.join(values)}"
    span = service.versions[version].span
    since = f" from {rfc3339(span.start)} on" if span.start > -FAR else ""
    until = f" before {rfc3339(span.stop)}" if span.stop < FAR else ""
    return f"; told by an event time{since}{' and' if since and until else ''}{until}"


def _run_by(mechanism: Mechanism) -> str:
    if isinstance(mechanism, SampledCoordinate):
        return f"{mechanism.inner.name}, on a sampled coordinate,"
    return mechanism.name


def _delta(mechanism: Mechanism) -> str:
    return f" and delta {mechanism.delta:g}" if mechanism.delta else ""


def _windows(study: Study) -> str:
    if study.windows is None:
        return "There are no windows: all reports are one."
    windows = study.windows
    sliding = f", one starting every {format_duration(windows.period)}" if windows.slides else ""
    early = (
        f", and an early estimate of a window comes each time {windows.early_reports:,} more of its reports "
        "are in"
        if windows.early_reports
        else ""
    )
    return (
        f"Reports are cut by event time into windows of {format_duration(windows.size)}{sliding}; in a "
        f"stream they may be up to {format_duration(windows.allowed_lateness)} late{early}."
    )


def _duplicates(study: Study) -> str:
    if study.duplicates == "keep":
        return "Every report counts: none is compared with another, and users are not counted."
    if study.repeats == "all":
        return (
            "Of reports with one report id in a service the first counts; a user may count more than "
            "once a window, so users are not counted."
        )
    return (
        "Of a user's reports to a service in a window, and of reports with one report id in a "
        "service, the first by event time counts; the others are counted as duplicates."
    )


def _statistics(attribute: Attribute) -> Iterator[str]:
    cells = sum(v.mechanism.histogram_cells(attribute.buckets) for v in attribute.versions)
    yield (
        f"The statistic of {attribute.name!r} has {_count(cells, 'count')} in "
        f"{_count(len(attribute.versions), 'histogram')}, and exact sums; statistics merge without "
        f"the reports (fingerprint {attribute.fingerprint[:8]})."
    )
    if attribute.joint_services:
        joint = math.prod(attribute.joint_shape)
        bound = (
            "so its size is bounded"
            if joint <= MOST_JOINT_CELLS
            else f"more than {MOST_JOINT_CELLS:,}, so it may grow with the users and the solver is slow: "
            "lower joint_buckets"
        )
        yield (
            f"The reports of {', '.join(attribute.joint_services)} are joined by user into a joint "
            f"histogram of {' x '.join(map(str, attribute.joint_shape))} = {joint:,} cells, {bound}."
        )


def _estimates(attribute: Attribute, model: StudyAttribute) -> Iterator[str]:
    for name, wanted in model.estimates.items():
        services = ", ".join(wanted.services)
        estimator = registered_estimators()[wanted.estimator]
        options = "".join(f", {key} {value}" for key, value in wanted.options.items())
        yield (
            f"Estimate {name!r} of {attribute.name!r} is {wanted.estimator} ({estimator.summary}) "
            f"from {services}{options}."
        )


def _privacy(study: Study) -> Iterator[str]:
    for name in study.attributes:
        attribute = study.attribute(name)
        worst = {
            service: max(attribute.versions[i].mechanism.epsilon for i in attribute.versions_of([service]))
            for service in attribute.services
        }
        total = float(np.sum(list(worst.values())))
        delta = sum(version.mechanism.delta for version in attribute.versions)
        yield (
            f"A user who reports {name!r} to every service spends epsilon {total:g}"
            f"{f' and delta {delta:g}' if delta else ''} in all"
            f"{' a window' if study.windows else ''}; {_ledger(study)}."
        )


def _ledger(study: Study) -> str:
    if study.group_users:
        cap = f", and who is over {study.epsilon_cap:g}" if study.epsilon_cap else ""
        return f"the ledger counts who spent how much{cap}"
    reason = "duplicates: keep" if study.duplicates == "keep" else "repeats: all"
    cap = f", and epsilon_cap {study.epsilon_cap:g} is not checked" if study.epsilon_cap else ""
    return f"the ledger stays empty{cap}, because {reason} brings no user's reports together"
