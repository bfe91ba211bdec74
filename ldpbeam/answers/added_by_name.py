"""Snapshots of windows whose places have other names, moved so that equal names are at equal places."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from ldpbeam.attributes import Attribute
from ldpbeam.domains import Candidates, Integers
from ldpbeam.errors import UserError
from ldpbeam.mechanisms import CategoricalMechanism
from ldpbeam.schemas.outputs.snapshots import Snapshot
from ldpbeam.statistics import Statistic
from ldpbeam.study import Study
from ldpbeam.transforms.candidates import names_of, with_names
from ldpbeam.windows import times_of
from ldpbeam.words import first_ones

Given = Sequence[tuple[str, Snapshot]]


def at_equal_places(study: Study, given: Given) -> Given:
    """Snapshots of one attribute that are to be added up, with each name at one place.

    Snapshots of the same names stay as they are. Others take the places of all names together, and have
    these names from then on (:meth:`Candidates.together`).

    Raises:
        UserError: if a window has no names, the names have changed since a roll-up, there are more names than
            places, or the channels do not allow that categories change places.
    """
    attribute = study.attribute(given[0][1].attribute)
    windows = {window for _, snapshot in given for window in snapshot.inner_windows}
    if not isinstance(attribute.domain, Candidates) or len(windows) == 1:
        return given
    by_window = {w: names_of(study, attribute.name, w) for w in sorted(windows, key=lambda w: w or (0, 0))}
    names = {window: candidates for window, candidates in by_window.items() if candidates is not None}
    by_name = f"{attribute.name}: windows are added up by name, and"
    if unnamed := [times_of(window) for window in by_window if window not in names]:
        raise UserError(
            f"{by_name} the study's candidates have no names for {first_ones(unnamed)}: add them, or leave "
            "these windows out"
        )
    try:
        together = Candidates.together(list(names.values()))
    except ValueError as error:
        raise UserError(f"{by_name} {error}: roll up fewer windows") from None
    moved = []
    for path, snapshot in given:
        inner = {names[window] for window in snapshot.inner_windows}
        own_names = Candidates.together([names[window] for window in snapshot.inner_windows])
        if len(inner) > 1 and (own_names != together or snapshot.table != own_names.fingerprint):
            raise UserError(
                f"{path}: a roll-up by the names that its windows had then; names that differ now, or in "
                "other windows, need the statistics of these windows: give them instead"
            )
        statistic = snapshot.statistic
        if own_names != together:
            statistic = _moved(path, attribute, statistic, own_names.moved_to(together))
        moved.append((path, replace(snapshot, statistic=statistic, table=together.fingerprint)))
    return moved


def _moved(path: str, attribute: Attribute, statistic: Statistic, places: Integers) -> Statistic:
    """A statistic in which each place has become another one.

    Raises:
        UserError: if the channels of the attribute do not allow it.
    """
    histograms = []
    for version, histogram in zip(attribute.versions, statistic.histograms, strict=True):
        mechanism = version.mechanism
        alike = isinstance(mechanism, CategoricalMechanism) and mechanism.cells_of_each
        if not alike or attribute.joint_services or statistic.joined is not None or version.lifetime:
            why = "of users who are joined" if alike else f"of {mechanism.name}"
            raise UserError(
                f"{path}: its places are named differently from those of other windows, and reports {why} "
                "cannot be added up by name (only reports of grr, oue, sue, subset_selection, and olh with "
                "seeds: any can, if users are not joined): roll up windows with the same names"
            )
        moved = np.empty_like(histogram).reshape(len(places), -1)
        moved[places] = histogram.reshape(len(places), -1)
        histograms.append(moved.ravel())
    return replace(statistic, histograms=tuple(histograms))


def names_changed(study: Study, snapshots: Iterable[Snapshot]) -> Iterator[str]:
    """A sentence on the windows whose names have changed since their statistics were written."""
    changed = [
        f"{snapshot.attribute} {times_of(snapshot.window)}"
        for snapshot in snapshots
        if snapshot.table and with_names(study, replace(snapshot, table="")).table not in ("", snapshot.table)
    ]
    if changed:
        yield (
            "the study's candidates have other names for these than when they were estimated, and the "
            f"current names are used: {first_ones(list(dict.fromkeys(changed)))}"
        )
