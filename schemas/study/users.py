"""Studies without users, and windows that are joined by user: what can be asked of either."""

from __future__ import annotations

from collections.abc import Iterator

from ldpbeam.attributes import Attribute
from ldpbeam.domains import Categories, KeyValues, Vector
from ldpbeam.mechanisms import CategoricalMechanism
from ldpbeam.schemas.study.models import AttributeModel, StudyModel
from ldpbeam.schemas.study.service_models import ServiceModel, VersionModel
from ldpbeam.statistics import has_tail
from ldpbeam.study import Study, attribute_of


def has_users(study: StudyModel, attribute: AttributeModel) -> bool:
    """Whether the reports of an attribute have user ids."""
    return (attribute.users or study.users or "ids") == "ids"


def check_users(study: StudyModel) -> None:
    """See that nothing is asked of the user of a report that has none.

    Raises:
        ValueError: if something is; the text begins with the place in the file.
    """
    without = [name for name, attribute in study.attributes.items() if not has_users(study, attribute)]
    if not without:
        return
    for key in _of_studies(study):
        some = "" if len(without) == len(study.attributes) else ", or give the others a study of their own"
        raise ValueError(
            f"{key}: it is about all that one user sends, and reports of {without[0]!r} have no users "
            f"(users: none): leave it out{some}"
        )
    for name in without:
        for key in _of_attributes(study.attributes[name]):
            raise ValueError(
                f"attributes.{name}.{key}: it needs to know which reports are of one user, and reports of "
                f"{name!r} have no users (users: none): leave it out"
            )


def _of_studies(study: StudyModel) -> Iterator[str]:
    """The keys of a study that are about users."""
    asked = {
        "repeats": study.repeats == "all",
        "most_reports": study.most_reports,
        "panel": study.panel,
        "windows.joined": study.windows and study.windows.joined,
        "epsilon_cap": study.epsilon_cap,
        "ledger": study.ledger,
    }
    return (key for key, given in asked.items() if given)


def _of_attributes(attribute: AttributeModel) -> Iterator[str]:
    """The keys of an attribute that are about users."""
    if attribute.joint_buckets is not None:
        yield "joint_buckets"
    for service, described in attribute.services.items():
        where = f"services.{service}"
        parts: dict[str, ServiceModel | VersionModel] = {where: described}
        parts |= {f"{where}.versions.{name}": version for name, version in described.versions.items()}
        for place, part in parts.items():
            yield from (f"{place}.{key}" for key in part.remembering)


#: The most integers of a joined statistic, and of those of all groups that have one: 32 MB and 256 MB.
MOST_COUNTS, MOST_COUNTS_OF_GROUPS = 2**22, 2**25


def check_joined(study: Study) -> None:
    """See that the windows of each user can be joined, if the study asks for it.

    Raises:
        ValueError: if they cannot; the text begins with the place in the file.
    """
    if study.windows_joined == 1:
        return
    if not study.group_users:
        raise ValueError(
            "windows.joined: it brings the reports of a user together, so it needs duplicates: drop and "
            "repeats: first"
        )
    groups = study.groups.at_most if study.groups else 1
    for name in study.compiled:
        problem = _problem(study.attribute(name), study.windows_joined, groups)
        if problem:
            raise ValueError(f"windows.joined: attribute {attribute_of(name)!r} {problem}")


def joined_counts(attribute: Attribute, windows: int) -> int:
    """How many integers the statistic of so many joined windows has."""
    mechanism = attribute.versions[0].mechanism
    if isinstance(mechanism, CategoricalMechanism):
        return mechanism.size * (windows + 1) ** 2
    cells = mechanism.cells(attribute.buckets)
    return cells * (cells + 1)


def _problem(attribute: Attribute, windows: int, groups: int) -> str:
    """Why the windows of an attribute's users cannot be joined, and what to do; empty if they can."""
    if isinstance(attribute.domain, KeyValues | Vector):
        what = "keys with values" if isinstance(attribute.domain, KeyValues) else "a vector"
        return f"is {what}, whose windows cannot be joined: joined is for numbers and categories"
    if len(attribute.versions) > 1:
        labels = ", ".join(version.label for version in attribute.versions)
        return (
            f"has several services or versions ({labels}), and joined is for one: make an attribute of "
            "each, or leave out joined"
        )
    if attribute.joint_services:
        return "has an estimate that joins services by user (ule, privkv_em): choose another estimator"
    mechanism = attribute.versions[0].mechanism
    if isinstance(attribute.domain, Categories):
        if not (isinstance(mechanism, CategoricalMechanism) and mechanism.tells_supports):
            return (
                f"has the mechanism {mechanism.name}, whose reports do not say which categories they "
                "support: joined is for grr, oue, sue, subset_selection, olh and hadamard"
            )
    elif mechanism.composite or has_tail(mechanism):
        return (
            f"has the mechanism {mechanism.name}, whose reports have no histogram to join windows of: take "
            "stochastic_rounding, piecewise or square_wave"
        )
    counts = joined_counts(attribute, windows)
    if counts > MOST_COUNTS or counts * groups > MOST_COUNTS_OF_GROUPS:
        fewer = "take a shorter joined" if isinstance(attribute.domain, Categories) else "lower buckets"
        each = f" for each of {groups:,} groups" if groups > 1 else ""
        return (
            f"would need {counts:,} integers{each} for {windows:,} windows, and at most "
            f"{MOST_COUNTS:,} are kept, or {MOST_COUNTS_OF_GROUPS:,} for all groups: {fewer}"
            f"{', or lower groups.at_most' if groups > 1 else ''}"
        )
    return ""
