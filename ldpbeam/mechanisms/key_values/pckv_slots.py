"""PCKV with a slot a key, and PCKV-UE (Gu et al., USENIX Security 2020)."""

from __future__ import annotations

import dataclasses
import math
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpbeam.channels import Channel, DenseChannel
from ldpbeam.domains import Floats, Integers, KeyValuePairs
from ldpbeam.mechanisms.key_values.pckv import PaddedKeyValueMechanism
from ldpbeam.mechanisms.mechanism import Uniforms
from ldpbeam.mechanisms.registry import register

#: Whole reports of slots have cells of their own up to this many.
MOST_CELLS = 2**20
#: Slots are drawn and counted in blocks of this many.
BLOCK_SLOTS = 2**22
#: What a slot says; piecewise values are buckets from 1 on instead.
ABSENT, PLUS, MINUS = 0, 1, 2


class SlotChannel(Channel):
    """What one slot of a report says, drawn evenly from the d slots; columns sum to one.

    Rows are (slot, outcome). Columns are (key, value), and last no key at all.

    Args:
        size: d, the number of slots and keys.
        own: P(outcome | value) in the slot of the drawn key, shape (outcomes, values).
        other: P(outcome) in every other slot, shape (outcomes,).
    """

    def __init__(self, size: int, own: Floats, other: Floats) -> None:
        super().__init__(size * own.shape[0], size * own.shape[1] + 1)
        self.size = size
        self.own = own
        self.other = other

    def _matvec(self, x: Floats) -> Floats:
        weights = np.ravel(x)
        pairs = weights[:-1].reshape(self.size, -1)
        rest = weights.sum() - pairs.sum(axis=1)
        product: Floats = (pairs @ self.own.T + rest[:, None] * self.other).ravel() / self.size
        return product

    def _rmatvec(self, x: Floats) -> Floats:
        slots = np.ravel(x).reshape(self.size, -1)
        others = slots @ self.other
        pairs = slots @ self.own + (others.sum() - others)[:, None]
        return np.append(pairs.ravel(), others.sum()) / self.size

    def dense(self) -> Floats:
        """Blocks: ``own`` on the diagonal, ``other`` beside it and in the last column."""
        spread = np.outer(self.other, np.ones(self.own.shape[1]))
        blocks = np.kron(np.eye(self.size), self.own) + np.kron(1.0 - np.eye(self.size), spread)
        matrix: Floats = np.column_stack((blocks, np.tile(self.other, self.size))) / self.size
        return matrix


