"""``ldpbeam.difference``: two windows compared from their reports, which are joined by user."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.special import ndtri

from ldpbeam.answers.child import one_blas_thread
from ldpbeam.answers.difference import FALSE_ALARMS, Difference, verdict_on
from ldpbeam.attributes import Attribute
from ldpbeam.clients.times import window_time
from ldpbeam.domains import Candidates, Categories, Floats, Integers, Numeric
from ldpbeam.estimators.channel_means import least_noise, scores_of
from ldpbeam.library.differences import Differences
from ldpbeam.library.tables import decoded_batches
from ldpbeam.mechanisms import CategoricalMechanism, UnbiasedMechanism
from ldpbeam.over_time.joined_windows import difference_of_windows
from ldpbeam.schemas.outputs.records import EstimateKey
from ldpbeam.study import Study
from ldpbeam.times import rfc3339
from ldpbeam.transforms.joining.gathered import gathered
from ldpbeam.transforms.joining.join import at_most_groups, groups_merged
from ldpbeam.transforms.joining.kept import codes_of, kept, pairs_of, per_service
from ldpbeam.transforms.reports.batches import attribute_name
from ldpbeam.transforms.reports.validation import checked_columns
from ldpbeam.transforms.tally import Tally, usable
from ldpbeam.windows import Bounds, Span, Windows, time_text

FOR_THE_POPULATION = (
    "intervals are for the population that the people were drawn from, from what each user sent in both "
    "windows: they hold whoever answered both, whether values last, change or alternate, and whether clients "
    "remember their noise; for the people themselves they are wide enough; they take all people for honest"
)


def difference(
    study: Study,
    reports: Any,
    *,
    windows: tuple[datetime | str | int, datetime | str | int],
    joined: bool = False,
    attribute: str | None = None,
    service: str | None = None,
    columns: Mapping[str, str] | None = None,
) -> Differences:
    """The second of two windows minus the first, from their reports, joined by user.

    It compares unbiased shares of categories and means of numbers, for each service (or version) separately.
    The same people may have answered in both windows: the variance is that of each user's contribution to the
    difference (:mod:`ldpbeam.over_time.joined_windows`), and at least that of noise that the windows do not
    share.

    Args:
        study: the study, with windows.
        reports: as for :func:`ldpbeam.estimate`; those of other windows are left out.
        windows: the starts of two windows that do not overlap: times with a zone, RFC 3339 text or
            milliseconds since 1970.
        joined: whether they are the longer windows of the study's ``windows.joined``; a user then has a
            report in each window inside.
        attribute: as for :func:`ldpbeam.estimate`, like the next two.
        service: likewise.
        columns: likewise.

    Raises:
        TypeError: if the reports are not a table.
        ValueError: if a column is missing, the study has no such windows or does not group reports by user,
            or there is nothing to compare.
    """
    both = _windows(study, windows, joined)
    wanted = checked_columns(study, attribute, service, renamed=columns)
    span = Span(min(both)[0], max(both)[1])
    tally = Tally()
    by_attribute: dict[str, list[pa.RecordBatch]] = {}
    for batch in usable(study, decoded_batches(reports, wanted), span, tally):
        times = batch.column("event_time").to_numpy()
        chosen = batch.filter(pa.array(~(Span(*both[0]).outside(times) & Span(*both[1]).outside(times))))
        by_attribute.setdefault(attribute_name(batch), []).append(chosen)
    about = [FOR_THE_POPULATION]
    compared: list[_Compared] = []
    with one_blas_thread():
        for name, compiled in study.compiled.items():
            if name not in by_attribute:
                continue
            if not compiled.has_users:
                about.append(f"{name}: its reports have no users, and are not compared")
                continue
            if isinstance(compiled.domain, Candidates):
                about.append(f"{name}: names of places change by the window; compare estimates instead")
                continue
            compared += _of_attribute(study, compiled, by_attribute[name], *both)
            left_out = [of.label for of in compiled.versions if not _is_compared(compiled, of.mechanism)]
            if left_out:
                about.append(f"{name}: reports of {', '.join(left_out)} are not compared")
    if not compared:
        raise ValueError("no attribute has enough users in both windows, and reports that can be compared")
    bad = tally.accounting["dead_letters"]
    if bad:
        about.append(f"{bad:,} of the reports cannot be used: ldpbeam.estimate says why")
    judged = Counter[str]()
    for part in compared:
        judged[part.family] += len(part.numbers)
    differences = tuple(row for part in compared for row in _differences(part, both, judged[part.family]))
    return Differences(differences, 1.0 - FALSE_ALARMS, tuple(about))


class _Compared(NamedTuple):
    """The numbers of both windows from a service's reports, for one group.

    Attributes:
        attribute: the attribute's name.
        label: the service, or ``service@version``.
        group: the group; None for reports without one, and for all others.
        rest: whether it is the group of all others.
        numbers: the names of the numbers.
        first: the numbers of the first window.
        second: the numbers of the second window.
        errors: the standard errors of the differences.
        bias: the largest bias of a number by its mechanism.
    """

    attribute: str
    label: str
    group: str | None
    rest: bool
    numbers: Sequence[str]
    first: Floats
    second: Floats
    errors: Floats
    bias: float

    @property
    def family(self) -> str:
        """The kind of the numbers."""
        return "means" if list(self.numbers) == ["mean"] else "shares"


def _windows(
    study: Study, given: tuple[datetime | str | int, datetime | str | int], joined: bool
) -> tuple[Bounds, Bounds]:
    """The two windows.

    Raises:
        ValueError: if they are no two windows of the study.
    """
    if not isinstance(study, Study):
        raise TypeError(f"the first argument is a Study, found {type(study).__name__}")
    if study.windows is None:
        raise ValueError("the study has no windows")
    if not study.group_users:
        why = "users: none" if study.without_users else "duplicates: drop and repeats: first"
        raise ValueError(
            "the study does not count by user, so users cannot be compared: it "
            + (f"has {why}; compare estimates instead" if study.without_users else f"needs {why}")
        )
    if joined and study.windows.joined is None:
        raise ValueError("the study joins no windows: add windows.joined, or leave out joined=True")
    earlier, later = (
        _window(study.windows, window_time(start, "windows", study.clock), joined) for start in given
    )
    if earlier[0] < later[1] and later[0] < earlier[1]:
        raise ValueError("the two windows are one, or overlap: name two that have no report in common")
    return earlier, later


def _window(windows: Windows, start: int, joined: bool) -> Bounds:
    window = windows.windows_of(start)[0]
    if joined:
        window = windows.longer(window)
    if start != window[0]:
        raise ValueError(
            f"no window starts at {rfc3339(start)}; did you mean {time_text(window[0], windows.clock)!r}?"
        )
    return window


def _is_compared(attribute: Attribute, mechanism: Any) -> bool:
    if isinstance(mechanism, CategoricalMechanism):
        return mechanism.tells_supports
    # On a scale, the mean of reports is not the mean of values.
    plain = isinstance(attribute.domain, Numeric) and attribute.domain.scale is None
    return plain and isinstance(mechanism, UnbiasedMechanism)


def _of_attribute(
    study: Study, attribute: Attribute, batches: Sequence[pa.RecordBatch], first: Bounds, second: Bounds
) -> Iterator[_Compared]:
    """The numbers of both windows by group and service, from each user's first report in a window."""
    reports = gathered(attribute, batches)
    users, ids = codes_of(reports.users)
    later = ~Span(*second).outside(reports.times)
    assert study.windows is not None
    # Windows that slide are compared where they do not overlap. Others may lie in two longer ones.
    of_window = later.astype(np.int64)
    if not study.windows.slides:
        of_window += 2 * codes_of(pa.array(study.windows.steps.numbers(reports.times)))[0]
    rows_kept = kept(reports, per_service(attribute, reports, pairs_of(users, of_window)))
    groups, names = codes_of(reports.groups)
    most = study.groups.at_most if study.groups else len(names)
    groups, names = at_most_groups(groups, rows_kept, names, most)
    for code, name in enumerate(names.to_pylist()):
        merged = groups_merged(name) > 0
        for index, version in enumerate(attribute.versions):
            of_version = rows_kept & (groups == code) & (reports.versions == index)
            sides = [np.flatnonzero(of_version & inside) for inside in (~later, later)]
            fewest = min(len(np.unique(users[rows])) for rows in sides)
            if fewest >= max(study.publish.at_least, 1) and _is_compared(attribute, version.mechanism):
                first_side, second_side = (
                    (users[rows], next(payloads for *_, payloads in reports.by_channel(rows)))
                    for rows in sides
                )
                yield _Compared(
                    attribute.name, version.label, None if merged else name, merged,
                    *_numbers(attribute, index, len(ids), first_side, second_side),
                )  # fmt: skip


