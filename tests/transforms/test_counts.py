"""Tables of counts give the statistics of the reports that were counted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import ldpbeam as ldp
from ldpbeam.library.tables import count_columns, decoded_batches
from ldpbeam.schemas.outputs.snapshots import Snapshot
from ldpbeam.study import Study
from ldpbeam.transforms.counted.columns import CountTable
from ldpbeam.transforms.counted.statistics import CountedReports
from ldpbeam.transforms.reports.validation import checked_columns
from ldpbeam.transforms.tally import tally_of

DAY, START = 86_400_000, 1_767_225_600_000
CATEGORIES = {"categories": ["a", "b", "c"]}
NUMBERS = {"numeric": [0, 10]}


def study_of(domain: dict[str, Any], services: dict[str, Any], **keys: Any) -> ldp.Study:
    """A study of one attribute."""
    whole = {"domain": domain, "services": services, **keys.pop("attribute", {})}
    return ldp.Study.from_dict(study="s", attributes={"x": whole}, **keys)


def reports_of(study: Study, values: Any, service: str = "one", first: int = 0, **more: Any) -> pa.Table:
    """The reports of users ``first``, ..., one each."""
    users = first + np.arange(len(values))
    return ldp.Client(study, "x", service, rng=np.random.default_rng(first)).reports(values, users, **more)


def from_reports(study: Study, *tables: pa.Table) -> list[Snapshot]:
    return tally_of(study, decoded_batches(tables, checked_columns(study, None, None))).snapshots


def from_counts(study: Study, table: Any, **only: str) -> list[Snapshot]:
    return CountedReports(CountTable(study, count_columns(table), **only)).snapshots()


def asked(query: str, reports: pa.Table) -> pa.Table:
    """What DuckDB answers of a table ``reports``."""
    return duckdb.sql(query).to_arrow_table()


@pytest.fixture
def letters() -> list[str]:
    return np.random.default_rng(4).choice(["a", "b", "c"], 700, p=[0.6, 0.3, 0.1]).tolist()


@pytest.fixture
def numbers() -> Any:
    return 10 * np.random.default_rng(5).beta(2, 5, 900)


@pytest.mark.parametrize("mechanism", ["grr", "hadamard", "oue", "olh", "block_hadamard"])
def test_whole_payloads(mechanism: str, letters: list[str]) -> None:
    study = study_of(CATEGORIES, {"one": {"mechanism": mechanism, "epsilon": 1.0}})
    reports = reports_of(study, letters)
    counts = asked("SELECT payload, count(*) AS count FROM reports GROUP BY ALL", reports)
    assert from_counts(study, counts) == from_reports(study, reports)


@pytest.mark.parametrize("domain", [CATEGORIES, NUMBERS])
def test_bits_by_place(domain: dict[str, Any], letters: list[str], numbers: Any) -> None:
    options = (
        {"mechanism": "oue"} if domain is CATEGORIES else {"mechanism": "binned", "oracle": "oue", "bins": 4}
    )
    study = study_of(domain, {"one": {"epsilon": 1.0, **options}})
    reports = reports_of(study, letters if domain is CATEGORIES else numbers)
    query = """
        SELECT place, sum(ascii(payload) >> place & 1) AS ones, count(*) AS reports
        FROM reports, range(4) AS places(place) GROUP BY place HAVING ones > 0
    """
    bits = [chr(byte) for byte in b"".join(reports.column("payload").to_pylist())]
    counts = asked(query, pa.table({"payload": bits}))
    assert from_counts(study, counts) == from_reports(study, reports)


def cells(study: Study, reports: pa.Table) -> dict[str, Any]:
    """The cells of a channel's reports, with exact sums."""
    mechanism: Any = study.attribute("x").versions[0].mechanism
    payloads = reports.column("payload").to_numpy()
    found, inverse = np.unique(
        mechanism.bucketise(payloads, study.attribute("x").buckets), return_inverse=True
    )
    steps = mechanism.fixed_point(payloads).astype(object)
    of = [steps[inverse == index] for index in range(len(found))]
    return {
        "cell": found,
        "count": [len(part) for part in of],
        "sum": [sum(part) for part in of],
        "squares": pa.array([sum(part**2) for part in of], pa.decimal128(38)),
    }


