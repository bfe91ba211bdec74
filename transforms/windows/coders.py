"""Coders that encode statistics as Avro; by default Beam would pickle them."""

from __future__ import annotations

import io
from typing import Any

import apache_beam as beam
import fastavro

from ldpbeam.schemas.outputs.snapshots import decode_statistic, encode_statistic
from ldpbeam.statistics import Statistic, merge
from ldpbeam.transforms.windows.keys import GroupKey


class Statistics(dict[GroupKey, Statistic]):
    """Statistics by attribute and group; it is a class of its own so that Beam finds its coder."""


#: Partial statistics that are not merged yet.
Accumulator = list[Statistics]


def added_up(parts: Accumulator) -> Statistics:
    """Merge partial statistics by attribute and group."""
    by_key: dict[GroupKey, list[Statistic]] = {}
    for statistics in parts:
        for key, statistic in statistics.items():
            by_key.setdefault(key, []).append(statistic)
    return Statistics({key: merge(own) for key, own in by_key.items()})


class StatisticsCoder(beam.coders.Coder):
    """Encodes statistics by attribute and group as one Avro datum."""

    _schema = fastavro.parse_schema(
        {
            "type": "array",
            "items": {
                "type": "record",
                "name": "Entry",
                "fields": [
                    {"name": "attribute", "type": "string"},
                    {"name": "group", "type": ["null", "string"]},
                    {"name": "statistic", "type": "bytes"},
                ],
            },
        }
    )

    def encode(self, value: Statistics) -> bytes:
        """The bytes of the datum."""
        stream = io.BytesIO()
        entries = [{**key._asdict(), "statistic": encode_statistic(own)} for key, own in value.items()]
        fastavro.schemaless_writer(stream, self._schema, entries)
        return stream.getvalue()

    def decode(self, encoded: bytes) -> Statistics:
        """The statistics in the bytes of a datum."""
        entries: Any = fastavro.schemaless_reader(io.BytesIO(encoded), self._schema, None)
        return Statistics(
            {
                GroupKey(entry["attribute"], entry["group"]): decode_statistic(entry["statistic"])
                for entry in entries
            }
        )

    def is_deterministic(self) -> bool:
        """False: the order of the entries depends on the order of arrival."""
        return False


beam.coders.registry.register_coder(Statistics, StatisticsCoder)


class AccumulatorCoder(StatisticsCoder):
    """Encodes an accumulator as one Avro datum, after merging it."""

    def encode(self, value: Any) -> bytes:
        """The bytes of the datum."""
        return super().encode(added_up(value))

    def decode(self, encoded: bytes) -> Any:
        """An accumulator with the merged statistics; an empty one if there are none."""
        found = super().decode(encoded)
        return [found] if found else []
