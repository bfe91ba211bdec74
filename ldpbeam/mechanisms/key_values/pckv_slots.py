"""PCKV with one slot per key, and PCKV-UE (Gu et al., USENIX Security 2020)."""

from __future__ import annotations

import dataclasses
import math
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpbeam.channels import Channel, DenseChannel, SlotChannel
from ldpbeam.domains import Floats, Integers, KeyValuePairs
from ldpbeam.mechanisms.key_values.pckv import PaddedKeyValueMechanism
from ldpbeam.mechanisms.mechanism import Uniforms
from ldpbeam.mechanisms.registry import register

#: The most cells of a histogram of whole reports.
MOST_CELLS = 2**20
#: Slots are drawn and counted in blocks of about this many.
BLOCK_SLOTS = 2**22
#: The outcomes of a slot; for piecewise values, outcomes from 1 on are buckets instead.
ABSENT, PLUS, MINUS = 0, 1, 2


@dataclasses.dataclass(frozen=True)
class SlotsKeyValueMechanism(PaddedKeyValueMechanism):
    """A report with one slot per key, which is absent or has one of several outcomes.

    A histogram counts the outcomes of each slot, including absent, so a report counts once per slot. These
    counts are not sufficient; their likelihood is a composite one, that of a slot drawn uniformly from the d
    slots. Slots of dummy keys say nothing about real keys, and are not sent.
    """

    composite = True

    @property
    @abstractmethod
    def layout(self) -> np.dtype[Any]:
        """The fields of a report, a structured dtype."""

    @property
    def payload_dtype(self) -> np.dtype[Any]:
        """Void of the size of ``layout``."""
        return np.dtype((np.void, self.layout.itemsize))

    @abstractmethod
    def _say(self, reports: NDArray[Any], keys: Integers, x: Floats, uniforms: Uniforms) -> None:
        """Fill in ``reports`` for people who drew these keys (``size`` for a dummy) and values x."""

    def perturb(self, values: KeyValuePairs, uniforms: Uniforms) -> NDArray[Any]:
        """One report per person, shape (people,)."""
        keys, x = self._sampled(values, uniforms)
        reports = np.zeros(len(values), dtype=self.layout)
        for block in self._blocks(len(values)):
            self._say(reports[block], keys[block], x[block], uniforms)
        return reports.view(self.payload_dtype)

    def _blocks(self, reports: int) -> Iterator[slice]:
        step = max(1, BLOCK_SLOTS // self.size)
        return (slice(start, start + step) for start in range(0, reports, step))

    @abstractmethod
    def outcomes(self, payloads: NDArray[Any], resolution: int) -> Integers:
        """The outcome of each slot of each report, shape (n, size): 0 for absent."""

    @abstractmethod
    def slot_probabilities(self, value_buckets: int, resolution: int) -> tuple[Floats, Floats]:
        """(P(outcome | value) in the drawn key's slot, P(outcome) in any other slot).

        Their shapes are (outcomes, values) and (outcomes,).
        """

    def slot_cells(self, resolution: int) -> int:
        """The number of outcomes of a slot, including absent."""
        return 3

    @property
    def _row_bytes(self) -> int:
        """The number of bytes of a row of one bit per key."""
        return (self.size + 7) // 8

    def _unpacked(self, rows: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """The bits of packed rows, including padding, shape (n, 8 ``_row_bytes``)."""
        return np.unpackbits(rows, axis=-1, bitorder="little")

    def cells(self, resolution: int) -> int:
        """The number of different whole reports.

        Raises:
            ValueError: if there are more than 2^20.
        """
        cells: int = self.slot_cells(resolution) ** self.size
        if cells > MOST_CELLS:
            raise ValueError(
                f"{self.name} with {self.size} keys has {float(cells):.3g} kinds of whole reports, and "
                "at most 2^20 can be told apart: it cannot be joined with other services"
            )
        return cells

    def bucketise(self, payloads: NDArray[Any], resolution: int) -> Integers:
        """The number whose digits are the outcomes of all slots, the first slot's highest, shape (n,).

        Raises:
            ValueError: if there are more than 2^20 different whole reports.
        """
        self.cells(resolution)
        digits = self.slot_cells(resolution) ** np.arange(self.size - 1, -1, -1)
        return self.outcomes(payloads, resolution) @ digits

    def channel(self, value_buckets: int, resolution: int) -> Channel:
        """P(whole report | column), the product over slots.

        Raises:
            ValueError: if there are more than 2^20 different whole reports.
        """
        cells = self.cells(resolution)
        own_slot, other_slot = self.slot_probabilities(value_buckets, resolution)
        slots = np.unravel_index(np.arange(cells), (self.slot_cells(resolution),) * self.size)
        background = np.prod([other_slot[slot] for slot in slots], axis=0)
        columns = [background[:, None] * (own_slot / other_slot[:, None])[slot] for slot in slots]
        return DenseChannel(np.column_stack((*columns, background)))

    def histogram_cells(self, resolution: int) -> int:
        """The number of outcomes of a slot, times the number of slots."""
        return self.size * self.slot_cells(resolution)

    def histogram(self, payloads: NDArray[Any], resolution: int) -> Integers:
        """The counts of each slot's outcomes, slot by slot; the counts sum to d times the reports."""
        first = self.slot_cells(resolution) * np.arange(self.size)
        counts = np.zeros(self.histogram_cells(resolution), dtype=np.int64)
        for block in self._blocks(len(payloads)):
            cells = (self.outcomes(payloads[block], resolution) + first).ravel()
            counts += np.bincount(cells, minlength=len(counts))
        return counts

    def histogram_channel(self, value_buckets: int, resolution: int) -> Channel:
        """P(slot, outcome | column) for one uniformly drawn slot."""
        return SlotChannel(self.size, *self.slot_probabilities(value_buckets, resolution), dummies=True)


@register
@dataclasses.dataclass(frozen=True)
class PCKVUE(SlotsKeyValueMechanism):
    """PCKV-UE: one slot per key, each +1, -1 or absent.

    The drawn key's value is rounded to +1 with probability x, else to -1. The drawn key's slot has that sign
    with probability a p, the other sign with a (1 - p), and is absent with 1 - a. Every other slot is +1 and
    -1 with b/2 each. Here E = exp(epsilon), a = 1/2, b = 2/(E+3) and p = E/(E+1). The report is a row of bits
    for +1 (least significant first, padded to whole bytes), then a row of bits for -1.
    """

    name = "pckv_ue"
    summary = "PCKV-UE: every key present or not, and a sign; many keys"

    @property
    def constants(self) -> tuple[float, float, float]:
        """(a, b, p): the probabilities that the drawn slot or another is present, and of keeping the sign."""
        return 0.5, 2.0 / (math.exp(self.epsilon) + 3.0), 1.0 / (1.0 + math.exp(-self.epsilon))

    @property
    def layout(self) -> np.dtype[Any]:
        """The fields of a report: two rows of bits."""
        row = (np.uint8, (self._row_bytes,))
        return np.dtype([("plus", *row), ("minus", *row)])

    def _say(self, reports: NDArray[Any], keys: Integers, x: Floats, uniforms: Uniforms) -> None:
        draw = uniforms.random(len(keys) * self.size).reshape(-1, self.size)
        a, b, p = self.constants
        plus, minus = draw < b / 2.0, (draw >= b / 2.0) & (draw < b)
        real = np.flatnonzero(keys < self.size)
        own_draws, kept = draw[real, keys[real]], a * (x * p + (1.0 - x) * (1.0 - p))[real]
        plus[real, keys[real]] = own_draws < kept
        minus[real, keys[real]] = (own_draws >= kept) & (own_draws < a)
        reports["plus"] = np.packbits(plus, axis=1, bitorder="little")
        reports["minus"] = np.packbits(minus, axis=1, bitorder="little")

    def _rows(self, payloads: NDArray[Any]) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """The bits for +1 and the bits for -1, including padding."""
        reports = payloads.view(self.layout)
        return self._unpacked(reports["plus"]), self._unpacked(reports["minus"])

    def is_report(self, payloads: NDArray[Any]) -> NDArray[np.bool_]:
        """Which payloads have no slot with both signs, and no bit after the last slot."""
        plus, minus = self._rows(payloads)
        both = (plus & minus).any(axis=1)
        beyond = (plus | minus)[:, self.size :].any(axis=1)
        return np.asarray(~(both | beyond))

    def outcomes(self, payloads: NDArray[Any], resolution: int) -> Integers:
        """The outcome of each slot, shape (n, size): 0 for absent, 1 for +1, 2 for -1."""
        plus, minus = self._rows(payloads)
        said = (PLUS * plus + MINUS * minus)[:, : self.size]
        return said.astype(np.int64)

    def slot_probabilities(self, value_buckets: int, resolution: int) -> tuple[Floats, Floats]:
        """(P(outcome | sign) in the drawn key's slot, P(outcome) in any other slot); the signs are +1, -1."""
        a, b, p = self.constants
        own_slot = np.array([[1.0 - a, 1.0 - a], [a * p, a * (1.0 - p)], [a * (1.0 - p), a * p]])
        return own_slot, np.array([1.0 - b, b / 2.0, b / 2.0])

    def _named(self, histogram: Integers) -> tuple[Integers, Floats]:
        """The counts of +1 and -1."""
        return histogram.reshape(self.size, 3)[:, PLUS:], np.array([1.0, -1.0])

    def output(self) -> str:
        """The layout of the two rows of bits, in words."""
        return (
            f"{2 * self._row_bytes} bytes: {self.size} bits for +1 padded to {self._row_bytes} bytes, "
            f"then as many for -1{self._assumed}"
        )
