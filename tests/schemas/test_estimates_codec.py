"""Estimates as lines of JSON, and read from them."""

from __future__ import annotations

import io
import json
import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ldpbeam import Attribute, Categories, Estimate, Numeric, ServiceVersion, build_mechanism, empty
from ldpbeam.certainty import Intervals, by_condition
from ldpbeam.domains import KeyValues
from ldpbeam.mechanisms import PrivKV
from ldpbeam.schemas.outputs.checked import read_record
from ldpbeam.schemas.outputs.estimates import estimate_record, json_fields, write_json_lines
from ldpbeam.schemas.outputs.older import as_today
from ldpbeam.schemas.outputs.records import EstimateRecord
from ldpbeam.schemas.outputs.snapshots import Snapshot
from ldpbeam.study import Study, StudyAttribute, Summary
from ldpbeam.times import milliseconds as milliseconds_of
from ldpbeam.times import rfc3339

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
WINDOW = (1_767_225_600_000, 1_767_229_200_500)


def study_of(attribute: Attribute, *quantiles: float, **summary: Any) -> Study:
    described = StudyAttribute({}, {}, Summary(quantiles, **summary))
    return Study("study", {attribute.name: described}, {attribute.name: attribute}, "")


def asked(domain: Numeric | Categories, buckets: int = 4) -> Attribute:
    name = "laplace" if isinstance(domain, Numeric) else "grr"
    return Attribute("x", domain, buckets, (ServiceVersion("s", "", build_mechanism(name, domain, 1.0)),))


NUMBERS = asked(Numeric(0.0, 8.0))
COLOURS = asked(Categories(("red", "green", "blue")))
DISTRIBUTION = Estimate(
    estimator="em",
    services=("s",),
    reports=10,
    users=9,
    distribution=np.array([0.5, 0.25, 0.25, 0.0]),
    mean=2.5,
    variance=1.5,
    converged=False,
    n_iterations=12,
    log_likelihoods=np.array([-9.5, -8.25]),
    warnings=("raise max_iterations", "few reports"),
    details={"joint_buckets": 8, "information_kept": {"s": 0.5}},
    intervals=Intervals(
        0.9,
        ends=by_condition(
            certain={"mean": (2.0, 3.5), "variance": (1.25, 2.0)},
            if_smooth={
                "quantiles": [[0.5, 1.5], [1.75, 2.25]],
                "ranges": [[0.25, 0.5]],
                "distribution": [[0.25, 0.75], [0.0, 0.5], [0.125, 0.375], [0.0, 0.25]],
            },
        ),
        methods={"mean": "sums"},
        flags={"if_smooth": "unexplained"},
    ),
)
MEAN = Estimate("ivw", ("s",), 10, None, mean=2.5, standard_error=0.125)
FREQUENCIES = Estimate(
    "inversion",
    ("s",),
    10,
    10,
    distribution=np.array([0.75, 0.5, -0.25]),
    intervals=Intervals(
        0.95,
        simultaneous=True,
        ends=by_condition(certain={"frequencies": [[0.5, 1.0], [0.25, 0.75], [0.0, 0.25]]}),
        methods={"frequencies": "shares"},
    ),
)


KEYS = Attribute(
    "x", KeyValues(("a", "b"), Numeric(0.0, 10.0)), 4, (ServiceVersion("s", "", PrivKV(1.0, size=2)),)
)
KEY_MEANS = Estimate(
    "privkv_mle",
    ("s",),
    10,
    9,
    frequencies=np.array([0.75, 0.1]),
    key_means=np.array([2.5, 7.5]),
    intervals=Intervals(
        0.95,
        ends=by_condition(
            certain={"frequencies": [[0.5, 1.0], [0.0, 0.25]], "key_means": [[2.0, 3.0], [0.0, 10.0]]}
        ),
        flags={"certain": "false reports"},
    ),
)


def snapshot(attribute: Attribute, window: tuple[int, int] | None = None, **more: Any) -> Snapshot:
    return Snapshot("x", window, **{"group": None, "other_groups": 0, **more}, statistic=empty(attribute))


ESTIMATES = [
    estimate_record(
        study_of(NUMBERS, 0.25, 0.5, ranges=((2.0, 5.0),)),
        snapshot(NUMBERS, WINDOW, group="north"),
        "all",
        DISTRIBUTION,
    ),
    estimate_record(study_of(NUMBERS, 0.5), snapshot(NUMBERS, other_groups=3, pane_index=2), "mean", MEAN),
    estimate_record(study_of(COLOURS, 0.5), snapshot(COLOURS, pane_timing="late"), "colour", FREQUENCIES),
    estimate_record(study_of(KEYS), snapshot(KEYS, complete=False), "keys", KEY_MEANS),
]
RECORDS = [json_fields(record) for record in ESTIMATES]


