"""What is estimated, and what one report and one message can cost: the table of docs/limits.md."""

from __future__ import annotations

import struct
import warnings
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.test_pipeline import TestPipeline
from apache_beam.testing.util import assert_that, equal_to
from support.security_page import rows_of, section
from support.tallied import tallied

import ldpbeam as ldp
from ldpbeam.answers.ledger import Ledger
from ldpbeam.answers.published import Least, Size, chosen, smallest, warnings_of
from ldpbeam.beam.solve_windows import Solve
from ldpbeam.cells import Cells
from ldpbeam.fit.spending import Spending
from ldpbeam.folders.output import Output
from ldpbeam.pipelines.spool.finish import Finishing, Pane
from ldpbeam.pipelines.spool.place import StreamOutput
from ldpbeam.schemas.files.json_lines import BadLine, decode_lines
from ldpbeam.schemas.outputs.snapshots import Snapshot
from ldpbeam.statistics import Answers, tally
from ldpbeam.transforms.outputs.on_engines import WriteSnapshots
from ldpbeam.transforms.outputs.snapshots import SHARED_FILES, snapshot_file
from ldpbeam.transforms.reports.batches import tagged
from ldpbeam.transforms.reports.counts import CHECKED, REASON, REFUSED, refused_payloads
from ldpbeam.transforms.reports.validation import Validation, wanted_columns
from ldpbeam.transforms.segments import write_panes
from ldpbeam.transforms.windows.cut import Pieces, each_window
from ldpbeam.transforms.windows.split import Split

HOUR = 3_600_000
START = 1_795_168_800_000  # 2026-11-20T10:00:00Z
NUMBER = {
    "domain": {"numeric": [0, 1]},
    "services": {"a": {"mechanism": "piecewise", "epsilon": 1.0}},
    "estimates": {"mean": {"estimator": "ivw"}},
}


def study_of(**more: Any) -> ldp.Study:
    return ldp.Study.from_dict(
        {"study": "costs", "attributes": {"x": NUMBER}, "windows": {"size": "1h"}} | more
    )


STUDY = study_of()
SERVICES = NUMBER | {"services": dict.fromkeys("ab", NUMBER["services"]["a"])}


def snapshot(users: int, hour: int = 0, group: str | None = None, study: ldp.Study = STUDY) -> Snapshot:
    attribute, rng = study.attribute("x"), np.random.default_rng(users)
    payloads = attribute.versions[0].mechanism.perturb(rng.random(users), rng)
    statistic = tally(attribute, users, [Answers(0, np.arange(users), payloads)])
    window = START + hour * HOUR, START + (hour + 1) * HOUR
    return Snapshot("x", window, group, 0, statistic)


