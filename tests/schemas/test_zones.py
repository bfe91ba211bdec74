"""Event times without a zone, in every format, where the study names the zone of its clocks."""

from __future__ import annotations

import datetime as dt
import io
import json
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.encoded import arrow_stream, avro_file
from support.sent_messages import read

import ldpbeam as ldp
from ldpbeam.cells import clock_of
from ldpbeam.schemas.messages.decode import ARROW, JSON, Message
from ldpbeam.schemas.reports.columns import Columns
from ldpbeam.transforms.sources.files import ReportFile, sniff, split
from ldpbeam.transforms.sources.read import read_range

ZONE = "Europe/Berlin"
#: What the clocks of Berlin show, and the moment, by the standard library. Twice, never, and far from now.
SHOWN = {
    "2026-01-01T00:00:00": 1, "2026-07-01T00:00:00.5": 2, "2026-03-29T01:59:59": 1,
    "2026-03-29T02:30:00": None, "2026-03-29T03:00:00": 2, "2026-10-25T01:59:59": 2,
    "2026-10-25T02:30:00": None, "2026-10-25T03:00:00": 1, "2299-01-01T00:00:00": 1,
}  # fmt: skip
CLOCKS = [dt.datetime.fromisoformat(text) for text in SHOWN]
MOMENTS = [
    None
    if hours is None
    else int(clock.replace(tzinfo=dt.timezone(dt.timedelta(hours=hours))).timestamp() * 1000)
    for clock, hours in zip(CLOCKS, SHOWN.values(), strict=True)
]
#: The last is beyond the years that text may have.
IN_TEXT = [*MOMENTS[:-1], None]
IN_ZONE, WITHOUT = Columns(clock=clock_of(ZONE)), Columns()


def decoded_file(path: Path, wanted: Columns) -> list[Any]:
    file = sniff(str(path), path.stat().st_size)
    assert isinstance(file, ReportFile)
    batches = [batch for part in split(file) for batch in read_range(part, wanted)]
    return [time for batch in batches for time in batch.column("event_time").to_pylist()]


def columns() -> dict[str, pa.Array]:
    users = [f"{n:02}" for n in range(len(CLOCKS))]
    return {
        "user_id": pa.array(users),
        "event_time": pa.array(CLOCKS),
        "payload": pa.array([0.5] * len(users)),
    }


@pytest.mark.parametrize(("wanted", "expected"), [(IN_ZONE, MOMENTS), (WITHOUT, [None] * len(MOMENTS))])
class TestTimesWithoutAZone:
    @pytest.mark.parametrize("old", [True, False])
    def test_in_parquet(self, tmp_path: Path, wanted: Columns, expected: list[Any], old: bool) -> None:
        """``old`` are the times of 96 bits that Spark writes."""
        path = tmp_path / "r.parquet"
        pq.write_table(pa.table(columns()), path, use_deprecated_int96_timestamps=old)
        assert decoded_file(path, wanted) == expected

    @pytest.mark.parametrize(("unit", "size"), [("millis", 1_000), ("micros", 10**6)])
    def test_in_avro(
        self, tmp_path: Path, wanted: Columns, expected: list[Any], unit: str, size: int
    ) -> None:
        path = tmp_path / "r.avro"
        kind = {"type": "long", "logicalType": f"local-timestamp-{unit}"}
        types = {"user_id": "string", "event_time": ["null", kind], "payload": "double"}
        schema = {
            "type": "record",
            "name": "R",
            "fields": [{"name": name, "type": kind} for name, kind in types.items()],
        }
        rows = pa.table(columns()).to_pylist()
        path.write_bytes(avro_file(schema, rows))
        stream = io.BytesIO(path.read_bytes())
        assert next(fastavro.reader(stream))["event_time"] == CLOCKS[0]
        assert decoded_file(path, wanted) == expected

    @pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
    def test_in_messages_of_arrow(self, wanted: Columns, expected: list[Any], unit: str) -> None:
        chosen = slice(0, 8)
        given = {name: column[chosen] for name, column in columns().items()}
        given["event_time"] = given["event_time"].cast(pa.timestamp(unit), safe=False)
        found = read_messages(Message("1", arrow_stream(pa.record_batch(given)), ARROW), wanted)
        whole = [None if time is None or unit != "s" else time // 1000 * 1000 for time in expected[chosen]]
        assert found == (whole if unit == "s" else expected[chosen])


def read_messages(message: Message, wanted: Columns) -> list[Any]:
    found = read(message, wanted=wanted)
    return [time for batch in found.batches for time in batch.column("event_time").to_pylist()]


@pytest.mark.parametrize("among", [None, 1_767_225_600_000, "2026-01-01T00:00:00Z", ["x"]])
def test_text_without_a_zone_is_read_also_among_values_of_other_types(tmp_path: Path, among: Any) -> None:
    lines = [json.dumps({"user_id": "a", "event_time": time, "payload": 0.5}) for time in (*SHOWN, among)]
    path = tmp_path / "r.jsonl"
    path.write_text("\n".join(lines) + "\n")
    last = 1_767_225_600_000 if isinstance(among, int | str) else None
    assert decoded_file(path, IN_ZONE) == [*IN_TEXT, last]
    assert decoded_file(path, WITHOUT) == [None] * len(SHOWN) + [last]
    single = Message("1", lines[0].encode(), JSON)
    assert read_messages(single, IN_ZONE) == MOMENTS[:1]


@pytest.mark.parametrize("years", [-4_000, 1600, 2300, 200_000])
def test_times_of_96_bits_far_from_now_do_not_become_others_that_are_near(tmp_path: Path, years: int) -> None:
    """Nanoseconds in 64 bits wrap after 292 years."""
    path = tmp_path / "r.parquet"
    days = np.array([years - 1970], "datetime64[Y]").astype("datetime64[D]").astype(np.int64)
    times = pa.array(days * 86_400_000_000).cast(pa.timestamp("us"))
    pq.write_table(
        pa.table({"user_id": ["a"], "event_time": times, "payload": [0.5]}),
        path,
        use_deprecated_int96_timestamps=True,
    )
    (time,) = decoded_file(path, Columns(clock=clock_of("UTC")))
    assert time == days[0] * 86_400_000


STUDY = """
study: clocks
windows: {size: 1h}
publish: {at_least: 1}
attributes:
  m: {domain: {numeric: [0, 1]}, services: {a: {mechanism: square_wave, epsilon: 1}}}
"""


def test_the_library_takes_tables_without_a_zone_by_the_zone_of_the_study() -> None:
    table = pa.table({name: column[:3] for name, column in columns().items()})
    with pytest.raises(ValueError, match="have no zone"):
        ldp.estimate(ldp.Study.from_yaml(STUDY), table)
    for reports in (table, table.to_pylist()):
        found = ldp.estimate(ldp.Study.from_yaml(f"{STUDY}zone: {ZONE}\n"), reports)
        starts = [record.window[0] for record in found if record.window is not None]
        assert starts == sorted(moment // 3_600_000 * 3_600_000 for moment in MOMENTS[:3] if moment)


def test_a_zone_that_is_none_is_refused_and_a_study_without_one_is_the_study_of_before() -> None:
    for zone in ("Nowhere/Town", "../etc", "Europe", "''"):
        with pytest.raises(ldp.StudyError, match="is no time zone"):
            ldp.Study.from_yaml(f"{STUDY}zone: {zone}\n")
    plain, given = ldp.Study.from_yaml(STUDY), ldp.Study.from_yaml(f"{STUDY}zone: UTC\n")
    assert plain.fingerprint != given.fingerprint
    assert "zone" not in plain.text
