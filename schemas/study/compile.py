"""From the models of a study file to the study that workers and drivers share."""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Mapping, Sequence

from ldpbeam.attributes import Attribute
from ldpbeam.cells import Cells, clock_of, moment
from ldpbeam.domains import Categories, KeyValues, Numeric
from ldpbeam.estimators import check
from ldpbeam.intervals.answer import WantedIntervals
from ldpbeam.memoised.panels import Panel
from ldpbeam.schemas.study.compile_attribute import compile_attribute
from ldpbeam.schemas.study.models import AttributeModel, StudyModel
from ldpbeam.schemas.study.pairs import compile_pairs
from ldpbeam.schemas.study.service_models import ServiceModel, VersionModel
from ldpbeam.schemas.study.users import check_joined, check_users
from ldpbeam.study import (
    FEWEST_USERS,
    MOST_REPORTS,
    Groups,
    LedgerPeriod,
    Publish,
    Service,
    Study,
    StudyAttribute,
    Summary,
    Version,
    WantedEstimate,
    attribute_of,
)
from ldpbeam.times import format_duration, months_in
from ldpbeam.windows import check_calendar

#: Intervals for every look at early panes are narrowest at this look: from the 7th to the 500th, they are at
#: most 1.7 times as wide as those of one look.
LOOKS = 30


def compile_study(model: StudyModel, folder: str = "") -> Study:
    """The study that a file describes; other files are named from its folder.

    Raises:
        ValueError: if a mechanism or an estimator does not fit, or a joint histogram cannot be; the text
            begins with the place in the file.
    """
    check_users(model)
    if model.most_reports and (model.duplicates == "keep" or model.repeats == "first"):
        raise ValueError("most_reports: it needs duplicates: drop and repeats: all")
    _check_places(model)
    described = {name: _described(attribute, model, folder) for name, attribute in model.attributes.items()}
    compiled = {
        attribute.name: attribute
        for name, described in model.attributes.items()
        for attribute in compile_attribute(name, described, model)
    }
    study = Study(
        name=model.study,
        attributes=described,
        compiled=compiled | {pair.name: pair for pair in compile_pairs(model, compiled)},
        fingerprint=_fingerprint(model),
        pairs={key: _of_pair(model, names, described) for key, names in (model.pairs or {}).items()},
        windows=None if model.windows is None else model.windows.windows,
        groups=None if model.groups is None else Groups(model.groups.field, model.groups.at_most),
        publish=_publish(model),
        panel=_panel(model),
        duplicates=model.duplicates,
        repeats=model.repeats,
        most_reports=model.most_reports or MOST_REPORTS,
        epsilon_cap=model.epsilon_cap,
        ledger=_ledger(model),
        local=None if model.zone is None else clock_of(model.zone),
        clock=None if model.windows is None else model.windows.windows.clock,
        events=_events(model),
        text=model.model_dump_json(exclude_unset=True),
    )
    check_joined(study)
    for name in (name for name in study.estimated if not study.is_pair(name)):
        _check_estimates(study.attribute(name), study.described(name))
    return study


def _fingerprint(model: StudyModel) -> str:
    """A hash of all that is estimated; defaults that came later change nothing of it."""
    later = ("intervals", "publish")
    unsaid = {name for name in later if getattr(model, name) == StudyModel.model_fields[name].default}
    unsaid.add("events")
    return hashlib.sha256(model.model_dump_json(exclude=unsaid).encode()).hexdigest()[:32]


def _events(model: StudyModel) -> dict[str, int]:
    """The times of events, in epoch milliseconds; without a zone they are of the zone of the windows.

    Raises:
        ValueError: if one is no time.
    """
    clock = None if model.windows is None else model.windows.windows.clock
    times = {}
    for name, text in (model.events or {}).items():
        try:
            times[name] = moment(text, clock)
        except ValueError:
            raise ValueError(
                f"events.{name}: write a date, or a time with its zone, found {text!r}"
            ) from None
    return times


def _ledger(model: StudyModel) -> LedgerPeriod | None:
    """The periods of the ledger.

    Raises:
        ValueError: if a window could lie in two of them, or there are none of this length in the zone.
    """
    if model.ledger is None:
        return None
    length = model.ledger.period
    if model.windows is None:
        return LedgerPeriod(Cells(length), model.ledger.cap)
    windows = model.windows.windows
    periods, step = windows.cells(length), windows.steps.length
    try:
        check_calendar([length, step], windows.offset, windows.clock)
    except ValueError as error:
        raise ValueError(f"ledger.period: {error}") from None
    try:
        periods.most_in(step)
    except ValueError:
        raise ValueError(
            f"ledger.period must be a multiple of {format_duration(step)}, so that no window lies in two "
            f"periods, found {format_duration(length)}"
        ) from None
    return LedgerPeriod(periods, model.ledger.cap)


def _panel(model: StudyModel) -> Panel | None:
    if model.panel is None:
        return None
    if model.windows is None or model.windows.windows.slides:
        raise ValueError(
            "panel: a user answers one of several windows that do not slide: give windows.size alone"
        )
    windows = model.windows.windows
    if windows.clock or windows.offset or months_in(windows.size):
        raise ValueError(
            "panel: clients find the window of a user without a calendar: leave out windows.zone, "
            "windows.offset, month, quarter and year"
        )
    return Panel(model.study, windows.size, model.panel.windows)