def estimated(study: ldp.Study, *records: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """The estimates of reports, and the counts."""
    table = pa.Table.from_pylist([{"payload": 0.5, "event_time": START, **record} for record in records])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        found = ldp.estimate(study, table)
    return list(found), dict(found.counts)


def test_a_window_with_one_report_is_not_estimated_and_is_counted() -> None:
    one, two = snapshot(1), snapshot(2)
    found = chosen(STUDY, [one], {})
    assert found.snapshots == []
    assert found.counts == {
        "not_estimated": 1, "reports_not_estimated": 1, "windows_beyond": 0, "windows_with_one_report": 1,
    }  # fmt: skip
    assert chosen(STUDY, [two], {}) == ([two], {})
    # A pane that replaces another counts nothing again.
    assert chosen(STUDY, [replace(one, pane_timing="late")], {}) == ([], {})


@pytest.mark.parametrize(("bad", "flagged"), [(1, False), (2, True)])
def test_an_estimate_of_a_service_whose_payloads_are_refused_says_so(bad: int, flagged: bool) -> None:
    reports = [{"user_id": f"u{i}", "payload": 9.0 if i < bad else 0.5} for i in range(100)]
    (record,), counts = estimated(STUDY, *reports)
    assert counts.get("payloads_refused", {}) == ({"x/a": 0.02} if flagged else {})
    assert any("2.0% of the payloads of a were refused" in text for text in record.warnings) == flagged
    intervals = record.intervals
    assert intervals is not None and intervals.methods
    assert ("were refused" in intervals.flags.get("certain", "")) == flagged


def test_texts_that_do_not_decode_count_as_refused_payloads_of_each_service() -> None:
    # A client that writes .5 and 1 for its shares: which of its reports are no JSON depends on the noise.
    good = [f'{{"user_id": "u{n}", "service": "a", "payload": 1}}' for n in range(96)]
    counts = Counter[str]()
    wanted = wanted_columns(TWO := study_of(windows=None, attributes={"x": SERVICES}), None, None)
    for item in decode_lines(0, "\n".join([*good, *[good[0].replace(": 1}", ": .5}")] * 4]).encode(), wanted):
        if isinstance(item, BadLine):
            counts[f"{REASON}not_json"] += item.reports
        else:
            counts += Validation(TWO).validate(item).counts
    assert counts[f"{REASON}not_json"] == 4
    counts |= {f"{CHECKED}x/b": 996, f"{REFUSED}x/b": 6}
    assert refused_payloads(counts) == {"x/a": 0.04}
    assert refused_payloads(counts | {f"{REFUSED}x/b": 7}) == {"x/a": 0.04, "x/b": 0.011}


def test_users_are_counted_and_not_reports_where_they_are_known() -> None:
    study = study_of(publish={"at_least": 3})
    many = replace(snapshot(2), statistic=replace(snapshot(2).statistic, reports=9))
    assert chosen(study, [many], {}).snapshots == []
    unknown = replace(many, statistic=replace(many.statistic, users=None))
    assert chosen(study, [unknown], {}).snapshots == [unknown]


def test_a_study_without_windows_and_groups_estimates_one_report() -> None:
    study = study_of(windows=None)
    assert study.publish.at_least == 1
    assert [solved.reports for solved in estimated(study, {"user_id": "u"})[0]] == [1]
    assert study_of(windows=None, groups={"field": "g"}).publish.at_least == 2
    assert estimated(study_of(windows=None, publish={"at_least": 2}), {"user_id": "u"})[0] == []


def test_defaults_do_not_change_the_fingerprint_and_other_values_do() -> None:
    # That of the same study before there was the key.
    assert STUDY.fingerprint == study_of(publish={}).fingerprint
    others = [{"at_least": 3}, {"windows": 9}]
    found = {study_of(publish=own).fingerprint for own in others}
    found |= {study_of(windows={"size": "1h", "max_age": "30d"}).fingerprint, STUDY.fingerprint}
    assert len(found) == 4


@pytest.mark.parametrize(("estimates", "apart"), [(1, 2), (2, 1), (7, 0)])
def test_of_too_many_windows_with_too_many_groups_the_largest_have_theirs_one_by_one(
    estimates: int, apart: int
) -> None:
    of = {f"mean_{n}": {"estimator": "ivw"} for n in range(estimates)}
    study = study_of(
        publish={"windows": 2}, groups={"field": "g"}, attributes={"x": NUMBER | {"estimates": of}}
    )
    records = [
        {"user_id": f"{hour}/{group}/{n}", "event_time": START + hour * HOUR, "g": f"g{group}"}
        for hour in range(2)
        for group in range(9)
        for n in range(3 - hour)
    ]
    found, counts = estimated(study, *records)
    first = len(found) and sum(record.group is not None for record in found) // estimates
    assert (first, counts.get("windows_with_groups_together", 0)) == (9 * apart, 2 - apart)
    together = {(record.other_groups, record.reports) for record in found if record.group is None}
    assert together == {(9, 9 * (3 - hour)) for hour in range(apart, 2)}
    assert sum(record.reports for record in found) == estimates * len(records)
    assert any("are estimated together" in text for text in warnings_of(study, counts)) == (apart < 2)


def test_of_too_many_windows_the_largest_are_estimated_and_of_equal_ones_the_later() -> None:
    study = study_of(publish={"windows": 2}, attributes={"x": NUMBER, "y": NUMBER})
    sizes = {"x": [Size(5, 0), Size(3, 1), Size(3, 2)], "y": [Size(1, 0), Size(1, 1)]}
    assert smallest(study, sizes) == {"x": Least(Size(3, 2), Size(3, 1))}
    study = study_of(publish={"windows": 2})
    records = [
        {"user_id": f"u{hour}/{n}", "event_time": START + hour * HOUR}
        for hour, users in enumerate([2, 4, 3, 2])
        for n in range(users)
    ]
    found, counts = estimated(study, *records)
    assert [solved.reports for solved in found] == [4, 3]
    assert (counts["windows_beyond"], counts["not_estimated"], counts["reports_not_estimated"]) == (2, 2, 4)
    assert counts["used"] == counts["in"] == 11
    said = list(warnings_of(study, counts))
    assert len(said) == 2
    assert "or is beyond the 2 of an attribute" in said[0]
    assert "2 windows are beyond the 2 that are estimated: raise publish.windows" in said[1]


def test_only_a_run_says_that_statistics_are_written() -> None:
    table = pa.table({"user_id": ["u"], "payload": [0.5], "event_time": [START]})
    with pytest.warns(UserWarning, match="1, with 1 report in all; 1 window with one report each$"):
        found = ldp.estimate(STUDY, table)
    (said,) = warnings_of(STUDY, found.counts)
    assert said.endswith("1 window with one report each; their statistics are written")


def test_workers_choose_the_same_windows_as_the_library() -> None:
    study = study_of(publish={"windows": 2})
    given = [("x", [snapshot(users, hour)]) for hour, users in enumerate([2, 4, 3, 2, 1])]
    with TestPipeline(runner=FnApiRunner()) as pipeline:
        solved, counts = pipeline | beam.Create(given) | Solve(study)
        sizes = solved | beam.Map(lambda own: (own.snapshots[0].statistic.reports, len(own.estimates)))
        assert_that(sizes, equal_to([(2, 0), (4, 1), (3, 1), (2, 0), (1, 0)]), "solved")
        total = counts | beam.CombinePerKey(sum) | beam.Filter(lambda pair: pair[1] > 0)
        expected = [
            ("not_estimated", 3),
            ("reports_not_estimated", 5),
            ("windows_beyond", 2),
            ("windows_with_one_report", 1),
        ]
        assert_that(total, equal_to(expected), "counts")


def _split(times: list[int], study: ldp.Study = STUDY) -> tuple[list[Any], Counter[str]]:
    """(keys, counts) of reports at some times that come to a stream now."""
    columns = {
        "user": pa.array([b"u%d" % n for n in range(len(times))]),
        "event_time": pa.array(times, pa.int64()),
        "payload": pa.array([0.5] * len(times)),
    }
    function = Split(Pieces(study.windows, 1, each_window), clock=True)
    function.start_bundle()
    batch = tagged(pa.RecordBatch.from_pydict(columns), "x", 0)
    counts: Counter[str] = Counter()
    for one in function.process(batch):
        counts.update(dict([one.value]))
    return [one.value[0] for one in function.finish_bundle()], counts


def _windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time_ns", lambda: START * 1_000_000)
    hours = [START - hour * HOUR for hour in range(-48, 30_000)]
    keys, counts = _split(hours)
    assert len(keys) == 1_000 + 24
    assert counts["out_of_range"] == len(hours) - len(keys)
    # Seven days, where a thousand windows are less.
    minutes = study_of(windows={"size": "1m", "allowed_lateness": "2m"})
    assert minutes.windows is not None
    assert minutes.windows.oldest_age == 7 * 24 * HOUR + 120_000
    keys, counts = _split(hours, study_of(windows={"size": "1h", "max_age": "3h"}))
    assert len(keys) == 3 + 24


def _groups(_: pytest.MonkeyPatch) -> None:
    study = study_of(groups={"field": "g", "at_most": 3})
    single = [{"user_id": f"u{n}", "g": f"g{n}"} for n in range(50)]
    found, counts = estimated(study, *single)
    assert [(solved.other_groups, solved.reports) for solved in found] == [(47, 47)]
    assert (counts["not_estimated"], counts["reports_not_estimated"]) == (3, 3)


@pytest.fixture
def folder(tmp_path: Path) -> Output:
    return Output(STUDY, str(tmp_path), "run")


def _files(output: Output) -> None:
    """A pane of one report, and one of two."""
    run = StreamOutput(STUDY, output.output, output.run)
    how = Finishing(run, Spending(START, START, 0, Cells(HOUR), 1))
    for users, files in ((1, 1), (2, 1 + 4)):
        own = snapshot(users, hour=users)
        (stored,) = write_panes(run.spool, users, [snapshot_file(STUDY, output.run, [own])])
        how.finish(Pane("x", *(own.window or (0, 0)), 0, stored))
        names = [path for path in Path(output.output).rglob("*.run.*") if path.is_file()]
        assert len(names) == files, names


def _files_of_estimate(output: Output) -> None:
    """Forty windows of one report each."""
    few = [("x", [snapshot(1, hour)]) for hour in range(40)]
    with TestPipeline(runner=FnApiRunner()) as pipeline:
        _ = pipeline | beam.Create(few) | WriteSnapshots(STUDY, output.output, output.run)
    assert len(list(Path(output.output).iterdir())) == SHARED_FILES == 16


def _refused(**wrong: Any) -> dict[str, Any]:
    """What is counted of three reports that have nothing right; nothing is estimated of them."""
    vector = {"domain": {"coordinates": ["rest", "run"], "values": [0, 1]}, "services": NUMBER["services"]}
    study = study_of(attributes={"x": NUMBER, "pulse": vector})
    found, counts = estimated(study, *({"user_id": f"u{n}", "attribute": "x", **wrong} for n in range(3)))
    assert found == []
    return dict(counts["dead_letters_by_reason"])


def _coordinates(_: pytest.MonkeyPatch) -> None:
    third = struct.pack("<Id", 2, 0.5)
    assert _refused(attribute="pulse", payload=third) == {"payload_outside_mechanism": 3}


def _unknown(_: pytest.MonkeyPatch) -> None:
    assert _refused(attribute="y") == {"unknown_attribute": 3}
    assert _refused(service="b") == {"unknown_service": 3}


def _dead_letters(_: pytest.MonkeyPatch) -> None:
    """Three, though each report has several mistakes."""
    assert sum(_refused(attribute="y", service="b", payload=9.0, event_time=None).values()) == 3


def _entries(_: pytest.MonkeyPatch) -> None:
    study = study_of(groups={"field": "g", "at_most": 3}, epsilon_cap=1.0)
    reports = [
        {"user_id": f"{hour}/{n}", "g": f"g{n}", "event_time": START + hour * HOUR}
        for hour in range(2)
        for n in range(50)
    ]
    records = [{"attribute": "x", "service": "a", "payload": 0.5, **report} for report in reports]
    ledger = Ledger(study)
    ledger.add(tallied(study.text, records).snapshots)
    assert sum(len(list(windows)) for _, windows in ledger.alike()) == 2 * (3 + 1)


#: By the first cell of a row of the table.
COSTS: dict[str, Any] = {
    "open windows of a stream": _windows, "windows of a batch run": _files_of_estimate, "groups": _groups,
    "files of a stream": _files, "coordinates of a vector": _coordinates, "attributes and services": _unknown,
    "dead letters": _dead_letters, "entries of the ledger": _entries,
}  # fmt: skip
#: The rows of the tests of too many windows above.
WINDOWS = ("estimates of single groups", "windows that are solved")


@pytest.mark.parametrize("row", COSTS)
def test_a_client_makes_no_more_than_the_table_says(
    row: str, monkeypatch: pytest.MonkeyPatch, folder: Output
) -> None:
    COSTS[row](folder if COSTS[row] in (_files, _files_of_estimate) else monkeypatch)


def test_every_row_of_the_table_has_a_test() -> None:
    # The first ten are those of tests/transforms/test_bounds_of_numbers.py.
    rows = [row for row, *_ in rows_of(section("How many a client can make"))][10:]
    assert sorted(rows) == sorted([*COSTS, *WINDOWS])
