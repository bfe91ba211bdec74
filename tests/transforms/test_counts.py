"""Tables of counts give the statistics of the reports that were counted."""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import ldpbeam as ldp
from ldpbeam.library.estimate_counts import columns_of
from ldpbeam.library.tables import decoded_batches
from ldpbeam.schemas.outputs.snapshots import Snapshot
from ldpbeam.study import Study
from ldpbeam.transforms.counted.columns import CountTable
from ldpbeam.transforms.counted.statistics import CountedReports
from ldpbeam.transforms.reports.validation import columns_or_only
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
    return tally_of(study, decoded_batches(tables, columns_or_only(study, None, None))).snapshots


def from_counts(study: Study, table: Any, **only: str) -> list[Snapshot]:
    return CountedReports(CountTable(study, columns_of(table), **only)).snapshots()


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


def test_seeds_and_hashes_in_columns_of_their_own(letters: list[str]) -> None:
    study = study_of(CATEGORIES, {"one": {"mechanism": "olh", "epsilon": 1.0}})
    reports = reports_of(study, letters)
    raw = np.frombuffer(b"".join(reports.column("payload").to_pylist()), "<u4").reshape(-1, 2)
    seeds = pa.table({"seed": raw[:, 0], "hash": raw[:, 1]})
    counts = asked("SELECT seed, hash, count(*) AS count FROM reports GROUP BY ALL", seeds)
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
        # Of one service they are not used (estimators/means.py).
        assert abs(moments.bounded[0] / whole.statistic.moments[1].bounded[0] - 1) < 0.2
        mechanism: Any = study.attribute("x").versions[0].mechanism
        payloads = reports.column("payload").to_numpy()
        bounded = mechanism.fixed_point(mechanism.bounded(payloads))
        of_cell = mechanism.bucketise(payloads, 64)
        counts["bounded"] = [int(bounded[of_cell == cell].sum()) for cell in counts["cell"]]
    assert from_counts(study, counts) == [whole]


def test_cells_without_sums_say_so_and_flag_nothing(numbers: Any) -> None:
    study = study_of(NUMBERS, {"one": {"mechanism": "laplace", "epsilon": 1.0}})
    reports = reports_of(study, numbers)
    counts = cells(study, reports)
    known = ldp.estimate(study, counts=counts)
    guessed = ldp.estimate(study, counts={"cell": counts["cell"], "count": counts["count"]})
    assert known.records() == ldp.estimate(study, reports).records()
    assert guessed[0].notes == ("the counts of one have no sums: the mean comes from the middles of cells",)
    assert guessed[0].mean == known[0].mean and guessed[0].intervals == known[0].intervals