#: (the user of each report, the reports).
_Side = tuple[Integers, NDArray[Any]]


def _numbers(
    attribute: Attribute, index: int, users: int, first: _Side, second: _Side
) -> tuple[Sequence[str], Floats, Floats, Floats, float]:
    """(names, numbers of the first window and of the second, standard errors of the differences, bias)."""
    mechanism: Any = attribute.versions[index].mechanism
    if isinstance(attribute.domain, Categories):
        names = [f"share of {label}" for label in attribute.domain.names]
        p, q = mechanism.support_probabilities
        _, _, of_users = difference_of_windows(users, first, second, mechanism.supported)
        shares = [
            mechanism.unbiased_frequencies(mechanism.histogram(reports, attribute.buckets), len(reports))
            for _, reports in (first, second)
        ]
        least = _least_error(attribute, index, min(p * (1.0 - p), q * (1.0 - q)), first, second)
        errors = np.maximum(of_users, least) * max(1.0, mechanism.collisions) ** 0.5
        return names, shares[0], shares[1], errors / (p - q), 0.0
    domain = cast(Numeric, attribute.domain)
    scored = scores_of(mechanism, attribute.buckets)

    def numbers_of(reports: NDArray[Any]) -> Floats:
        if scored is None:
            numbers: Floats = mechanism.unbiased(reports)
        else:
            numbers = scored.first.cells[mechanism.bucketise(reports, attribute.buckets)]
        return numbers[:, None]

    *unit, of_users = difference_of_windows(users, first, second, numbers_of)
    means = [domain.from_unit(mean) for mean in unit]
    bias = 0.0 if scored is None else 2.0 * scored.first.bias * domain.width
    least = _least_error(attribute, index, least_noise(mechanism, attribute.buckets), first, second)
    return ["mean"], means[0], means[1], np.maximum(of_users, least) * domain.width, bias