def lines_of(records: list[EstimateRecord]) -> list[bytes]:
    stream = io.BytesIO()
    write_json_lines(stream, records)
    return stream.getvalue().splitlines(keepends=True)


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (1_767_225_600_000, "2026-01-01T00:00:00Z"),
        (1_767_225_600_001, "2026-01-01T00:00:00.001Z"),
        (1_767_225_600_250, "2026-01-01T00:00:00.250Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (7_258_118_399_999, "2199-12-31T23:59:59.999Z"),
    ],
)
def test_a_time_is_rfc_3339_with_milliseconds_where_there_are_some(milliseconds: int, text: str) -> None:
    assert rfc3339(milliseconds) == text


@settings(derandomize=True, deadline=None, max_examples=300)
@given(milliseconds=st.integers(-2_208_988_800_000, 7_258_118_399_999))
def test_no_time_loses_a_millisecond(milliseconds: int) -> None:
    parsed = datetime.fromisoformat(rfc3339(milliseconds))
    assert parsed == EPOCH + timedelta(milliseconds=milliseconds)
    assert milliseconds_of(rfc3339(milliseconds)) == milliseconds


def test_quantiles_whose_levels_are_close_are_all_there() -> None:
    levels = (0.1234567, 0.1234568, 0.9999999)
    record = estimate_record(study_of(NUMBERS, *levels), snapshot(NUMBERS), "all", DISTRIBUTION)
    assert record.quantiles is not None
    assert [*record.quantiles] == ["0.1234567", "0.1234568", "0.9999999"]


def test_a_distribution_of_numbers_comes_with_its_edges_quantiles_and_moments() -> None:
    assert RECORDS[0] == {
        "study": "study",
        "attribute": "x",
        "name": "all",
        "estimator": "em",
        "services": ["s"],
        "group": "north",
        "other_groups": 0,
        "window_start": "2026-01-01T00:00:00Z",
        "window_end": "2026-01-01T01:00:00.500Z",
        "pane_index": 0,
        "pane_timing": "on_time",
        "complete": True,
        "reports": 10,
        "users": 9,
        "converged": False,
        "n_iterations": 12,
        "log_likelihood": -8.25,
        "bucket_edges": [0.0, 2.0, 4.0, 6.0, 8.0],
        "distribution": [0.5, 0.25, 0.25, 0.0],
        "quantiles": {"0.25": 1.0, "0.5": 2.0},
        "ranges": [{"low": 2.0, "high": 5.0, "share": 0.375}],
        "mean": 2.5,
        "variance": 1.5,
        "warnings": ["raise max_iterations", "few reports"],
        "details": {"joint_buckets": 8, "information_kept": {"s": 0.5}},
        "intervals": {
            "level": 0.9,
            "simultaneous": False,
            "ends": {
                "certain": {
                    "mean": {"low": [2.0], "high": [3.5]},
                    "variance": {"low": [1.25], "high": [2.0]},
                },
                "if_smooth": {
                    "quantiles": {"low": [0.5, 1.75], "high": [1.5, 2.25]},
                    "ranges": {"low": [0.25], "high": [0.5]},
                    "distribution": {"low": [0.25, 0.0, 0.125, 0.0], "high": [0.75, 0.5, 0.375, 0.25]},
                },
            },
            "methods": {"mean": "sums"},
            "flags": {"if_smooth": "unexplained"},
        },
    }


def test_ranges_are_shares_of_parts_of_buckets_and_end_with_the_domain() -> None:
    study = study_of(NUMBERS, ranges=((0.0, 8.0), (-1.0, 2.0), (1.0, 5.0), (5.5, 99.0)))
    answer = replace(DISTRIBUTION, intervals=None)
    ranges = estimate_record(study, snapshot(NUMBERS), "all", answer).ranges
    # Buckets are 2 wide, with shares 1/2, 1/4, 1/4 and 0.
    assert [own.share for own in ranges] == pytest.approx([1.0, 0.5, 0.25 + 0.25 + 0.125, 0.0625])
    assert estimate_record(study, snapshot(NUMBERS), "mean", MEAN).ranges is None


