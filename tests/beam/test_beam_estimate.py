"""``reports | Estimate(study)`` in a pipeline on the local engine, beside ``ldpbeam estimate``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.io.gcp.pubsub import PubsubMessage
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from apache_beam.typehints.schemas import schema_from_element_type
from apache_beam.utils.timestamp import Timestamp
from support.beam_reports import FILES, KEPT, STUDY, WITH_INTERVALS, counts_of, records_in, rows_of, shares_of

import ldpbeam as ldp
from ldpbeam.beam import elements
from ldpbeam.schemas.outputs.tables import ESTIMATES, SHARES
from ldpbeam.schemas.reports.columns import Columns
from ldpbeam.times import milliseconds, rfc3339
from ldpbeam.transforms.reports.dead_letters import PLAIN

KEPT_STUDY = ldp.Study.from_yaml(STUDY)
RECORDS = records_in()
GOOD = RECORDS[0]


def local() -> beam.Pipeline:
    return beam.Pipeline(runner=FnApiRunner())


@pytest.fixture(scope="module")
def run(run_estimate: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What the command makes of the reports."""
    return run_estimate(tmp_path_factory.mktemp("run"), STUDY, FILES)


#: Other names of fields.
NAMES = {"user_id": "uid", "payload": "blob", "service": "payload", "event_time": "ts"}


def renamed(record: dict[str, Any]) -> dict[str, Any]:
    return {NAMES.get(name, name): value for name, value in record.items()}


def as_batches(records: list[dict[str, Any]]) -> list[pa.RecordBatch]:
    """Each kind of payload in a batch, as Arrow has one type for a column."""
    kinds: dict[type, list[dict[str, Any]]] = {}
    for record in records:
        kinds.setdefault(type(record["payload"]), []).append(record)
    return [pa.RecordBatch.from_pylist(own) for own in kinds.values()]


def with_beams_time(record: dict[str, Any]) -> dict[str, Any]:
    """The same report with its time in another field, as Beam has it."""
    rest = {name: value for name, value in record.items() if name != "event_time"}
    return {**rest, "at": Timestamp(milliseconds(record["event_time"]) / 1000)} if len(rest) > 3 else rest


def in_a_window(record: dict[str, Any]) -> TimestampedValue:
    """The same report without a field for its time."""
    time = Timestamp(milliseconds(record["event_time"]) / 1000) if "event_time" in record else 0
    return TimestampedValue({name: v for name, v in record.items() if name != "event_time"}, time)


def of_pubsub(record: dict[str, Any]) -> PubsubMessage:
    data = json.dumps(record).encode()
    return PubsubMessage(data, {"content-type": "application/json"}, str(RECORDS.index(record)))


def of_kafka(data: bytes, offset: int = 0, content_type: str = "application/json") -> beam.Row:
    """A Row as ``ReadFromKafka(with_metadata=True)`` gives."""
    headers = [beam.Row(key="trace", value=None), beam.Row(key="Content-Type", value=content_type.encode())]
    return beam.Row(topic="t", partition=1, offset=offset, key=None, value=data, timestamp=0, headers=headers)


