"""The estimates of one attribute, by window and group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from ldpbeam.pipelines.pages import words

#: A line of ``estimates.jsonl``.
Record = Mapping[str, Any]


class Place(NamedTuple):
    """The window and the group of an estimate; None for no windows and for no groups."""

    start: str | None
    end: str | None
    group: str | None
    other_groups: int

    @classmethod
    def of(cls, record: Record) -> Place:
        """The place of an estimate."""
        return cls(record["window_start"], record["window_end"], record["group"], record["other_groups"])

    @property
    def window(self) -> str:
        """The window in words; empty without windows."""
        return words.window(self.start, self.end) if self.start and self.end else ""

    @property
    def group_name(self) -> str:
        """The group, or how many groups are added up; empty without groups."""
        return f"{self.other_groups:,} more groups" if self.other_groups else self.group or ""

    def __str__(self) -> str:
        return ", ".join(part for part in (self.group_name, self.window) if part)


@dataclass(frozen=True)
class Subject:
    """The estimates of one attribute.

    Attributes:
        name: the attribute.
        records: its estimates, with at least one.
    """

    name: str
    records: Sequence[Record]

    @cached_property
    def estimates(self) -> dict[str, str]:
        """The label of each estimate: its name, its estimator and its services."""
        return {
            record["name"]: f"{record['name']} ({record['estimator']} of {_services(record['services'])})"
            for record in self.records
        }

    @cached_property
    def places(self) -> dict[Place, list[Record]]:
        """The estimates of each window and group, by time and then by the number of reports."""
        found: dict[Place, list[Record]] = {}
        for record in self.records:
            found.setdefault(Place.of(record), []).append(record)
        reports = {place: max(record["reports"] for record in own) for place, own in found.items()}
        order = sorted(
            found, key=lambda place: (place.start or "", bool(place.other_groups), -reports[place])
        )
        return {place: found[place] for place in order}

    @property
    def windows(self) -> list[str]:
        """The starts of the windows, in order; empty without windows."""
        return sorted({place.start for place in self.places if place.start})

    def shaped(self, field: str) -> Iterator[Record]:
        """The estimates that have a field, as ``distribution``."""
        return (record for record in self.records if record.get(field) is not None)


def note_of(record: Record) -> str:
    """What a reader must know about a pane: that it is early, or that reports may be missing."""
    if record["pane_timing"] == "early":
        return "early: the window had not closed"
    if not record["complete"]:
        return "incomplete: reports of this window may be missing"
    return ""


def ends(record: Record, part: str, place: int | str | None = None) -> tuple[float, float] | None:
    """The interval of a part of an estimate; None if the estimate has none.

    Args:
        record: the estimate.
        part: the name of the part among ``intervals``.
        place: which of several intervals: an index, or the level of a quantile.
    """
    found = (record.get("intervals") or {}).get(part)
    if found is None:
        return None
    if isinstance(place, str):
        found = found.get(place)
        return None if found is None else (found["low"], found["high"])
    return (found["low"], found["high"]) if place is None else (found["low"][place], found["high"][place])


def _services(services: Sequence[str]) -> str:
    return words.listed(services) if len(services) <= 3 else f"{len(services)} services"
