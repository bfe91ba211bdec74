"""Which attributes have user ids, and what a study cannot ask of those that have none."""

from __future__ import annotations

from collections.abc import Iterator

from ldpbeam.schemas.study.models import AttributeModel, StudyModel
from ldpbeam.schemas.study.service_models import ServiceModel, VersionModel


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