#: All reports in one message.
LINES = "".join(json.dumps(record) + "\n" for record in RECORDS).encode()
#: Pipelines that estimate, and pipelines that count the same reports in other elements.
ELEMENTS: dict[str, Callable[[beam.Pipeline], Any]] = {
    "dicts": lambda pipeline: (
        pipeline | beam.Create(RECORDS) | beam.WindowInto(FixedWindows(60)) | ldp.beam.Estimate(KEPT_STUDY)
    ),
    "batches": lambda pipeline: (
        pipeline | beam.Create(as_batches(RECORDS)) | ldp.beam.Estimate(KEPT / "study.yaml")
    ),
}
COUNTED: dict[str, Callable[[beam.Pipeline], Any]] = {
    "files": lambda pipeline: (
        pipeline
        | ldp.beam.ReadReports(STUDY, [f"{KEPT}/reports/parquet/*", f"{KEPT}/reports/bad.jsonl"])
        | ldp.beam.Statistics(STUDY)
    ),
    "times in another field": lambda pipeline: (
        pipeline | beam.Create(map(with_beams_time, RECORDS)) | ldp.beam.Statistics(STUDY, event_time="at")
    ),
    "dicts with other names": lambda pipeline: (
        pipeline | beam.Create(map(renamed, RECORDS)) | ldp.beam.Statistics(STUDY, columns=NAMES)
    ),
    "messages of Pub/Sub": lambda pipeline: (
        pipeline | beam.Create(RECORDS) | beam.Map(of_pubsub) | ldp.beam.Statistics(STUDY)
    ),
    "a message of Kafka": lambda pipeline: (
        pipeline
        | beam.Create([LINES])
        | beam.Map(of_kafka, content_type="application/x-ndjson")
        | ldp.beam.Statistics(STUDY)
    ),
    "values of Kafka": lambda pipeline: (
        pipeline
        | beam.Create(RECORDS)
        | beam.Map(lambda record: (b"a key", json.dumps(record).encode()))
        | ldp.beam.Statistics(STUDY)
    ),
    "timestamps of elements": lambda pipeline: (
        pipeline
        | beam.Create(RECORDS)
        | beam.Map(in_a_window)
        | beam.WindowInto(FixedWindows(60))
        | ldp.beam.Statistics(STUDY, event_time=None)
    ),
}


def test_dicts_give_the_estimates_of_the_command(run: Any) -> None:
    assert len(run.estimates) > 10
    check("dicts", run)


def test_a_study_in_a_file_gives_the_same_with_intervals(run_estimate: Any, tmp_path: Path) -> None:
    check("batches", run_estimate(tmp_path, WITH_INTERVALS, FILES))


@pytest.mark.parametrize("kind", COUNTED)
def test_other_elements_give_the_same_statistics(kind: str, run: Any) -> None:
    with local() as pipeline:
        check_counted(COUNTED[kind](pipeline), run)


