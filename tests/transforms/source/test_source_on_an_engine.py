"""The source of streams as engines have it: pickled, read to its end, unpacked."""

from __future__ import annotations

from collections import Counter, deque
from pathlib import Path

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.internal import pickler
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from support.driven_source import DISORDER, LETTER, NOW, OPENED, SECOND, WAITING, Fake, at, batch, windows_at

from ldpbeam.transforms.reports.batches import WATERMARK
from ldpbeam.transforms.reports.counts import COUNTS
from ldpbeam.transforms.reports.dead_letters import DEAD, Disclosure
from ldpbeam.transforms.sources import source
from ldpbeam.transforms.sources.feeds import FeedBatch
from ldpbeam.transforms.sources.reader import TakenBatch
from ldpbeam.transforms.sources.reading import Reading, ReadingOptions
from ldpbeam.transforms.sources.source import ReadStream, Unpack
from ldpbeam.transforms.state.journal import named_windows
from ldpbeam.windows import Windows


def test_a_parcel_is_unpacked_to_batches_dead_letters_and_counts() -> None:
    own = batch(at(1), at(2)).replace_schema_metadata({"file": "feed"})
    feed_batch = FeedBatch([own, batch(at(3))], [LETTER], ["r"], NOW, ["in/a.avro"])
    given = list(Unpack(Disclosure(records=True)).process(TakenBatch(feed_batch, 0)))
    tagged = [(one.tag, one.value) for one in given if isinstance(one, beam.pvalue.TaggedOutput)]
    assert [value for tag, value in tagged if tag == COUNTS] == [
        ("in", 6),
        ("damaged_file/in/a.avro", 1),
        ("dead_letters_by_reason/not_json", 3),
        ("dead_letters", 3),
    ]
    (letters,) = (value for tag, value in tagged if tag == DEAD)
    assert letters.to_pylist()[0]["record"] == b"{"
    batches = [one for one in given if isinstance(one, pa.RecordBatch)]
    assert [one.num_rows for one in batches] == [2, 1]
    assert batches[0].schema.metadata == {b"file": b"feed", WATERMARK: b"0"}
    assert batches[1].schema.metadata == {WATERMARK: b"0"}
    plain = next(
        iter(
            one
            for one in Unpack(Disclosure()).process(TakenBatch(feed_batch, None))
            if hasattr(one, "schema")
        )
    )
    assert plain.schema.metadata == {b"file": b"feed"}


#: What pipelines gave, by the name of the feed: the event times of decoded reports, and counts.
GIVEN: dict[str, tuple[list[int], Counter[str]]] = {}


def _take_down(batch: pa.RecordBatch, label: str) -> None:
    GIVEN[label][0].extend(batch.column("event_time").to_pylist())


def _count(pair: tuple[str, int], label: str) -> None:
    GIVEN[label][1][pair[0]] += pair[1]


MANY = tuple(f"part-{number}" for number in range(1000))


@pytest.mark.parametrize("done", [(), MANY], ids=len)
def test_on_an_engine_one_reader_reads_a_run_to_its_end(
    done: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "BUNDLE_SECONDS", 1e-6)
    monkeypatch.setattr(source, "POLL_SECONDS", 0.01)
    feed = Fake(done=done)
    times = [at(second) for second in range(-40, 0)]
    WAITING[feed.name] = deque(
        FeedBatch([batch(time)], [LETTER] if time == at(-10) else [], [f"r{time}"], NOW) for time in times
    )
    # The clock of an engine cannot be set.
    windows = Windows(10 * SECOND, 10 * SECOND, max_age=2**42)
    reading = Reading(feed, ("x",), windows, str(tmp_path), feed.name, ReadingOptions(DISORDER, 200))
    GIVEN[feed.name] = [], Counter()
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        read = pipeline | ReadStream(reading, Disclosure())
        _ = read.decoded | "TakeDown" >> beam.Map(_take_down, feed.name)
        _ = read[COUNTS] | "Count" >> beam.Map(_count, feed.name)
    decoded, counts = GIVEN[feed.name]
    assert sorted(decoded) == times
    assert counts == {"in": 43, "dead_letters_by_reason/not_json": 3, "dead_letters": 3}
    (opened,) = OPENED[feed.name]
    assert opened.acknowledged == [f"r{time}" for time in times]
    assert opened.closed
    assert named_windows(str(tmp_path), feed.name) == windows_at(-40, -30, -20, -10)


def test_a_source_is_the_same_bytes_wherever_it_has_been() -> None:
    windows = Windows(10 * SECOND, 10 * SECOND)
    made = pickler.dumps(source.Source(Reading(Fake(done=MANY), ("x",), windows, "out", "run", DISORDER)))
    # A worker never has the source that was made, but what came over the wire.
    first = pickler.dumps(pickler.loads(made))
    assert pickler.dumps(pickler.loads(first)) == first
