"""How keys and statistics travel between workers of an engine, and the combiner that adds statistics up."""

from __future__ import annotations

import functools
import io
import itertools
import zlib
from collections.abc import Iterable
from typing import Any

import apache_beam as beam
import fastavro
from apache_beam.coders import NullableCoder, StrUtf8Coder, TupleCoder, VarIntCoder, registry

from ldpbeam.schemas.outputs.snapshots import decode_statistic, encode_statistic
from ldpbeam.transforms.windows.groups import Accumulator, GroupStatistics, added_up, with_added
from ldpbeam.transforms.windows.piece_keys import GroupKey, PieceKey, WindowGroupKey, WindowKey

_TEXT, _NUMBER = StrUtf8Coder(), VarIntCoder()
_PAIR = NullableCoder(TupleCoder([_NUMBER, _NUMBER]))
_FIELDS: dict[type, TupleCoder] = {
    PieceKey: TupleCoder([_TEXT, _NUMBER, _PAIR]),
    GroupKey: TupleCoder([_TEXT, NullableCoder(_TEXT)]),
    WindowKey: TupleCoder([_TEXT, _PAIR]),
    WindowGroupKey: TupleCoder([_TEXT, _PAIR, NullableCoder(_TEXT)]),
}


class KeyCoder(beam.coders.Coder):
    """Encodes a named tuple as its fields, one after the other; None and the empty text have different bytes.

    The fields of a kind that is no key are whole numbers.
    """

    def __init__(self, kind: Any) -> None:
        self.kind = kind
        self.fields = _FIELDS[kind] if kind in _FIELDS else TupleCoder([_NUMBER] * len(kind._fields))

    @classmethod
    def from_type_hint(cls, typehint: Any, _: Any) -> KeyCoder:
        """The coder of a class of keys; Beam calls this."""
        return cls(typehint)

    def encode(self, value: Any) -> bytes:
        """The bytes of the fields."""
        encoded: bytes = self.fields.encode(value)
        return encoded

    def decode(self, encoded: bytes) -> Any:
        """The named tuple in these bytes."""
        return self.kind(*self.fields.decode(encoded))

    def is_deterministic(self) -> bool:
        """True: equal tuples have equal bytes."""
        return True

    def to_type_hint(self) -> Any:
        """The class of the named tuples."""
        return self.kind

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KeyCoder) and self.kind is other.kind

    def __hash__(self) -> int:
        return hash((KeyCoder, self.kind))


for _kind in _FIELDS:
    registry.register_coder(_kind, KeyCoder)


class StatisticsCoder(beam.coders.Coder):
    """Encodes statistics by attribute and group as one Avro datum, compressed.

    A group of one report has a histogram of zeros and a one: thousands of such groups, which an engine keeps
    in memory, take a fortieth.
    """

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

    def encode(self, value: GroupStatistics) -> bytes:
        """The compressed bytes of the datum."""
        stream = io.BytesIO()
        entries = [
            {**key._asdict(), "statistic": encode_statistic(statistic)} for key, statistic in value.items()
        ]
        fastavro.schemaless_writer(stream, self._schema, entries)
        return zlib.compress(stream.getbuffer(), level=1)

    def decode(self, encoded: bytes) -> GroupStatistics:
        """The statistics in the compressed bytes of a datum."""
        entries: Any = fastavro.schemaless_reader(io.BytesIO(zlib.decompress(encoded)), self._schema, None)
        return GroupStatistics(
            {
                GroupKey(entry["attribute"], entry["group"]): decode_statistic(entry["statistic"])
                for entry in entries
            }
        )

    def estimate_size(self, value: GroupStatistics) -> int:
        """The bytes of the counts. Beam asks at each step, and by default encodes them to answer."""
        return sum(
            counts.nbytes
            for statistic in value.values()
            for counts in (*statistic.histograms, statistic.joint_cells, statistic.joint_counts)
        )

    def is_deterministic(self) -> bool:
        """False: the order of the entries depends on the order of arrival."""
        return False


registry.register_coder(GroupStatistics, StatisticsCoder)


class AccumulatorCoder(StatisticsCoder):
    """Encodes an accumulator as one Avro datum, compressed, after merging it."""

    def encode(self, value: Any) -> bytes:
        """The compressed bytes of the datum."""
        return super().encode(added_up(value))

    def estimate_size(self, value: Any) -> int:
        """The bytes of the counts of all partial statistics."""
        return sum(map(super().estimate_size, value))

    def decode(self, encoded: bytes) -> Any:
        """An accumulator with the merged statistics; an empty one if there are none."""
        statistics = super().decode(encoded)
        return [statistics] if statistics else []


class CombineGroups(beam.CombineFn):
    """Adds up statistics by attribute and group.

    The addition is exact, in integers, so the result does not depend on how reports were cut, ordered or
    merged.
    """

    def create_accumulator(self) -> Accumulator:
        """An accumulator without partial statistics."""
        return []

    def add_input(self, accumulator: Accumulator, statistics: GroupStatistics) -> Accumulator:
        """Append the statistics; many are merged."""
        return with_added(accumulator, statistics)

    def merge_accumulators(self, accumulators: Iterable[Accumulator]) -> Accumulator:
        """Merge all partial statistics, a few at a time, since there may be thousands of them."""
        return self.compact(functools.reduce(with_added, itertools.chain.from_iterable(accumulators), []))

    def compact(self, accumulator: Accumulator) -> Accumulator:
        """Merge the accumulator, so that it holds at most one statistic per group."""
        return [added_up(accumulator)] if accumulator else []

    def extract_output(self, accumulator: Accumulator) -> GroupStatistics:
        """The statistics of all groups; a group that lost all its reports has a statistic of 0 reports."""
        return added_up(accumulator)

    def get_accumulator_coder(self) -> beam.coders.Coder:
        """A coder to Avro; by default Beam would pickle."""
        return AccumulatorCoder()
