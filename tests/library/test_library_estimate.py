"""``ldpbeam.estimate``: what it takes and refuses. Its numbers: test_every_way_gives_the_same_bits."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import ldpbeam as ldp

PEOPLE = 300

CATEGORIES = """\
study: categories
attributes:
  transport:
    domain: {categories: [car, bus, bike, train, foot, tram]}
    services:
      maps: {mechanism: grr, epsilon: 1.0}
      survey: {mechanism: oue, epsilon: 1.0}
      city: {mechanism: olh, epsilon: 1.0, seeds: 64}
    estimates: {joined: {estimator: ule}, averaged: {estimator: norm_sub}}
    top: 3
"""


def reported() -> tuple[ldp.Study, list[pa.Table]]:
    """A study of categories, and the reports of people, a table for each service."""
    study, rng = ldp.Study.from_yaml(CATEGORIES), np.random.default_rng(11)
    users = [f"person {place}" for place in range(PEOPLE)]
    values = rng.choice(["car", "bus", "bike", "train", "foot", "tram"], PEOPLE)
    return study, [
        ldp.Client(study, "transport", service, rng=rng).reports(values, users)
        for service in study.attributes["transport"].services
    ]


MINUTES = ldp.Study.from_dict(
    study="minutes",
    attributes={
        "minutes": {
            "domain": {"numeric": (0, 180)},
            "buckets": 16,
            "services": {"maps": {"mechanism": "square_wave", "epsilon": 1.0}},
            "estimates": {"spread": {"estimator": "ems"}},
        }
    },
)
WINDOWED = ldp.Study.from_dict(json.loads(MINUTES.text) | {"windows": {"size": "1h"}})
PAYLOADS = ldp.Client(MINUTES, "minutes", "maps", rng=np.random.default_rng(3)).reports(
    180 * np.random.default_rng(4).beta(3, 5, 500), [f"u{place}" for place in range(500)]
)


def columns(**changes: Any) -> dict[str, Any]:
    return {
        "user_id": PAYLOADS.column("user_id").to_pylist(),
        "payload": PAYLOADS.column("payload").to_numpy(),
        **changes,
    }


def test_a_study_with_one_attribute_and_service_needs_no_columns_for_them() -> None:
    expected = ldp.estimate(MINUTES, PAYLOADS).records()
    assert ldp.estimate(MINUTES, columns()).records() == expected
    assert ldp.estimate(MINUTES, columns(attribute="minutes", service="maps")).records() == expected
    assert ldp.estimate(MINUTES, columns(), attribute="minutes", service="maps").records() == expected


def test_tables_of_pandas_and_polars_and_records_of_arrow_are_all_taken() -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    expected = ldp.estimate(MINUTES, PAYLOADS).records()
    frame = pandas.DataFrame(columns())
    tables = [frame, polars.DataFrame(columns()), frame.assign(user_id=frame["user_id"].astype("category"))]
    tables += [PAYLOADS.to_batches()[0], PAYLOADS.to_reader()]
    for table in tables:
        assert ldp.estimate(MINUTES, table).records() == expected, type(table)


def test_payloads_of_several_types_come_in_one_column() -> None:
    study, tables = reported()
    expected = ldp.estimate(study, tables)
    records = [record for table in tables for record in table.to_pylist()]
    mixed = {name: [record[name] for record in records] for name in tables[0].column_names}
    found = ldp.estimate(study, mixed)
    assert found.records() == expected.records()
    assert found.counts == expected.counts
    pandas = pytest.importorskip("pandas")
    assert ldp.estimate(study, pandas.DataFrame(mixed)).records() == expected.records()


@pytest.mark.parametrize("kind", [np.longdouble, ">f8", ">i4", "u1", np.float16])
def test_numbers_of_every_type_of_numpy_are_payloads(kind: Any) -> None:
    service = {"mechanism": "grr", "epsilon": 1}
    attributes = {"x": {"domain": {"categories": 2}, "services": {"s": service}}}
    study = ldp.Study.from_dict(study="s", attributes=attributes)
    payloads = (np.arange(60) % 2).astype(kind)
    users = [f"u{index}" for index in range(60)]
    single = [{"user_id": user, "payload": payload} for user, payload in zip(users, payloads, strict=True)]
    nested = [{**report, "payload": np.asarray(report["payload"])} for report in single]
    for reports in ({"user_id": users, "payload": payloads}, single, nested):
        assert ldp.estimate(study, reports).counts["used"] == 60


def test_nonsense_is_counted_as_dead_letters_with_its_row() -> None:
    payload = columns()["payload"].copy()
    payload[[3, 5]] = 7.5, np.nan
    services = ["maps"] * 499 + ["map"]
    found = ldp.estimate(MINUTES, columns(payload=payload, service=services))
    assert [(letter["row"], letter["reason"]) for letter in found.dead_letters.to_pylist()] == [
        (3, "payload_outside_mechanism"),
        (5, "payload_not_a_number"),
        (499, "unknown_service"),
    ]
    assert found.counts["used"] == 497
    assert "payload outside mechanism" in found.summary()


def test_columns_may_have_other_names() -> None:
    study, tables = reported()
    names = {"user_id": "uid", "payload": "blob", "service": "user_id"}
    expected = ldp.estimate(study, tables)
    renamed = [table.rename_columns([names.get(own, own) for own in table.column_names]) for table in tables]
    records = [record for table in renamed for record in table.to_pylist()]
    together = {name: [record[name] for record in records] for name in renamed[0].column_names}
    for reports in (renamed, records, together, pd.DataFrame(together)):
        found = ldp.estimate(study, reports, columns=names)
        assert found.records() == expected.records()
        assert found.counts == expected.counts


NAIVE = datetime(2025, 11, 20, 10)


@pytest.mark.parametrize(
    "reports",
    [
        pd.DataFrame({"user_id": ["a"], "service": ["maps"], "payload": [0.5], "event_time": [NAIVE]}),
        {"user_id": ["a"], "service": ["maps"], "payload": [0.5], "event_time": [NAIVE]},
        {"user_id": "a", "service": "maps", "payload": 0.5, "event_time": NAIVE},
    ],
)
def test_times_without_a_zone_are_refused_with_how_to_give_them_one(reports: Any) -> None:
    study = WINDOWED
    with pytest.raises(ValueError, match=r"no zone: give times with a zone \(in pandas .dt.tz_localize"):
        ldp.estimate(study, reports)
    with pytest.raises(ValueError, match=r"event time 0 is .*: give times with a zone"):
        ldp.Client(study, "minutes", "maps").reports([50], event_times=[NAIVE])


class Sent(NamedTuple):
    """A report with fields."""

    user_id: str
    payload: float


@pytest.mark.parametrize(
    "of",
    [
        list,
        tuple,
        iter,
        lambda records: (record for record in records),
        lambda records: [Sent(record["user_id"], record["payload"]) for record in records],
        lambda records: [records[0], pa.Table.from_pylist(records[1:3]), *records[3:]],
        lambda records: pd.DataFrame(records).to_dict("records"),
        lambda records: pd.DataFrame(records).itertuples(index=False),
    ],
)
def test_single_reports_are_taken_as_a_table_of_them_is(of: Callable[[list[Any]], Any]) -> None:
    records = pa.table(columns()).slice(0, 40).to_pylist()
    whole = ldp.estimate(MINUTES, pa.Table.from_pylist(records))
    found = ldp.estimate(MINUTES, of(records))
    assert found.counts == whole.counts
    assert found.counts["used"] == 40
    assert found.to_arrow().equals(whole.to_arrow())


@pytest.mark.parametrize("as_table", [True, False])
def test_a_study_with_windows_needs_event_times_at_once(as_table: bool) -> None:
    study = WINDOWED
    record = {"user_id": "ann", "service": "maps", "payload": 0.5}
    with pytest.raises(ValueError, match="no column 'event_time': add it"):
        ldp.estimate(study, pa.Table.from_pylist([record]) if as_table else [record])


@pytest.mark.parametrize(
    ("reports", "given", "error", "sentence"),
    [
        ({"userid": ["a"], "payload": [0.5]}, {}, ValueError, "no column 'user_id'.* did you mean 'userid'"),
        ({"user_id": ["a"]}, {}, ValueError, "no column 'payload'"),
        (columns(payload=[0.5]), {}, ValueError, "different numbers of rows: user_id has 500, payload has 1"),
        (
            columns(payload=0.5), {}, ValueError,
            "the column 'payload' is of type float: give a value for each",
        ),
        (
            columns(payload=np.array(0.5)), {}, ValueError,
            "the column 'payload' is of type ndarray: give a value for each",
        ),
        ([1, 2], {}, TypeError, "reports are of type int: give a table"),
        (columns(), {"columns": {"user_id": "uid"}}, ValueError, "no column 'uid'"),
        ({"uids": ["a"]}, {"columns": {"user_id": "uid"}}, ValueError, "mean 'uids'.* columns={'user_id': "),
        (columns(), {"columns": {"userid": "u"}}, ValueError, "^columns: 'userid' is not .*mean 'user_id'"),
        (columns(), {"service": "map"}, ValueError, "the study has no such service; did you mean 'maps'"),
        (columns(), {"attribute": "x"}, ValueError, "the study has no such attribute; there are: minutes"),
        (columns(), {"start": 5, "stop": 5}, ValueError, "is not before"),
        (columns(), {"start": "2026-01-01T00:00"}, ValueError, "has no zone"),
        (columns(), {"start": "9999-12-31T23:59:58Z"}, ValueError, "outside the years 1900 to 2199"),
        (columns(), {"stop": 1_767_225_600}, ValueError, "looks like seconds"),
        (columns(), {"stop": "noon"}, ValueError, "stop='noon' is no time: give times with a zone"),
    ],
)  # fmt: skip
def test_a_table_that_cannot_be_one_of_reports_is_refused(
    reports: Any, given: Any, error: type[Exception], sentence: str
) -> None:
    with pytest.raises(error, match=sentence):
        ldp.estimate(MINUTES, reports, **given)


def test_a_study_with_several_services_asks_which() -> None:
    study, _ = reported()
    with pytest.raises(ValueError, match=r"no column 'service': add it, or give service=\.\.\."):
        ldp.estimate(study, {"user_id": ["a"], "payload": [1]})


def test_the_estimators_own_function_is_named_to_whom_mistakes_one_for_the_other() -> None:
    with pytest.raises(TypeError, match=r"ldpbeam\.estimators\.estimate"):
        ldp.estimate("ems", PAYLOADS)  # type: ignore[arg-type]


def test_no_report_at_all_gives_no_estimate_and_a_sentence() -> None:
    found = ldp.estimate(MINUTES, columns(user_id=[], payload=[]))
    assert len(found) == 0
    assert "no report could be used" in found.summary()
    assert Counter(found.counts["dead_letters_by_reason"]) == {}


def test_reports_of_too_few_users_give_no_estimate_and_another_sentence() -> None:
    attributes = {"x": {"domain": {"categories": 2}, "services": {"a": {"mechanism": "grr", "epsilon": 1.0}}}}
    study = ldp.Study.from_dict(study="few", attributes=attributes, publish={"at_least": 3})
    with pytest.warns(UserWarning, match="fewer than 3 users"):
        found = ldp.estimate(study, {"user_id": ["a", "b"], "payload": [0, 1]})
    assert (len(found), found.counts["used"]) == (0, 2)
    assert "no estimates: every window or group has fewer users or reports than" in found.summary()


def test_it_leaves_the_callers_threads_of_blas_as_they_were() -> None:
    threadpoolctl = pytest.importorskip("threadpoolctl")

    def threads() -> list[int]:
        return [pool["num_threads"] for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"]

    with threadpoolctl.threadpool_limits(2, "blas"):
        before = threads()
        ldp.estimate(MINUTES, PAYLOADS)
        assert threads() == before


MAPS = ldp.Study.from_dict(
    study="maps",
    attributes={
        "minutes": {
            "domain": {"numeric": [0, 180]},
            "services": {"maps": {"mechanism": "square_wave", "epsilon": 1.0}},
            "estimates": {"mean": {"estimator": "ivw"}},
        }
    },
)
TWO = {"user_id": ["ann", "bob"], "service": ["maps", "maps"], "payload": [0.4, 0.6]}


def test_categories_of_polars_are_texts() -> None:
    table = pl.DataFrame(TWO).with_columns(
        pl.col("user_id").cast(pl.Categorical), pl.col("service").cast(pl.Enum(["maps"]))
    )
    assert ldp.estimate(MAPS, table).records() == ldp.estimate(MAPS, TWO).records()


@pytest.mark.parametrize("series", [pd.Series([0.4]), pl.Series([0.4]), pa.chunked_array([[0.4]])])
def test_a_series_is_no_table(series: Any) -> None:
    with pytest.raises(TypeError, match="give a table of pandas"):
        ldp.estimate(MAPS, series)


def test_a_column_that_is_there_twice_is_refused_where_it_is_read() -> None:
    columns, names = [pa.array(values) for values in TWO.values()], list(TWO)
    with pytest.raises(ValueError, match="several columns 'payload': leave one"):
        ldp.estimate(MAPS, pa.table([*columns, columns[2]], names=[*names, "payload"]))
    with pytest.raises(ValueError, match="several columns 'report_id': leave one"):
        ldp.estimate(
            MAPS, pa.table([*columns, columns[0], columns[0]], names=[*names, "report_id", "report_id"])
        )
    more = pa.table([*columns, columns[2], columns[2]], names=[*names, "x", "x"])
    assert ldp.estimate(MAPS, more).counts["used"] == 2