def test_top_lists_the_most_frequent_and_ties_keep_their_order() -> None:
    for attribute, answer, expected in (
        (COLOURS, replace(FREQUENCIES, distribution=np.array([0.25, 0.5, 0.25])), ["green", "red"]),
        (KEYS, replace(KEY_MEANS, frequencies=np.array([0.1, 0.75])), ["b", "a"]),
    ):
        top = estimate_record(study_of(attribute, top=2), snapshot(attribute), "all", answer).top
        assert [own.name for own in top] == expected
        shares = answer.frequencies if attribute is KEYS else answer.distribution
        assert [own.frequency for own in top] == sorted(shares, reverse=True)[:2]
    assert "top" not in RECORDS[2]


@pytest.mark.parametrize(
    ("least", "most", "said"),
    [
        (
            [0.05, 0, 0, 0],
            [0.1, 0.016, 0.5, 0.5],
            "if others are spread smoothly, 5% to 10% of people are at the low end of the domain, 0 to 2;",
        ),
        (
            [0, 0, 0, 0.4],
            [0.5, 0.5, 0.13, 0.5],
            "if others are spread smoothly, 40% to 50% of people are at the high end of the domain, 6 to 8;",
        ),
        ([0.05, 0, 0, 0.009], [0.1, 0.017, 0.001, 0.1], None),
    ],
)
def test_very_many_people_at_an_end_are_noted(
    least: list[float], most: list[float], said: str | None
) -> None:
    assert noted(NUMBERS, least, most) == said


@pytest.mark.parametrize(("share", "said"), [(0.9, "at least 90% of people answer green;"), (0.89, None)])
def test_very_many_people_with_one_answer_are_noted(share: float, said: str | None) -> None:
    assert noted(COLOURS, [0.0, share, 0.0], [0.1, 1.0, 0.1]) == said


def noted(attribute: Attribute, least: list[float], most: list[float]) -> str | None:
    """The beginning of the only note of an estimate whose shares have these intervals."""
    numbers = attribute is NUMBERS
    ends = {"distribution" if numbers else "frequencies": np.array([least, most]).T}
    answer = replace(
        DISTRIBUTION,
        distribution=np.full(len(least), 1 / len(least)),
        intervals=Intervals(
            0.95, ends=by_condition(if_smooth=ends) if numbers else by_condition(certain=ends)
        ),
    )
    notes = estimate_record(study_of(attribute), snapshot(attribute), "e", answer).notes
    return next((note.partition(";")[0] + ";" for note in notes), None)


def test_a_mean_comes_with_its_error_and_without_a_distribution() -> None:
    record = RECORDS[1]
    assert (record["mean"], record["standard_error"], record["users"]) == (2.5, 0.125, None)
    assert (record["window_start"], record["window_end"], record["group"]) == (None, None, None)
    assert (record["other_groups"], record["pane_index"], record["n_iterations"]) == (3, 2, 0)
    assert record["converged"] is True
    parts = {"distribution", "frequencies", "quantiles", "log_likelihood", "variance", "warnings", "details"}
    assert not parts & set(record)


def test_categories_come_with_their_frequencies_even_negative_ones() -> None:
    record = RECORDS[2]
    assert record["categories"] == ["red", "green", "blue"]
    assert record["frequencies"] == [0.75, 0.5, -0.25]
    assert record["pane_timing"] == "late"
    assert not {"distribution", "bucket_edges", "quantiles", "mean"} & set(record)
    assert record["intervals"] == {
        "level": 0.95,
        "simultaneous": True,
        "ends": {"certain": {"frequencies": {"low": [0.5, 0.25, 0.0], "high": [1.0, 0.75, 0.25]}}},
        "methods": {"frequencies": "shares"},
        "flags": {},
    }


def test_keys_come_with_their_frequencies_and_means() -> None:
    record = RECORDS[3]
    assert (record["keys"], record["frequencies"]) == (["a", "b"], [0.75, 0.1])
    assert (record["key_means"], record["complete"]) == ([2.5, 7.5], False)
    assert not {"categories", "distribution", "mean"} & set(record)


def test_the_run_is_named_last_where_it_is_given() -> None:
    for record, line in zip(ESTIMATES, RECORDS, strict=True):
        named = json_fields(replace(record, run="run-1"))
        assert list(named.items()) == [*line.items(), ("run", "run-1")]


def test_a_line_is_read_as_the_estimate_that_was_written() -> None:
    assert [read_record(EstimateRecord, line) for line in lines_of(ESTIMATES)] == ESTIMATES


