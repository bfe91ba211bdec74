"""``ldpbeam explain``: what will happen, in numbered plain sentences, from the objects that will run."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from ldpbeam.attributes import MOST_JOINT_CELLS, Attribute
from ldpbeam.domains import Numeric
from ldpbeam.estimators import ESTIMATORS
from ldpbeam.schemas.study import AttributeModel, ServiceModel, Study
from ldpbeam.schemas.times import format_duration, rfc3339


def explain(study: Study) -> list[str]:
    """The sentences, in the order data passes."""
    sentences = [
        f"Study {study.study!r} estimates {_count(len(study.attributes), 'attribute')}: "
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
        sentences += _statistics(study, study.attribute(name))
        sentences += _estimates(study.attribute(name), model)
    sentences += _privacy(study)
    return sentences


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def _collection(attribute: Attribute, model: AttributeModel) -> Iterator[str]:
    if isinstance(attribute.domain, Numeric):
        kind = (
            f"a number in [{attribute.domain.low:g}, {attribute.domain.high:g}], "
            f"estimated in {attribute.buckets} buckets of {attribute.domain.width / attribute.buckets:.4g}"
        )
    else:
        kind = f"one of {attribute.domain.size} categories"
    yield f"{attribute.name!r} is {kind}."
    for version in attribute.versions:
        mechanism = version.mechanism
        yield (
            f"Service {version.label!r} of {attribute.name!r} runs {mechanism.name} with epsilon "
            f"{mechanism.epsilon:g}: a report is {mechanism.output()}"
            f"{_told_apart(model.services[version.service], version.version)}."
        )


def _told_apart(service: ServiceModel, version: str) -> str:
    if not service.versions:
        return ""
    if service.version_field:
        values = service.versions[version].values or [version]
        return f"; told by {service.version_field!r} being {' or '.join(values)}"
    own = service.versions[version]
    since = f" from {rfc3339(own.since)} on" if own.since is not None else ""
    until = f" before {rfc3339(own.until)}" if own.until is not None else ""
    return f"; told by an event time{since}{' and' if since and until else ''}{until}"


def _windows(study: Study) -> str:
    if study.windows is None:
        return "There are no windows: all reports are one."
    size, period = study.windows.size, study.windows.period
    sliding = f", one starting every {format_duration(period)}" if period and period != size else ""
    return (
        f"Reports are cut by event time into windows of {format_duration(size)}{sliding}; in a stream "
        f"they may be up to {format_duration(study.windows.allowed_lateness)} late."
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


def _statistics(study: Study, attribute: Attribute) -> Iterator[str]:
    cells = sum(v.mechanism.cells(attribute.buckets) for v in attribute.versions)
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


def _estimates(attribute: Attribute, model: AttributeModel) -> Iterator[str]:
    for name, wanted in model.estimates.items():
        services = ", ".join(wanted.services or attribute.services)
        estimator = ESTIMATORS[wanted.estimator]
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
        yield (
            f"A user who reports {name!r} to every service spends epsilon {total:g} in all"
            f"{' a window' if study.windows else ''}; the ledger counts who spent how much"
            f"{f', and who is over {study.epsilon_cap:g}' if study.epsilon_cap else ''}."
        )
