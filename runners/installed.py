"""What is installed of what ldpbeam requires and of what its extras add, as its metadata says."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import metadata
from typing import NamedTuple

from packaging.requirements import Requirement

from ldpbeam.words import first_ones


class Check(NamedTuple):
    """The result of checking one requirement of an engine.

    Attributes:
        what: the requirement.
        found: what was found, such as a version or a path; None if it is missing.
        advice: how to get it, or the consequence of its absence; may be empty.
        needed: whether the engine cannot run without it.
    """

    what: str
    found: str | None
    advice: str = ""
    needed: bool = True


#: The extras for developers of ldpbeam.
FOR_DEVELOPERS = ("docs", "test")


def of_package() -> Iterator[Check]:
    """What ldpbeam requires, and what each of its extras for users does, as its metadata says."""
    for extra in ("", *(metadata.metadata("ldpbeam").get_all("Provides-Extra") or ())):
        if extra in FOR_DEVELOPERS:
            continue
        name = f"ldpbeam[{extra}]" if extra else "ldpbeam"
        versions = list(_requirements("ldpbeam", extra))
        lacking = [
            f"{wanted.name}{wanted.specifier}" for wanted, version in versions if not _fits(wanted, version)
        ]
        yield Check(
            name,
            None if lacking else first_ones([f"{wanted.name} {version}" for wanted, version in versions], 4),
            f"pip install '{name}' for {first_ones(lacking, 4)}",
            needed=not extra,
        )


def _requirements(package: str, extra: str) -> Iterator[tuple[Requirement, str | None]]:
    """What a package requires, or one of its extras does beyond that, and the versions that are here."""
    for wanted in map(Requirement, metadata.requires(package) or ()):
        always, with_extra = (
            wanted.marker is None or wanted.marker.evaluate({"extra": name}) for name in ("", extra)
        )
        if with_extra and not (extra and always):
            version = version_of(wanted.name)
            yield wanted, version
            for further in wanted.extras if version is not None else ():
                yield from _requirements(wanted.name, further)


def _fits(wanted: Requirement, version: str | None) -> bool:
    return version is not None and wanted.specifier.contains(version, prereleases=True)


def version_of(package: str) -> str | None:
    """The version of a package that is installed; None if it is not."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