def test_a_line_of_an_earlier_version_is_read_as_this_version_writes_it() -> None:
    """Its intervals of quantiles were of the model, with certain ones beside them, and flags by number."""
    one, two = {"low": 1.0, "high": 2.0}, {"low": 0.5, "high": 3.0}
    old = {
        "level": 0.9, "simultaneous": False, "mean": one, "quantiles": {"0.5": one},
        "ranges": {"low": [0.1], "high": [0.2]}, "distribution": {"low": [0.0], "high": [1.0]},
        "cdf": {"at": [0.0], "low": [0.1], "high": [0.2]},
        "strict": {"cdf": {"at": [0.0], "low": [0.0], "high": [0.3]}, "quantiles": {"0.5": two},
                   "ranges": {"low": [0.0], "high": [0.5]}},
        "any_look": {"reports": 300, "mean": two},
        "methods": {"mean": "unbiased reports", "quantiles": "posterior"},
        "flags": {"quantiles": "spikes", "strict": "some are false"},
    }  # fmt: skip
    line = as_today(json.dumps({**RECORDS[0], "intervals": old}).encode())
    found = read_record(EstimateRecord, line).intervals
    assert found is not None and (found.level, found.narrowest, list(found.at)) == (0.9, 300, [0.0])
    assert found.flags == {"certain": "some are false", "if_smooth": "spikes"}
    held = {condition: {*parts} for condition, parts in found.ends.items()}
    bounded = {"quantiles", "ranges", "cdf"}
    assert held == {
        "certain": {"mean", *bounded}, "if_smooth": {"distribution", *bounded}, "any_look": {"mean"}
    }  # fmt: skip
    for part, condition, ends in (
        ("mean", "certain", [1.0, 2.0]), ("mean", "any_look", [0.5, 3.0]), ("cdf", "certain", [0.0, 0.3]),
        ("quantiles", "certain", [0.5, 3.0]), ("quantiles", "if_smooth", [1.0, 2.0]),
    ):  # fmt: skip
        assert found.ends[condition][part].columns.tolist() == [ends]


def test_an_earlier_version_wrote_the_ends_for_the_largest_share_in_top() -> None:
    top = [{"name": "red", "frequency": 0.75, "low": 0.4, "high": 1.0}]
    old = {"level": 0.95, "frequencies": {"low": [0.5, 0.25, 0.0], "high": [1.0, 0.75, 0.25]}}
    line = json.dumps({**RECORDS[2], "top": top, "intervals": old}).encode()
    found = read_record(EstimateRecord, as_today(line)).intervals
    assert found is not None and found.ends["largest"]["frequencies"].columns.tolist() == [[0.4, 1.0]]


def test_lines_of_this_version_and_what_is_no_estimate_stay_as_they_are() -> None:
    for line in (*lines_of(ESTIMATES), b"{", b'{"intervals": {"mean": 3}}', b'["intervals": {}]'):
        assert as_today(line) == line


def test_each_line_is_one_json_object_and_the_same_records_give_the_same_bytes() -> None:
    lines = lines_of(ESTIMATES)
    assert [json.loads(line) for line in lines] == RECORDS
    assert all(line.startswith(b"{") and line.endswith(b"}\n") for line in lines)
    assert lines_of(ESTIMATES) == lines
    assert lines_of([]) == []


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_no_estimate_has_a_number_that_json_does_not_have(number: float) -> None:
    for answer in (replace(MEAN, mean=number), replace(MEAN, distribution=np.array([number] * 4))):
        with pytest.raises(ValueError, match="finite number"):
            estimate_record(study_of(NUMBERS), snapshot(NUMBERS), "mean", answer)


def test_no_estimate_has_shares_of_other_names_than_the_study() -> None:
    short = np.array([0.5])
    for attribute, answer in (
        (COLOURS, replace(FREQUENCIES, distribution=short)),
        (KEYS, replace(KEY_MEANS, frequencies=short)),
    ):
        with pytest.raises(ValueError, match="1 shares for"):
            estimate_record(study_of(attribute), snapshot(attribute), "shares", answer)


def test_an_estimate_holds_a_number_in_eight_bytes() -> None:
    shares = ESTIMATES[0].distribution
    assert memoryview(shares).nbytes == 8 * len(shares)
    # A copy with another field does not copy the numbers.
    assert replace(ESTIMATES[0], run="run-1").distribution is shares
