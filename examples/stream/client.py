"""Clients of a study that publish perturbed reports to Pub/Sub: one a message, or many in one."""

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ldpbeam.answers.people import People
from ldpbeam.pipelines.simulated.perturb import simulate
from ldpbeam.pipelines.simulated.report_files import SentReports
from ldpbeam.schemas.reports.columns import ATTRIBUTE_KEY, SERVICE_KEY
from ldpbeam.schemas.reports.payloads import payload_column
from ldpbeam.study import Study


class Outgoing(NamedTuple):
    """A message to publish."""

    data: bytes
    content_type: str
    reports: int


def perturbed(
    study: Study,
    attribute: str,
    values: NDArray[np.float64],
    users: Sequence[str],
    times: NDArray[np.int64],
    seed: int | None,
) -> list[SentReports]:
    """What the clients of some people send to every service of an attribute; times in epoch milliseconds."""
    people = People(values, pa.array(users), times, None, skipped=0, clipped=0)
    asked = study.attribute(attribute)
    return list(
        simulate(study, asked, people, services=asked.services, versions={}, start=0, spread=1, seed=seed)
    )


def in_batches(sent: SentReports, size: int) -> Iterator[Outgoing]:
    """Messages of up to so many reports: an Arrow IPC stream each."""
    metadata = {ATTRIBUTE_KEY: sent.attribute, SERVICE_KEY: sent.service}
    table = pa.RecordBatch.from_pydict(
        {
            "user_id": sent.users.cast(pa.binary()),
            "event_time": pa.array(sent.times),
            "payload": payload_column(sent.payloads),
        }
    ).replace_schema_metadata(metadata)
    for start in range(0, table.num_rows, size):
        part = table.slice(start, size)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_batch(part)
        yield Outgoing(sink.getvalue().to_pybytes(), "application/vnd.apache.arrow.stream", part.num_rows)


def one_by_one(sent: SentReports) -> Iterator[Outgoing]:
    """A message a report, in JSON, with a report id of the client's own."""
    columns = zip(sent.users.to_pylist(), sent.times.tolist(), sent.payloads.tolist(), strict=True)
    for number, (user, time, payload) in enumerate(columns):
        record: dict[str, Any] = {
            "user_id": user,
            "attribute": sent.attribute,
            "service": sent.service,
            "event_time": time,
            "report_id": f"{sent.service}-{user}-{number}",
            "payload": payload,
        }
        yield Outgoing(json.dumps(record).encode(), "application/json", 1)


def publish(publisher: Any, topic: str, messages: Sequence[Outgoing]) -> None:
    """Send messages, and wait until the server has them all."""
    sent = [
        publisher.publish(topic, message.data, **{"content-type": message.content_type})
        for message in messages
    ]
    for future in sent:
        future.result(timeout=60)
