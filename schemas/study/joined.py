"""What a study must be for the windows of a user to be joined."""

from __future__ import annotations

from ldpbeam.attributes import Attribute
from ldpbeam.domains import Categories, KeyValues, Vector
from ldpbeam.mechanisms import CategoricalMechanism
from ldpbeam.statistics import has_tail
from ldpbeam.study import Study, attribute_of

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
