"""The keys under which reports are folded and statistics are added up: named tuples, each with a coder."""

from __future__ import annotations

from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam.coders import NullableCoder, StrUtf8Coder, TupleCoder, VarIntCoder, registry

from ldpbeam.windows import Bounds

#: Consecutive windows: the starts of the first and of the last, in epoch milliseconds.
Run = tuple[int, int]


class PieceKey(NamedTuple):
    """The key of reports that are folded together.

    Attributes:
        attribute: the attribute's name.
        partition: the partition of the users, or of the report ids.
        run: the windows; None for the one window over everything.
    """

    attribute: str
    partition: int
    run: Run | None


class GroupKey(NamedTuple):
    """The key of a statistic: an attribute or a vector's coordinate, and the group; None without a group."""

    attribute: str
    group: str | None


class WindowKey(NamedTuple):
    """The key of a window's statistics: an attribute or a vector's coordinate, and the window.

    A window of None is the one over everything.
    """

    attribute: str
    window: Bounds | None


class WindowGroupKey(NamedTuple):
    """The key of one group's statistic in a window, while it is added up."""

    attribute: str
    window: Bounds | None
    group: str | None


_TEXT, _NUMBER = StrUtf8Coder(), VarIntCoder()
_PAIR = NullableCoder(TupleCoder([_NUMBER, _NUMBER]))
_FIELDS: dict[type, TupleCoder] = {
    PieceKey: TupleCoder([_TEXT, _NUMBER, _PAIR]),
    GroupKey: TupleCoder([_TEXT, NullableCoder(_TEXT)]),
    WindowKey: TupleCoder([_TEXT, _PAIR]),
    WindowGroupKey: TupleCoder([_TEXT, _PAIR, NullableCoder(_TEXT)]),
}


class KeyCoder(beam.coders.Coder):
    """Encodes a key as its fields, one after the other; None and the empty text have different bytes."""

    def __init__(self, kind: Any) -> None:
        self.kind = kind
        self.fields = _FIELDS[kind]

    @classmethod
    def from_type_hint(cls, typehint: Any, _: Any) -> KeyCoder:
        """The coder of a class of keys; Beam calls this."""
        return cls(typehint)

    def encode(self, value: Any) -> bytes:
        """The bytes of the fields."""
        encoded: bytes = self.fields.encode(value)
        return encoded

    def decode(self, encoded: bytes) -> Any:
        """The key in these bytes."""
        return self.kind(*self.fields.decode(encoded))

    def is_deterministic(self) -> bool:
        """True: equal keys have equal bytes."""
        return True

    def to_type_hint(self) -> Any:
        """The class of the keys."""
        return self.kind

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KeyCoder) and self.kind is other.kind

    def __hash__(self) -> int:
        return hash((KeyCoder, self.kind))


for _kind in _FIELDS:
    registry.register_coder(_kind, KeyCoder)
