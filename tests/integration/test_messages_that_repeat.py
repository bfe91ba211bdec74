"""Messages of few bytes that repeat much for each of their reports, beside honest ones, by both servers."""

from __future__ import annotations

import io
import os
import random
import string
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from kafka_messages import new_topic, produce
from stream_messages import MINUTE, WEEK_AGO, client, evenly, one_by_one, publish, reports_of, rides
from stream_runs import Stream, statistics_of, streaming

pytestmark = pytest.mark.slow

SIZE = 10 * MINUTE
STUDY = rides("size: 10m, allowed_lateness: 10m")
ARROW = "application/vnd.apache.arrow.stream"
#: JSON writes six bytes for each.
LONG, ROWS = "\x01" * 200_000, 600
NOISE = "".join(random.Random(1).choices(string.printable[:94], k=900_000))
#: What a run may take, whatever comes in: MB of memory, and bytes of output for each byte.
MOST_MEMORY, MOST_OUT = 700, 64


def stream_of(columns: dict[str, pa.Array], rows: int | None = None, **metadata: str) -> bytes:
    """An Arrow message, whose metadata every report has."""
    table, sink = pa.table(columns), io.BytesIO()
    named = {"attribute": "minutes", "service": "maps"} | metadata
    table = table.replace_schema_metadata({f"ldpbeam.{key}": text for key, text in named.items()})
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table, rows)
    return sink.getvalue()


def repeated(value: str) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(ROWS, np.int16)), pa.array([value]))


MESSAGES = {
    "payloads": stream_of({"payload": repeated(LONG)}),
    "ids": stream_of({"user_id": repeated(LONG), "payload": pa.nulls(ROWS, pa.float64())}),
    "fields that are not read": stream_of({"z": repeated(LONG), "payload": pa.nulls(ROWS, pa.float64())}),
    "a service": stream_of({"payload": repeated(LONG)}, service=NOISE[:200_000]),
    "a stamp, and payloads": stream_of({"payload": repeated(LONG)}, options=NOISE),
    "a stamp of each batch": stream_of({"payload": pa.nulls(ROWS, pa.float64())}, 2, options=NOISE[:60_000]),
    "a schema": stream_of(
        {f"c{n}": pa.nulls(ROWS, pa.int8()) for n in range(2_000)} | {"payload": repeated("")}
    ),
}


def memory_of(stream: Stream) -> float:
    """The most MB that a process of a run has taken."""
    lines = [Path(f"/proc/{each}/status").read_text().splitlines() for each in stream.processes()]
    return max(int(line.split()[1]) / 1024 for each in lines for line in each if line.startswith("VmHWM"))


def seconds_of(stream: Stream) -> float:
    """Of CPU that a run has taken."""
    ticks = [Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split() for each in stream.processes()]
    return sum(int(each[11]) + int(each[12]) for each in ticks) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("source", ["kafka", "pubsub"])
def test_messages_that_repeat_cost_little_and_all_honest_reports_are_used(
    source: str, request: pytest.FixtureRequest, batch_of: Any, tmp_path: Path
) -> None:
    sent = reports_of(STUDY, "people", evenly(WEEK_AGO, 2 * SIZE, 500), seed=1)
    bad = [client.Outgoing(data, ARROW, ROWS) for data in MESSAGES.values()]
    honest = one_by_one(sent)
    messages = [*honest[:500], *bad, *honest[500:]]
    assert max(map(len, MESSAGES.values())) < 10**6
    if source == "kafka":
        address = request.getfixturevalue("kafka").address
        options = ["--kafka", address, "--topic", new_topic(address)]
        produce(address, options[-1], messages)
    else:
        names = request.getfixturevalue("topic_and_subscription")(request.getfixturevalue("pubsub"))
        options = ["--subscription", names.subscription]
        publish(names.topic, messages)
    options += ["--max-disorder", "1h", "--stop-when-idle", "5s", "--keep-bad-records"]
    with streaming(tmp_path, STUDY, *options) as stream:
        stream.wait_until_said("^run .* reading ")
        stream.wait_until(lambda: stream.left.accounting.get("in", 0) >= len(honest) + ROWS * len(bad))
        memory, seconds = memory_of(stream), seconds_of(stream)
        assert stream.wait() == 0, stream.said
        left = stream.left
    assert left.accounting["used"] == len(honest)
    assert left.accounting["dead_letters"] == ROWS * len(bad)
    assert left.statistics == statistics_of(batch_of(sent).snapshots)
    came = sum(len(each.data) for each in bad)
    written = sum(path.stat().st_size for path in (left.run_folder / "dead_letters").iterdir())
    print(f"{source}: {came:,} bytes in, {written:,} out, {seconds:.1f} CPU-s, {memory:.0f} MB")
    assert memory < MOST_MEMORY
    assert written < MOST_OUT * came