@pytest.mark.parametrize(
    "options",
    [
        {"mechanism": "square_wave"},
        {"mechanism": "piecewise"},
        {"mechanism": "hybrid"},
        {"mechanism": "general_wave"},
        {"mechanism": "stochastic_rounding"},
        {"mechanism": "laplace"},
        {"mechanism": "gaussian", "delta": 1e-6},
    ],
    ids=lambda options: options["mechanism"],
)
def test_cells_of_numbers(options: dict[str, Any], numbers: Any) -> None:
    study = study_of(NUMBERS, {"one": {"epsilon": 1.0, **options}}, attribute={"buckets": 64})
    reports = reports_of(study, numbers)
    counts = cells(study, reports)
    (whole,), (counted,) = from_reports(study, reports), from_counts(study, counts)
    moments = counted.statistic.moments[1]
    if moments.bounded:
        # Sums without tails come from the middles of cells; of one service they are not used
        # (estimators/means.py).
        assert abs(moments.bounded[0] / whole.statistic.moments[1].bounded[0] - 1) < 0.2
        moments = replace(moments, bounded=whole.statistic.moments[1].bounded)
    assert replace(counted.statistic, moments={1: moments}) == whole.statistic


def test_cells_without_sums_say_so_and_flag_nothing(numbers: Any) -> None:
    study = study_of(NUMBERS, {"one": {"mechanism": "laplace", "epsilon": 1.0}})
    reports = reports_of(study, numbers)
    counts = cells(study, reports)
    known = ldp.estimate(study, counts=counts)
    guessed = ldp.estimate(study, counts={"cell": counts["cell"], "count": counts["count"]})
    assert known.records() == ldp.estimate(study, reports).records()
    assert guessed[0].notes == ("the counts of one have no sums: the mean comes from the middles of cells",)
    assert guessed[0].mean == known[0].mean and guessed[0].intervals == known[0].intervals


def test_cells_that_users_sent_to_each_of_two_services(numbers: Any) -> None:
    services = {
        "one": {"mechanism": "square_wave", "epsilon": 1.0},
        "two": {"mechanism": "square_wave", "epsilon": 2.0},
    }
    study = study_of(NUMBERS, services, attribute={"buckets": 64, "joint_buckets": 16})
    tables = [reports_of(study, numbers), reports_of(study, numbers[300:], "two", 300)]
    rows: dict[tuple[Any, ...], list[list[int]]] = {}
    reports: dict[str, dict[str, list[int]]] = {}
    for index, (service, table) in enumerate(zip(services, tables, strict=True)):
        of: Any = study.attribute("x").versions[index].mechanism
        payloads = table.column("payload").to_numpy()
        told = of.bucketise(payloads, 64), of.fixed_point(payloads)
        for user, *numbers_of in zip(table.column("user_id").to_pylist(), *told, strict=True):
            reports.setdefault(str(user), {})[service] = list(map(int, numbers_of))
    for sent in reports.values():
        rows.setdefault(tuple(sent.get(name, [None])[0] for name in services), []).append(sent)  # type: ignore[arg-type]
    counts: dict[str, Any] = {"count": list(map(len, rows.values()))}
    for index, name in enumerate(services):
        of_name: list[list[Any]] = [[sent[name] for sent in users if name in sent] for users in rows.values()]
        counts[f"{name}_cell"] = [key[index] for key in rows]
        counts[f"{name}_sum"] = [sum(sent[1] for sent in users) for users in of_name]
        counts[f"{name}_squares"] = [str(sum(sent[1] ** 2 for sent in users)) for users in of_name]
    assert from_counts(study, counts) == from_reports(study, *tables)