@dataclasses.dataclass(frozen=True)
class SlotsKeyValueMechanism(PaddedKeyValueMechanism):
    """A report of one slot a key: absent, or one of several outcomes.

    A histogram counts outcomes slot by slot, absent ones too, so each report counts once a slot. That is not
    sufficient for the reports, and its likelihood is a composite one: what one slot, drawn evenly from the d,
    says. Slots of dummy keys would say nothing of a real one and are not sent.
    """

    composite = True

    @property
    @abstractmethod
    def layout(self) -> np.dtype[Any]:
        """The parts of a report."""

    @property
    def payload_dtype(self) -> np.dtype[Any]:
        """The bytes of ``layout``."""
        return np.dtype((np.void, self.layout.itemsize))

    @abstractmethod
    def _say(self, reports: NDArray[Any], keys: Integers, x: Floats, uniforms: Uniforms) -> None:
        """Fill in the reports of people who drew those keys, ``size`` for a dummy, and values."""

    def perturb(self, values: KeyValuePairs, uniforms: Uniforms) -> NDArray[Any]:
        """One report a person."""
        keys, x = self._sampled(values, uniforms)
        reports = np.zeros(values.people, dtype=self.layout)
        for block in self._blocks(values.people):
            self._say(reports[block], keys[block], x[block], uniforms)
        return reports.view(self.payload_dtype)

    def _blocks(self, reports: int) -> Iterator[slice]:
        step = max(1, BLOCK_SLOTS // self.size)
        return (slice(start, start + step) for start in range(0, reports, step))

    @abstractmethod
    def outcomes(self, payloads: NDArray[Any], resolution: int) -> Integers:
        """What each slot of each report says, shape (n, size): 0 for absent."""

    @abstractmethod
    def slot_probabilities(self, value_buckets: int, resolution: int) -> tuple[Floats, Floats]:
        """(P(outcome | value) in the drawn key's slot, P(outcome) in any other one)."""

    def slot_cells(self, resolution: int) -> int:
        """How many outcomes a slot has, absent included."""
        return 3

    @property
    def _row_bytes(self) -> int:
        """The bytes of one bit a key."""
        return (self.size + 7) // 8

    def _unpacked(self, rows: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Packed bits, padding included, shape (n, 8 ``_row_bytes``)."""
        return np.unpackbits(rows, axis=-1, bitorder="little")

    def cells(self, resolution: int) -> int:
        """One a whole report.

        Raises:
            ValueError: if that is more than 2^20.
        """
        cells: int = self.slot_cells(resolution) ** self.size
        if cells > MOST_CELLS:
            raise ValueError(
                f"{self.name} with {self.size} keys has {float(cells):.3g} kinds of whole reports, and "
                "at most 2^20 can be told apart: it cannot be joined with other services"
            )
        return cells

    def bucketise(self, payloads: NDArray[Any], resolution: int) -> Integers:
        """The outcomes of all slots as digits of one number, the first slot's before the others'."""
        self.cells(resolution)
        digits = self.slot_cells(resolution) ** np.arange(self.size - 1, -1, -1)
        return self.outcomes(payloads, resolution) @ digits

    def channel(self, value_buckets: int, resolution: int) -> Channel:
        """Whole reports: the product over slots."""
        cells = self.cells(resolution)
        own, other = self.slot_probabilities(value_buckets, resolution)
        slots = np.unravel_index(np.arange(cells), (self.slot_cells(resolution),) * self.size)
        background = np.prod([other[slot] for slot in slots], axis=0)
        columns = [background[:, None] * (own / other[:, None])[slot] for slot in slots]
        return DenseChannel(np.column_stack((*columns, background)))

    def histogram_cells(self, resolution: int) -> int:
        """Outcomes a slot, for every slot."""
        return self.size * self.slot_cells(resolution)

    def histogram(self, payloads: NDArray[Any], resolution: int) -> Integers:
        """Outcomes counted slot by slot; the counts sum to d times the reports."""
        first = self.slot_cells(resolution) * np.arange(self.size)
        counts = np.zeros(self.histogram_cells(resolution), dtype=np.int64)
        for block in self._blocks(len(payloads)):
            cells = (self.outcomes(payloads[block], resolution) + first).ravel()
            counts += np.bincount(cells, minlength=len(counts))
        return counts

    def histogram_channel(self, value_buckets: int, resolution: int) -> Channel:
        """What one slot says, a slot drawn evenly."""
        return SlotChannel(self.size, *self.slot_probabilities(value_buckets, resolution))


@register
@dataclasses.dataclass(frozen=True)
class PCKVUE(SlotsKeyValueMechanism):
    """PCKV-UE: the drawn key's slot and every other one, each +1, -1 or absent.

    The value is rounded to +1 with probability x. Its own slot says that sign with probability a p, the other
    sign with a (1 - p) and absent with 1 - a; every other slot says +1 and -1 with b/2 each. a = 1/2,
    b = 2/(E+3) and p = E/(E+1). The report is a row of bits for +1 (least significant first, padded to whole
    bytes), then one for -1.
    """

    name = "pckv_ue"
    summary = "PCKV-UE: every key present or not, and a sign; many keys"

    @property
    def constants(self) -> tuple[float, float, float]:
        """(a, b, p)."""
        return 0.5, 2.0 / (math.exp(self.epsilon) + 3.0), 1.0 / (1.0 + math.exp(-self.epsilon))

    @property
    def layout(self) -> np.dtype[Any]:
        """Two rows of bits."""
        row = (np.uint8, (self._row_bytes,))
        return np.dtype([("plus", *row), ("minus", *row)])

    def _say(self, reports: NDArray[Any], keys: Integers, x: Floats, uniforms: Uniforms) -> None:
        draw = uniforms.random(len(keys) * self.size).reshape(-1, self.size)
        a, b, p = self.constants
        plus, minus = draw < b / 2.0, (draw >= b / 2.0) & (draw < b)
        real = np.flatnonzero(keys < self.size)
        own, kept = draw[real, keys[real]], a * (x * p + (1.0 - x) * (1.0 - p))[real]
        plus[real, keys[real]] = own < kept
        minus[real, keys[real]] = (own >= kept) & (own < a)
        reports["plus"] = np.packbits(plus, axis=1, bitorder="little")
        reports["minus"] = np.packbits(minus, axis=1, bitorder="little")

    def _rows(self, payloads: NDArray[Any]) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """The bits for +1 and for -1, padding included."""
        reports = payloads.view(self.layout)
        return self._unpacked(reports["plus"]), self._unpacked(reports["minus"])

    def is_report(self, payloads: NDArray[Any]) -> NDArray[np.bool_]:
        """Which payloads have no slot with both signs, and no bit beyond the last slot."""
        plus, minus = self._rows(payloads)
        both = (plus & minus).any(axis=1)
        beyond = (plus | minus)[:, self.size :].any(axis=1)
        return np.asarray(~(both | beyond))

    def outcomes(self, payloads: NDArray[Any], resolution: int) -> Integers:
        """0 for absent, 1 for +1, 2 for -1."""
        plus, minus = self._rows(payloads)
        said = (PLUS * plus + MINUS * minus)[:, : self.size]
        return said.astype(np.int64)

    def slot_probabilities(self, value_buckets: int, resolution: int) -> tuple[Floats, Floats]:
        """The values of a key are +1 and -1."""
        a, b, p = self.constants
        own = np.array([[1.0 - a, 1.0 - a], [a * p, a * (1.0 - p)], [a * (1.0 - p), a * p]])
        return own, np.array([1.0 - b, b / 2.0, b / 2.0])

    def key_values(self, histogram: Integers, reports: int) -> tuple[Floats, Floats]:
        """The paper's estimates."""
        counts = histogram.reshape(self.size, 3)
        return self._corrected(counts[:, PLUS], counts[:, MINUS], reports, self.constants)

    def precisions(self, histogram: Integers, reports: int) -> tuple[Floats, Floats]:
        """Of signs, whose gain is 2p - 1."""
        a, b, p = self.constants
        return self._precisions(reports, a, b, 2.0 * p - 1.0)

    def output(self) -> str:
        """Two rows of bits."""
        return (
            f"{2 * self._row_bytes} bytes: {self.size} bits for +1 padded to {self._row_bytes} bytes, "
            f"then as many for -1{self._assumed}"
        )
