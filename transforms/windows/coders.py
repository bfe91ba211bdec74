"""Statistics and their keys as bytes, where Beam would pickle them."""

from __future__ import annotations

import io
from typing import Any

import apache_beam as beam
import fastavro

from ldpbeam.schemas.outputs.snapshots import decode_statistic, encode_statistic
from ldpbeam.statistics import Statistic, merge

Accumulator = list[Statistic]


class StatisticCoder(beam.coders.Coder):
    """A statistic as one Avro datum."""

    def encode(self, value: Statistic) -> bytes:
        """The datum's bytes."""
        return encode_statistic(value)

    def decode(self, encoded: bytes) -> Statistic:
        """The inverse."""
        return decode_statistic(encoded)

    def is_deterministic(self) -> bool:
        """Equal statistics have equal bytes."""
        return True


beam.coders.registry.register_coder(Statistic, StatisticCoder)


class AccumulatorCoder(beam.coders.Coder):
    """Partial statistics, merged to at most one, as one Avro datum or none."""

    def encode(self, value: Accumulator) -> bytes:
        """The datum, empty for none."""
        return encode_statistic(merge(value)) if value else b""

    def decode(self, encoded: bytes) -> Accumulator:
        """The inverse."""
        return [decode_statistic(encoded)] if encoded else []

    def is_deterministic(self) -> bool:
        """Equal statistics have equal bytes."""
        return True


class _GroupKeyCoder(beam.coders.Coder):
    """(attribute, group) as Avro, so that no group's name can be taken for no group."""

    _schema = fastavro.parse_schema(
        {
            "type": "record",
            "name": "GroupKey",
            "fields": [
                {"name": "attribute", "type": "string"},
                {"name": "group", "type": ["null", "string"]},
            ],
        }
    )

    def encode(self, value: tuple[str, str | None]) -> bytes:
        stream = io.BytesIO()
        record = {"attribute": value[0], "group": value[1]}
        fastavro.schemaless_writer(stream, self._schema, record)
        return stream.getvalue()

    def decode(self, encoded: bytes) -> tuple[str, str | None]:
        record: Any = fastavro.schemaless_reader(io.BytesIO(encoded), self._schema, None)
        return record["attribute"], record["group"]

    def is_deterministic(self) -> bool:
        return True


class GroupKey(tuple[str, str | None]):
    """(attribute, group); a type of its own so that Beam finds its coder."""


beam.coders.registry.register_coder(GroupKey, _GroupKeyCoder)


class Statistics(dict[GroupKey, Statistic]):
    """Statistics by attribute and group; a type of its own so that Beam finds its coder."""


class StatisticsCoder(beam.coders.Coder):
    """Statistics by attribute and group, as one Avro datum."""

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
        """The datum's bytes."""
        stream = io.BytesIO()
        entries = [
            {"attribute": attribute, "group": group, "statistic": encode_statistic(statistic)}
            for (attribute, group), statistic in value.items()
        ]
        fastavro.schemaless_writer(stream, self._schema, entries)
        return stream.getvalue()

    def decode(self, encoded: bytes) -> Statistics:
        """The inverse."""
        entries: Any = fastavro.schemaless_reader(io.BytesIO(encoded), self._schema, None)
        return Statistics(
            {
                GroupKey((entry["attribute"], entry["group"])): decode_statistic(entry["statistic"])
                for entry in entries
            }
        )

    def is_deterministic(self) -> bool:
        """The order of entries is that of arrival."""
        return False


beam.coders.registry.register_coder(Statistics, StatisticsCoder)