def _least_error(attribute: Attribute, index: int, noise: float, first: _Side, second: _Side) -> float:
    """The standard error of a difference from noise that the windows do not share.

    Few users may seem to vary less, and equal reports not at all.

    Args:
        attribute: the attribute.
        index: the channel's index in ``attribute.versions``.
        noise: the least variance that the mechanism gives the number of one report.
        first: the reports of the first window.
        second: the reports of the second window.
    """
    lifetime = attribute.versions[index].lifetime
    apart = 1.0 if lifetime is None else 2.0 - lifetime.chain.factor(2)
    return math.sqrt(noise * apart * (1.0 / len(first[0]) + 1.0 / len(second[0])))


def _differences(part: _Compared, windows: tuple[Bounds, Bounds], judged: int) -> Iterator[Difference]:
    keys = [EstimateKey(part.attribute, part.label, window, part.group, part.rest) for window in windows]
    apart = part.second - part.first
    room = float(-ndtri(FALSE_ALARMS / 2 / judged)) * part.errors + part.bias
    columns = (part.first, part.second, apart - room, apart + room, part.errors)
    for name, first, second, low, high, error in zip(
        part.numbers, *(column.tolist() for column in columns), strict=True
    ):
        yield Difference(
            keys[0], keys[1], part.family, name, first, second, low, high, error, verdict_on(low, high),
            certain=(low, high),
        )  # fmt: skip
