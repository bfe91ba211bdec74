"""A day of joined hours: the statistic that the pipeline makes, its estimates, roll-ups and refusals."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.memoised_reports import FLEETS, HOUR, START
from support.tallied import tallied

from ldpbeam import Answers, empty, merge, tally
from ldpbeam.answers.rolled_up import rolled_up
from ldpbeam.answers.solve import answers
from ldpbeam.cells import Cells
from ldpbeam.errors import UserError
from ldpbeam.estimators.channel_means import least_noise
from ldpbeam.folders.output import Output
from ldpbeam.folders.written import read_all, write_all
from ldpbeam.intervals.bounded import within_one
from ldpbeam.over_time.joined_windows import JoinedCells, JoinedSupports, Table
from ldpbeam.schemas.outputs.snapshots import Snapshot, decode_statistic, encode_statistic
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.statistics import difference
from ldpbeam.windows import Span

DAY, PEOPLE, WINDOWS = 24 * HOUR, 120, 24
NAMES = ("grr", "oue", "olh", "published olh", "stochastic_rounding", "square_wave", "piecewise")


def joined(text: str, size: str = "1d") -> str:
    """The study with hours that are joined in longer windows."""
    return text.replace("windows: {size: 1h}", f"windows: {{size: 1h, joined: {size}}}")


def reports(name: str, seed: int = 3, people: int = PEOPLE, days: int = 1) -> tuple[str, dict[str, Any]]:
    """(a study, reports of people who answer some of the hours, a few of them twice)."""
    fleet, rng = FLEETS[name], np.random.default_rng(seed)
    values = rng.beta(2.0, 5.0, (people, 1)) if not fleet.size else rng.integers(0, fleet.size, (people, 1))
    payloads = fleet.payloads(np.repeat(values, days * WINDOWS, axis=1), rng)
    place = np.flatnonzero(rng.random(payloads.size) < 0.6)
    place = rng.permutation(np.concatenate((place, place[:20])))
    user, hour = np.divmod(place, days * WINDOWS)
    table = {
        "user_id": np.array([f"u{i}" for i in user]),
        "event_time": START + hour * HOUR + rng.integers(0, HOUR, len(place)),
        "payload": payloads.ravel()[place],
        "region": np.where(user % 3 == 0, "n", "s"),
    }
    return joined(fleet.text(fleet.service)), table


def of_days(snapshots: list[Snapshot]) -> list[Snapshot]:
    return [snapshot for snapshot in snapshots if snapshot.joined]


def kept(table: dict[str, Any]) -> list[int]:
    """The rows of the first report of each user in each hour, by a loop."""
    first: dict[tuple[str, int], int] = {}
    for row, (user, time) in enumerate(zip(table["user_id"], table["event_time"], strict=True)):
        key = (user, time // HOUR)
        if key not in first or time < table["event_time"][first[key]]:
            first[key] = row
    return sorted(first.values())


@pytest.mark.parametrize("name", NAMES)
def test_the_statistic_of_a_day_is_that_of_a_loop_over_users(name: str) -> None:
    text, table = reports(name)
    found = tallied(text, table)
    hours = [snapshot for snapshot in found.snapshots if not snapshot.joined]
    (day,) = of_days(found.snapshots)
    rows = kept(table)
    counts = found.accounting
    assert counts["in"] == len(table["user_id"]) and counts["used"] == len(rows) == day.statistic.reports
    assert day.window == (START, START + DAY) and day.statistic.users == len(
        {table["user_id"][r] for r in rows}
    )
    whole = merge(snapshot.statistic for snapshot in hours)
    (histogram,), (summed,) = day.statistic.histograms, whole.histograms
    assert np.array_equal(histogram, summed)
    (own,), (moments,) = day.statistic.moments.values(), whole.moments.values()
    assert own == moments
    mechanism = parse_study(text).attribute("x").versions[0].mechanism
    users = {user: [r for r in rows if table["user_id"][r] == user] for user in set(table["user_id"][rows])}
    if FLEETS[name].size:
        expected = np.zeros((8, WINDOWS + 1, WINDOWS + 1), dtype=np.int64)
        for sent in users.values():
            for category, times in enumerate(mechanism.supported(table["payload"][sent]).sum(axis=0)):
                expected[category, times, len(sent)] += 1
        assert day.statistic.joined == JoinedSupports(Table.of(expected))
        return
    products = np.zeros((len(histogram), len(histogram)), dtype=np.int64)
    for sent in users.values():
        counted = np.bincount(mechanism.bucketise(table["payload"][sent], 32), minlength=len(histogram))
        products += np.outer(counted, counted)
    assert day.statistic.joined == JoinedCells(histogram, Table.of(products))


def test_hours_are_those_of_a_study_that_joins_none() -> None:
    text, table = reports("oue")
    alone = tallied(text.replace(", joined: 1d", ""), table)
    found = tallied(text, table)
    assert [s for s in found.snapshots if not s.joined] == alone.snapshots
    assert found.accounting == alone.accounting


def test_groups_have_days_of_their_own_users() -> None:
    text, table = reports("grr")
    found = of_days(tallied(f"{text}groups: {{field: region}}\n", table).snapshots)
    assert [snapshot.group for snapshot in found] == ["n", "s"]
    (whole,) = of_days(tallied(text, table).snapshots)
    assert merge(snapshot.statistic for snapshot in found) == whole.statistic


def test_a_statistic_survives_its_bytes_and_its_difference_from_itself_is_none() -> None:
    for name in ("oue", "square_wave"):
        text, table = reports(name)
        (day,) = of_days(tallied(text, table).snapshots)
        assert decode_statistic(encode_statistic(day.statistic)) == day.statistic
        attribute = parse_study(text).attribute("x")
        assert difference(day.statistic, day.statistic) == empty(attribute)
        assert merge([empty(attribute), day.statistic]) == day.statistic
        one = tally(attribute, 1, [Answers(0, np.zeros(1, dtype=np.int64), table["payload"][:1])])
        with pytest.raises(ValueError, match="must not be added"):
            merge([day.statistic, one])


def test_the_intervals_of_shares_have_the_variance_by_user() -> None:
    text, table = reports("oue", people=300)
    (day,) = of_days(tallied(text, table).snapshots)
    study = parse_study(text)
    (answer,) = answers(study, day).values()
    assert answer.users == 300 and not answer.warnings and answer.intervals is not None
    assert answer.intervals.methods["frequencies"].endswith("; with the variance by user")
    mechanism = study.attribute("x").versions[0].mechanism
    joined, (p, q) = day.statistic.joined, mechanism.support_probabilities  # type: ignore[attr-defined]
    shares, errors = (joined.supports / joined.reports - q) / (p - q), np.sqrt(joined.variances)
    expected = within_one(shares, errors / (joined.reports * (p - q)), 0.95)
    assert answer.intervals.of("frequencies") == pytest.approx(expected)


@pytest.mark.parametrize("name", ["stochastic_rounding", "square_wave"])
def test_the_mean_of_a_day_has_the_standard_error_by_user(name: str) -> None:
    text, table = reports(name)
    text = text.replace("    services:", "    estimates: {m: {estimator: ivw}, a: {}}\n    services:")
    (day,) = of_days(tallied(text, table).snapshots)
    found = answers(parse_study(text), day)
    rows, n = kept(table), day.statistic.reports
    mechanism = parse_study(text).attribute("x").versions[0].mechanism
    cells = mechanism.representatives(32)[mechanism.bucketise(table["payload"][rows], 32)]  # type: ignore
    told = mechanism.unbiased(cells)  # type: ignore
    users = np.unique(table["user_id"][rows], return_inverse=True)[1]
    by_user = np.bincount(users, told - told.mean())
    error = np.sqrt((by_user**2).sum()) / n
    assert found["m"].standard_error == pytest.approx(error, rel=1e-9)
    intervals = found["a"].intervals
    assert np.ptp(intervals.ends["certain"]["mean"].columns) == pytest.approx(2 * 1.96 * error, rel=1e-3)


@pytest.mark.parametrize(
    ("mechanism", "payload"),
    [
        ("stochastic_rounding", (math.e + 1.0) / (math.e - 1.0)), ("square_wave", 0.5), ("square_wave", 1.2),
        ("piecewise", 0.1), ("piecewise", 4.0),
    ],
)  # fmt: skip
def test_equal_reports_of_two_users_are_as_uncertain_as_their_noise(mechanism: str, payload: float) -> None:
    """They do not vary, and say hardly anything all the same."""
    text = (
        "study: s\nattributes:\n  x:\n    domain: {numeric: [0, 1]}\n    buckets: 32\n"
        f"    services: {{app: {{mechanism: {mechanism}, epsilon: 1}}}}\n"
        "    estimates: {m: {estimator: ivw}, a: {}}\nwindows: {size: 1h, joined: 1d}\n"
    )
    hours = START + np.tile(np.arange(4), 2) * HOUR
    table = {"user_id": ["u1"] * 4 + ["u2"] * 4, "event_time": hours, "payload": np.full(8, payload)}
    (day,) = of_days(tallied(text, table).snapshots)
    found = answers(parse_study(text), day)
    error, intervals = found["m"].standard_error, found["a"].intervals
    least = least_noise(parse_study(text).attribute("x").versions[0].mechanism, 32)  # type: ignore
    assert error is not None and error >= math.sqrt(least / 8.0) * (1.0 - 1e-12)
    assert intervals is not None and intervals.of("variance", "if_smooth") is not None
    assert np.ptp(intervals.ends["certain"]["mean"].columns) > 0.05


def written(folder: Path, text: str, table: dict[str, Any], run: str) -> list[tuple[str, Snapshot]]:
    write_all(Output(parse_study(text), str(folder / run), run), tallied(text, table).snapshots)
    return read_all([f"{folder / run}/statistics/*.avro"])


def test_a_roll_up_of_days_adds_runs_and_groups_and_takes_hours_for_longer_windows(tmp_path: Path) -> None:
    text = reports("oue", days=2)[0]
    text += "groups: {field: region}\n"
    north, south = (written(tmp_path, text, reports("oue", seed, days=2)[1], f"r{seed}") for seed in (1, 2))
    study = parse_study(text)
    assert len(of_days([s for _, s in north])) == 4
    days = rolled_up(study, [*north, *south], cells=Cells(DAY))
    own = {(s.window, s.group): s.statistic for s in of_days([s for _, s in north])}
    other = {(s.window, s.group): s.statistic for s in of_days([s for _, s in south])}
    assert days.merged == 8 and days.held == len(north) + len(south) - 8
    assert {(s.window, s.group): s.statistic for s in days.snapshots} == {
        place: merge([own[place], other[place]]) for place in own
    }
    assert all(snapshot.windows == 1 for snapshot in days.snapshots)
    total = rolled_up(study, [*north, *south], cells=Cells(DAY), total=True)
    assert [s.joined for s in total.snapshots] == [True, True]
    for window in (Cells(4 * DAY), None):
        both = rolled_up(study, north, cells=window, total=True)
        (snapshot,) = both.snapshots
        assert not snapshot.joined and snapshot.windows == 48 and both.held == 4
    halves = rolled_up(study, north, cells=Cells(DAY // 2))
    assert halves.held == 4 and not any(snapshot.joined for snapshot in halves.snapshots)
    with pytest.raises(UserError, match="give their statistics, too"):
        rolled_up(study, [entry for entry in north if entry[1].joined], cells=None)
    alone = [entry for entry in south if not entry[1].joined]
    with pytest.raises(UserError, match="in one the reports of a user in several windows are brought"):
        rolled_up(study, [*north, *alone], cells=Cells(DAY))
    halves_of_hours = text.replace("size: 1h", "size: 30m")
    other = written(tmp_path, halves_of_hours, reports("oue", 3, days=2)[1], "r3")
    with pytest.raises(UserError, match="they join different numbers of windows"):
        rolled_up(study, [*north, *other], cells=Cells(DAY))


def test_a_span_counts_the_days_that_lie_in_it() -> None:
    text, table = reports("grr", days=2)
    found = tallied(text, table, Span(START + HOUR, START + 2 * DAY)).snapshots
    assert [snapshot.window for snapshot in of_days(found)] == [(START + DAY, START + 2 * DAY)]


@pytest.mark.parametrize("service,domain,problem", [
    ("mechanism: block_hadamard, epsilon: 1", "categories: 8", "which categories they support"),
    ("mechanism: pckv_grr, epsilon: 1", "keys: 4, values: [0, 1]", "is keys with values"),
    ("mechanism: piecewise, epsilon: 1", "coordinates: 4, values: [0, 1]", "is a vector"),
    ("mechanism: gaussian, epsilon: 1, delta: 1.0e-6", "numeric: [0, 1]", "no histogram to join windows of"),
    ("mechanism: grr, epsilon: 1", "categories: 10000", "would need 6,250,000 integers for 24 windows"),
    ("mechanism: square_wave, epsilon: 1", "numeric: [0, 1]}\n    buckets: {4096", "lower buckets"),
])  # fmt: skip
def test_what_cannot_be_joined_is_refused_in_a_sentence(service: str, domain: str, problem: str) -> None:
    text = f"study: s\nattributes:\n  x:\n    domain: {{{domain}}}\n    services:\n      a: {{{service}}}\n"
    text = text.replace("buckets: {4096}", "buckets: 4096")
    parse_study(f"{text}windows: {{size: 1h}}\n")
    with pytest.raises(ValueError, match=f"windows.joined: attribute 'x' .*{problem}"):
        parse_study(f"{text}windows: {{size: 1h, joined: 1d}}\n")


def test_users_of_one_service_are_joined_over_whole_windows_that_do_not_slide() -> None:
    text = reports("grr")[0]
    for wrong, problem in (
        (text + "duplicates: keep\n", "lifetime_epsilon needs duplicates"),
        (text.replace("1, lifetime_epsilon: 2", "1") + "duplicates: keep\n", "needs duplicates: drop"),
        (text.replace("windows:", "      b: {mechanism: oue, epsilon: 1}\nwindows:"), "app, b"),
        (text.replace("1d", "90m"), r"joined must be two or more times size \(1h\), found 90m"),
        (text.replace("1d", "1h"), "joined must be two or more times size"),
        (text.replace("size: 1h", "size: 1h, period: 30m"), "windows that do not slide"),
    ):
        with pytest.raises(ValueError, match=problem):
            parse_study(wrong)
    plain = text.replace(", joined: 1d", "")
    assert parse_study(plain).fingerprint != parse_study(text).fingerprint
    assert parse_study(plain).attribute("x").fingerprint == parse_study(text).attribute("x").fingerprint