def test_versions_and_windows_and_attributes() -> None:
    service = {
        "mechanism": "grr", "version_field": "app", "versions": {"1": {"epsilon": 0.5}, "2": {"epsilon": 1.0}}
    }  # fmt: skip
    study, times = (
        study_of(CATEGORIES, {"one": service}, windows={"size": "1d"}),
        START + DAY * np.arange(60) // 30,
    )
    clients = [ldp.Client(study, "x", "one", version=name) for name in ("1", "2")]
    tables = [
        client.reports(["a", "b"] * 30, 60 * index + np.arange(60), event_times=times)
        for index, client in enumerate(clients)
    ]
    query = """
        SELECT attribute, service, app AS version, date_trunc('day', event_time) AS window_start, payload,
          count(*) AS count
        FROM reports GROUP BY ALL
    """
    counts = asked(query, pa.concat_tables(tables))
    assert from_counts(study, counts) == from_reports(study, *tables)
    texts = {name: counts.column(name).cast(pa.string()) for name in counts.column_names}
    assert from_counts(study, texts) == from_counts(study, counts)


GRR = {"mechanism": "grr", "epsilon": 1.0}
#: A table, and what is said of it.
WRONG: list[tuple[Any, dict[str, Any], str]] = [
    ({}, {"payload": [0], "n": [1]}, "column 'n': counts have no such column"),
    ({}, {"payload": [0]}, "there is no column 'count'"),
    ({}, {"payload": [0, 3], "count": [5, 2]}, "row 1: payload outside mechanism: a report of one is"),
    ({}, {"payload": [0, None], "count": [5, 2]}, "row 1: give payload for the reports to one"),
    ({}, {"payload": [0], "count": [-1]}, "row 0: count must be a whole number from 0"),
    ({}, {"payload": [0], "count": [1.5]}, "found 1.5: doubles are not exact"),
    ({}, {"payload": [0], "count": [2], "service": ["on"]}, "unknown service 'on'; did you mean 'one'"),
    ({}, {"place": [0], "ones": [2], "reports": [5]}, "place: reports of one are not counted by place"),
    ({"windows": {"size": "1d"}}, {"payload": [0], "count": [1]}, "no column 'window_start'"),
    (
        {"windows": {"size": "1d"}},
        {"payload": [0], "count": [1], "window_start": ["2026-01-01T05:00:00Z"]},
        "row 0: no window of the study starts at window_start 2026-01-01T05:00:00Z",
    ),
    (
        {"windows": {"size": "1h", "joined": "1d"}},
        {"payload": [0], "count": [1], "window_start": ["2026-01-01T05:00:00Z"]},
        "windows.joined: counts do not say which reports come from one user",
    ),
    (
        {"services": {"one": GRR, "two": GRR}},
        {"payload": [0, 1], "count": [1, 1], "service": ["one", "two"]},
        "the reports of one and two are brought together by user",
    ),
    (
        {"services": {"one": {**GRR, "mechanism": "olh", "seeds": "any"}}},
        {"seed": [7], "hash": [1], "count": [1]},
        "with seeds: any almost every report has another seed",
    ),
    (
        {"services": {"one": {**GRR, "mechanism": "oue"}}},
        {"place": [0, 0], "ones": [2, 3], "reports": [5, 5]},
        "give one row for each place of one",
    ),
    (
        {"domain": NUMBERS, "services": {"one": {**GRR, "mechanism": "piecewise"}}},
        {"cell": [3], "count": [2], "sum": [2**40], "squares": [5]},
        "row 0: no reports of one have this count, sum and squares",
    ),
    (
        {"domain": NUMBERS, "services": {"one": {**GRR, "mechanism": "piecewise"}}},
        {"cell": [3], "count": [2], "sum": [5], "squares": [1e18]},
        "doubles are not exact, so CAST it AS DECIMAL",
    ),
]


@pytest.mark.parametrize(("keys", "table", "said"), WRONG, ids=range(len(WRONG)))
def test_what_is_wrong_is_named(keys: dict[str, Any], table: dict[str, Any], said: str) -> None:
    study = study_of(**{"domain": CATEGORIES, "services": {"one": GRR}, **keys})
    with pytest.raises(ValueError, match=said):
        ldp.estimate(study, counts=table)


def test_counts_come_alone() -> None:
    with pytest.raises(ValueError, match="counts: leave out reports"):
        ldp.estimate(study_of(CATEGORIES, {"one": GRR}), [], counts={})
    with pytest.raises(TypeError, match="counts are of type int"):
        ldp.estimate(study_of(CATEGORIES, {"one": GRR}), counts=3)