def test_records_may_be_gathered_a_few_at_a_time(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ldpbeam.beam.elements.GATHERED", 7)
    for kind in ("timestamps of elements", "values of Kafka"):
        with local() as pipeline:
            check_counted(COUNTED[kind](pipeline), run)


@pytest.mark.parametrize(("size", "waiting"), [(50, 0), (49, 1)])
def test_large_messages_do_not_wait_for_others(
    size: int, waiting: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ldpbeam.beam.elements.BATCH_BYTES", 100)
    decode = elements._Decode(Columns(), False, PLAIN)
    decode.start_bundle()
    assert not list(decode.process(b"x" * 50, Timestamp(2)))
    early = list(decode.process(b"x" * size, Timestamp(1)))
    late = list(decode.finish_bundle())
    assert [bool(early), bool(late)] == [not waiting, bool(waiting)]


#: A study whose reports have no users, so that only ids tell that one came twice.
NOBODY = """\
study: nobody
users: none
attributes:
  x: {domain: {numeric: [0, 1]}, services: {a: {mechanism: piecewise, epsilon: 1}}}
"""


def test_a_message_that_pubsub_delivers_twice_counts_once_and_others_come_once_each() -> None:
    report = b'{"payload": 0.5}'
    named = [PubsubMessage(report, {}, name) for name in ("5", "5", "6")]
    with local() as pipeline:
        messages = pipeline | beam.Create([*named, of_kafka(report, 0), of_kafka(report, 0), report, report])
        counts = (messages | ldp.beam.Statistics(NOBODY)).counts
        assert_that(counts, equal_to([("in", 7), ("used", 6), ("duplicates", 1)]))


def test_what_is_no_message_is_a_dead_letter_with_its_place() -> None:
    good = PubsubMessage(json.dumps(GOOD).encode(), {}, "5")
    messages = [PubsubMessage(b"[", {}, "9"), good, of_kafka(b"{", 7), of_kafka(b"", 8, "text/plain")]
    with local() as pipeline:
        found = pipeline | beam.Create(messages) | ldp.beam.Statistics(STUDY)
        letters = found.dead_letters | beam.Map(lambda row: (row.file, row.position, row.reason, row.reports))
        expected = [("t/1", 7, "not_json", 1), ("t/1", 8, "unknown_content_type", 1)]
        expected.append(("messages", 9, "unknown_content_type", 1))
        assert_that(letters, equal_to(expected), "letters")
        counts = found.counts | beam.Filter(lambda row: "/" not in row.name)
        expected_counts = {"in": 4, "used": 1, "dead_letters": 3}
        assert_that(counts, equal_to([*expected_counts.items()]), "counts")


def test_the_timestamp_of_a_message_is_the_event_time_of_no_report() -> None:
    with pytest.raises(Exception, match="event_time=None: an element is a message"), local() as pipeline:
        _ = pipeline | beam.Create([b"{}"]) | ldp.beam.Estimate(STUDY, event_time=None)


def test_a_batch_says_in_its_metadata_how_its_reports_were_made() -> None:
    columns = {"user_id": ["u", "v"], "payload": [0.5, 0.25], "event_time": ["2026-11-20T07:00:00Z"] * 2}
    named = {"ldpbeam.attribute": "minutes", "ldpbeam.service": "maps"}
    good = pa.RecordBatch.from_pydict(columns).replace_schema_metadata(named)
    other = good.replace_schema_metadata({**named, "ldpbeam.epsilon": "1.0"})
    with local() as pipeline:
        found = pipeline | beam.Create([good, other]) | ldp.beam.Estimate(STUDY)
        expected = {"in": 4, "used": 2, "dead_letters": 2, "dead_letters_by_reason/other_stamp": 2}
        assert_that(found.counts, equal_to([*expected.items()]))


def check(kind: str, run: Any) -> None:
    """Compare all that a pipeline gives with what the command wrote."""
    with local() as pipeline:
        found = ELEMENTS[kind](pipeline)
        assert_that(found.estimates, equal_to(rows_of(run.estimates)))
        assert_that(found.shares, equal_to(shares_of(run.estimates)), "shares")
        check_counted(found, run)


def check_counted(found: Any, run: Any) -> None:
    """Compare what a pipeline counted with what the command wrote."""
    statistics = found.statistics | beam.Map(
        lambda row: (row.study, row.attribute, row.window_start, row.group, ldp.beam.statistic_of(row))
    )
    expected = [
        ("kept", own.attribute, rfc3339(own.window[0]), own.group, own.statistic) for own in run.snapshots
    ]
    assert_that(statistics, equal_to(expected), "statistics")
    assert_that(found.counts, equal_to([*counts_of(run.accounting).items()]), "counts")
    reasons = found.dead_letters | beam.Map(lambda row: (row.reason, row.reports))
    assert_that(reasons, equal_to([("no_user_id", 1)]), "dead letters")


def test_the_counters_have_the_names_of_the_counts(run: Any) -> None:
    pipeline = local()
    _ = pipeline | beam.Create(RECORDS) | ldp.beam.Estimate(STUDY)
    result = pipeline.run()
    found = result.metrics().query(beam.metrics.MetricsFilter().with_namespace("ldpbeam"))
    counters = {own.key.metric.name: own.committed for own in found["counters"]}
    expected = {name.rpartition("/")[2]: reports for name, reports in counts_of(run.accounting).items()}
    assert counters == {**expected, "estimates": len(run.estimates)}
    assert {own.key.metric.name for own in found["distributions"]} == {
        "join_milliseconds",
        "solve_milliseconds",
    }


def test_rows_are_columns_of_the_tables_and_have_schemas() -> None:
    for kind, table in ((ldp.beam.EstimateRow, ESTIMATES), (ldp.beam.ShareRow, SHARES)):
        # What is estimated in a pipeline belongs to no run.
        assert list(kind._fields) == [name for name in table.names if name != "run"]
    found = local() | beam.Create(RECORDS[:1]) | ldp.beam.Estimate(STUDY)
    kinds = [getattr(found, name).element_type for name in found._fields]
    assert kinds == [
        ldp.beam.EstimateRow, ldp.beam.ShareRow, ldp.beam.StatisticRow, ldp.beam.DeadLetterRow,
        ldp.beam.CountRow,
    ]  # fmt: skip
    for kind in kinds:
        assert isinstance(beam.coders.registry.get_coder(kind), beam.coders.RowCoder)
        # Beam pickles a field whose type its schemas do not know, and then no sink of Rows takes it.
        assert "logical_type" not in str(schema_from_element_type(kind))


def test_keys_hide_users_and_bad_records_are_kept_if_asked() -> None:
    key = b"k" * 16
    with local() as pipeline:
        bad = pipeline | beam.Create([{"user_id": "u", "attribute": "sushi", "payload": 1.0}])
        plain = bad | "plain" >> ldp.beam.Estimate(STUDY, keep_bad_records=True)
        assert_that(
            plain.dead_letters | "records" >> beam.Map(lambda row: (row.reason, b"sushi" in row.record)),
            equal_to([("unknown_attribute", True)]),
        )
        hidden = bad | "hidden" >> ldp.beam.Estimate(STUDY, user_id_key=key)
        both = (plain.dead_letters, hidden.dead_letters) | beam.Flatten() | beam.Map(lambda row: row.sha256)
        assert_that(both | beam.Distinct() | beam.combiners.Count.Globally(), equal_to([2]), "hashes")


def test_mistakes_are_told_when_the_pipeline_is_built(small_text: str) -> None:
    for wrong, sentence in (
        ({"attribute": "y"}, "attribute='y': the study has no such attribute; there are: x"),
        ({"service": "c"}, "service='c': the study has no such service; there are: a, b"),
        ({"columns": {"user": "uid"}}, "columns: 'user' is not a column .* did you mean 'user_id'"),
        ({"columns": {"event_time": "ts"}, "event_time": "at"}, "'ts' there; leave out event_time='at'"),
        ({"columns": {"event_time": "ts"}, "event_time": None}, "'ts' there; leave out event_time=None"),
        ({"shards": 0}, "shards=0: from 1 to 65536"),
        ({"user_id_key": b"short"}, "user_id_key has 5 bytes: 16 or more are needed"),
        ({"user_id_key": "sixteen letters or more"}, "user_id_key is of type str: give bytes"),
    ):
        with pytest.raises(ValueError, match=sentence):
            ldp.beam.Estimate(small_text, **wrong)
    with pytest.raises(ldp.StudyError):
        ldp.beam.Estimate({"study": "s"})
    with pytest.raises(ValueError, match="no file has this name"):
        ldp.beam.ReadReports(small_text, "/nowhere/*.avro")
    with pytest.raises(ValueError, match="user_id_key has 5 bytes"):
        ldp.beam.ReadReports(small_text, "/nowhere/*.avro", user_id_key=b"short")


def test_files_that_cannot_be_read_are_told_of_by_the_names_of_arguments(
    small_text: str, tmp_path: Path
) -> None:
    (tmp_path / "note.txt").write_text("no report")
    for patterns, sentence in (
        ("/nowhere/*.avro", r"^patterns /nowhere/\*.avro: no file has this name"),
        ([], "^patterns is empty"),
        ("", "^patterns '': no file has this name"),
        (f"{tmp_path}/*", "leave them out of patterns, or count .* with skip_bad_files=True"),
    ):
        with pytest.raises(ValueError, match=sentence):
            ldp.beam.ReadReports(small_text, patterns)


@pytest.mark.parametrize("keep", [False, True])
def test_a_record_may_have_names_that_are_no_text(small_text: str, keep: bool) -> None:
    with local() as pipeline:
        reports = pipeline | beam.Create([{"user_id": "ann", 3: "x"}])
        found = reports | ldp.beam.Estimate(small_text, keep_bad_records=keep)
        reasons = found.dead_letters | beam.Map(lambda row: (row.reason, row.record))
        assert_that(reasons, equal_to([("no_service", b'{"3": "x", "user_id": "ann"}' if keep else None)]))


def test_an_element_of_another_type_is_named() -> None:
    with (
        pytest.raises(Exception, match="an element is of type str: give dicts, Beam Rows"),
        local() as pipeline,
    ):
        _ = pipeline | beam.Create(["a report"]) | ldp.beam.Estimate(STUDY)
