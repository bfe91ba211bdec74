"""An unbounded source as somebody else's pipeline has one, and a sink; workers of Flink import this file."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.io.unbounded_source import CheckpointMark, UnboundedReader, UnboundedSource
from apache_beam.utils.timestamp import MAX_TIMESTAMP, Timestamp

import ldpbeam as ldp
from ldpbeam.times import milliseconds
from ldpbeam.transforms.engine_times import FINISHED


class Mark(CheckpointMark):
    """How many records had been read."""

    def __init__(self, read: int) -> None:
        self.read = read


class Records(UnboundedSource):
    """Records in the order of their event times, which are their timestamps too.

    Args:
        records: the records, with event times as text.
        ends: whether the source ends; if not, its watermark passes every window and the job runs on.
    """

    def __init__(self, records: list[dict[str, Any]], ends: bool) -> None:
        self.records = sorted(records, key=time_of)
        self.ends = ends

    def split(self, desired_num_splits: int, options: Any = None) -> list[UnboundedSource]:
        return [self]

    def create_reader(self, options: Any, checkpoint_mark: CheckpointMark | None) -> UnboundedReader:
        return Reader(self, checkpoint_mark.read if isinstance(checkpoint_mark, Mark) else 0)

    def get_checkpoint_mark_coder(self) -> beam.coders.Coder:
        return beam.coders.PickleCoder()


class Reader(UnboundedReader):
    def __init__(self, source: Records, read: int) -> None:
        self.source = source
        self.read = read

    def start(self) -> bool:
        return self.advance()

    def advance(self) -> bool:
        if self.read == len(self.source.records):
            return False
        self.read += 1
        return True

    def get_current(self) -> dict[str, Any]:
        return self.source.records[self.read - 1]

    def get_current_timestamp(self) -> Timestamp:
        return time_of(self.get_current())

    def get_watermark(self) -> Timestamp:
        if self.read < len(self.source.records):
            return time_of(self.source.records[self.read])
        return MAX_TIMESTAMP if self.source.ends else FINISHED

    def get_checkpoint_mark(self) -> CheckpointMark:
        return Mark(self.read)


def time_of(record: dict[str, Any]) -> Timestamp:
    return Timestamp(micros=1000 * milliseconds(record["event_time"]))


class WriteEach(beam.DoFn):
    """Write each dict to a file of its own, which appears whole."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def process(self, record: dict[str, Any]) -> None:
        place = Path(self.folder)
        place.mkdir(parents=True, exist_ok=True)
        temporary = place / f".{uuid.uuid4().hex}"
        temporary.write_text(json.dumps(record))
        temporary.rename(place / f"{uuid.uuid4().hex}.json")


def written(folder: Path) -> list[dict[str, Any]]:
    """The dicts in a folder, in a fixed order."""
    found = [json.loads(path.read_text()) for path in folder.glob("*.json")]
    return sorted(found, key=place_of)


def place_of(record: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(str(record.get(name)) for name in ("attribute", "estimate", "window_start", "place"))


def write_both(found: ldp.beam.Estimated, folder: Path) -> None:
    """Write the estimates and the shares."""
    dicts = found.as_dicts()
    _ = dicts.estimates | "WriteEstimates" >> beam.ParDo(WriteEach(str(folder / "estimates")))
    _ = dicts.shares | "WriteShares" >> beam.ParDo(WriteEach(str(folder / "shares")))