def _publish(model: StudyModel) -> Publish:
    """The least number is 1 by default where there are neither windows nor groups: nothing else is left."""
    several = model.windows is not None or model.groups is not None
    at_least = model.publish.at_least
    return Publish((FEWEST_USERS if several else 1) if at_least is None else at_least, model.publish.windows)


def _beside(folder: str, path: str | None) -> str | None:
    """A path as the study says it from its own folder."""
    if path is None or "://" in path:
        return path
    return posixpath.join(folder if "://" in folder else posixpath.abspath(folder), path)


def _intervals(
    study: StudyModel, quantiles: Sequence[float] = (), ranges: Sequence[tuple[float, float]] = ()
) -> WantedIntervals | None:
    intervals = study.intervals
    if intervals is None:
        return None
    if intervals.liars and study.windows is not None and study.windows.joined:
        raise ValueError(
            "intervals.liars: nothing says how many reports of joined windows are a liar's: leave out "
            "windows.joined, or liars"
        )
    early = study.windows.early_reports if study.windows is not None else None
    return WantedIntervals(
        intervals.level,
        intervals.simultaneous,
        tuple(quantiles),
        tuple(ranges),
        intervals.any_look or LOOKS * (early or 0) or WantedIntervals.any_look,
        intervals.liars or 0.0,
        bool(intervals.named_only),
    )


def _described(model: AttributeModel, study: StudyModel, folder: str) -> StudyAttribute:
    wanted_intervals = _intervals(study, model.quantiles, model.ranges)
    return StudyAttribute(
        services={name: _service(service) for name, service in model.services.items()},
        estimates={
            name: WantedEstimate(
                wanted.estimator,
                tuple(wanted.services or model.services),
                wanted.options,
                wanted_intervals,
            )
            for name, wanted in model.estimates.items()
        },
        summary=Summary(tuple(model.quantiles), tuple(model.ranges), model.top),
        candidates=_beside(folder, model.domain.candidates),
        place=_place(model.field),
    )


def _check_places(model: StudyModel) -> None:
    """See that a record has a report to every attribute, in one list, or is one report.

    Raises:
        ValueError: if some attributes have a field, of different lists, or of a service without bits.
    """
    fields = [attribute.field for attribute in model.attributes.values()]
    if not any(fields):
        return
    lists = {(_place(field) or (None,))[0] for field in fields}
    if len(lists) > 1 or len(set(fields)) < len(fields):
        raise ValueError(
            "field: give every attribute its own place in one list, such as values[0], values[1]"
        )
    for name, attribute in model.attributes.items():
        for service, described in attribute.services.items():
            if described.payload != "bits":
                raise ValueError(
                    f"attributes.{name}.services.{service}: a value in a list needs payload: bits"
                )


def _place(field: str | None) -> tuple[str, int] | None:
    """The list and the place that a key ``field`` names."""
    if field is None:
        return None
    name, _, place = field.removesuffix("]").rpartition("[")
    return name, int(place)


def _of_pair(
    model: StudyModel, names: Sequence[str], described: Mapping[str, StudyAttribute]
) -> StudyAttribute:
    """What is said of the pairs of some attributes: their services are called ``attribute/service``."""
    services = {f"{name}/{key}": of for name in names for key, of in described[name].services.items()}
    return StudyAttribute(services, {"auto": WantedEstimate("auto", tuple(services), {}, _intervals(model))})


def _service(model: ServiceModel) -> Service:
    versions = model.each_version if model.versions or model.by_field else {}
    return Service(
        {name: Version(_told_by(model, name, version), version.span) for name, version in versions.items()},
        model.payload or "packed",
    )


def _told_by(model: ServiceModel, name: str, version: VersionModel) -> Mapping[str, tuple[str | float, ...]]:
    """The values of a report's fields that tell a version; none where its event time does."""
    if model.version_field:
        return {model.version_field: tuple(version.values or [name])}
    return {chosen.field: (float(getattr(version, key)),) for key, chosen in model.by_field.items()}


def _check_estimates(attribute: Attribute, described: StudyAttribute) -> None:
    """See that what is asked fits an attribute.

    Raises:
        ValueError: for the first that does not.
    """
    where, domain = f"attributes.{attribute_of(attribute.name)}", attribute.domain
    if described.summary.ranges and isinstance(domain, Categories | KeyValues):
        raise ValueError(f"{where}.ranges: ranges are for numbers; for categories use top")
    values = domain.values if isinstance(domain, Numeric) and domain.step else ()
    if any(low == high and low not in values for low, high in described.summary.ranges):
        raise ValueError(f"{where}.ranges: a range needs low < high, or is one value of a step")
    if described.summary.top and isinstance(domain, Numeric):
        raise ValueError(f"{where}.top: top is for categories or keys; for numbers use ranges")
    for key, wanted in described.estimates.items():
        for service in wanted.services:
            if service not in described.services:
                raise ValueError(
                    f"{where}.estimates.{key}: unknown service {service!r}; there are: "
                    f"{', '.join(described.services)}"
                )
        try:
            check(wanted.estimator, attribute, wanted.services, wanted.options)
        except ValueError as error:
            raise ValueError(f"{where}.estimates.{key}: {error}") from None
