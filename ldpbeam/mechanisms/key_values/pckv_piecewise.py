"""PCKV-PM: PCKV's slots with piecewise values (mixture-reduction paper, section V-C and appendix D)."""

from __future__ import annotations

import dataclasses
import functools
import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpbeam.domains import Floats, Integers, bucket_midpoints
from ldpbeam.mechanisms.key_values.pckv_slots import ABSENT, SlotsKeyValueMechanism
from ldpbeam.mechanisms.mechanism import SLACK, Uniforms
from ldpbeam.mechanisms.numbers.grid import STEPS, Wave, exponential, places, remainder, whole_draws
from ldpbeam.mechanisms.numbers.piecewise import Piecewise
from ldpbeam.mechanisms.registry import register


def slot_wave(wave: Wave, epsilon: float) -> Wave:
    """A wave with less excess, which keeps its places, beside other slots' uniform places, within epsilon.

    The largest ratio of a wave place's probability to a uniform place's is at most exp(epsilon) times the
    smallest. A uniform place is a draw modulo the number of places, so some places have one draw more.
    """
    even = wave.draws // wave.size
    most = math.floor(exponential(epsilon) * wave.even * even / (even + 1)) - wave.even - 1
    # With less excess, the uniform part may have one more draw per place.
    return dataclasses.replace(wave, excess=min(wave.excess, most))


def slot_draws(wave: Wave, epsilon: float) -> tuple[int, int]:
    """How many draws make the drawn key's slot present, and any other slot: a half, and about 1/(s+1).

    Another drawn key exchanges the roles of two slots, one of which may be absent and the other present. So
    the odds of being absent are at most exp(epsilon), divided by the largest ratio of a wave's
    place to a uniform place.
    """
    likelier = Fraction(wave.excess + wave.even + 1, wave.draws // wave.size)
    return wave.draws // 2, math.ceil(wave.draws / (1 + exponential(epsilon) / likelier))


@register
@dataclasses.dataclass(frozen=True)
class PCKVPM(SlotsKeyValueMechanism):
    """PCKV-PM: PCKV's slots with a piecewise report in [-C, C] instead of a sign.

    The drawn key's slot is present with probability a = 1/2; it then has a piecewise report of the value with
    the whole epsilon. Every other slot is present with b = 1/(s+1), s = exp(epsilon/2); it then has a uniform
    draw from [-C, C]. The piecewise density is at most s times the uniform one, and (1 - b)/b is also s, so
    the product is exp(epsilon). The probability b = 2/(E+3) of PCKV-UE would exceed the budget (1.12 instead
    of epsilon 1).

    The report is a row of bits for presence (least significant first, padded to whole bytes), then one 32-bit
    float per key, zero if the key is absent.
    """

    name = "pckv_pm"
    summary = "PCKV-PM: every key present or not, and a piecewise value"

    @property
    def constants(self) -> tuple[float, float, float]:
        """(a, b, 1): the probabilities that the drawn key's slot, or another, is present."""
        return 0.5, 1.0 / (math.exp(self.epsilon / 2.0) + 1.0), 1.0

    @functools.cached_property
    def piecewise(self) -> Piecewise:
        """The mechanism that perturbs the drawn value."""
        return Piecewise(self.epsilon)

    @property
    def layout(self) -> np.dtype[Any]:
        """The fields of a report: a row of bits, and one float per key."""
        return np.dtype([("present", np.uint8, (self._row_bytes,)), ("values", "<f4", (self.size,))])

    def _say(self, reports: NDArray[Any], keys: Integers, x: Floats, uniforms: Uniforms) -> None:
        shape = (len(keys), self.size)
        draws_own, draws_other = self.draws_present
        real = np.flatnonzero(keys < self.size)
        fewer = np.full(shape, draws_other)
        fewer[real, keys[real]] = draws_own
        present = whole_draws(uniforms, fewer.size).reshape(shape) < fewer
        # The drawn key's slot has a place drawn from the wave, every other slot a uniform place.
        where = remainder(whole_draws(uniforms, fewer.size), self.wave.size).reshape(shape)
        drawn = self.wave.sample(places(x, STEPS), whole_draws(uniforms, len(keys)))
        where[real, keys[real]] = drawn[real]
        reports["present"] = np.packbits(present, axis=1, bitorder="little")
        reports["values"] = np.where(present, self.piecewise.report_at(where), 0.0)

    @functools.cached_property
    def wave(self) -> Wave:
        """PM's wave with less excess, which keeps the whole report within epsilon."""
        return slot_wave(self.piecewise.wave, self.epsilon)

    @functools.cached_property
    def draws_present(self) -> tuple[int, int]:
        """How many draws make the drawn key's slot present, and how many any other slot."""
        return slot_draws(self.wave, self.epsilon)

    def is_report(self, payloads: NDArray[Any]) -> NDArray[np.bool_]:
        """Which payloads have values in [-C, C] if present, else zero, and no bit after the last slot."""
        reports = payloads.view(self.layout)
        bits = self._unpacked(reports["present"])
        present = bits[:, : self.size] == 1
        within = np.abs(reports["values"]) <= self.piecewise.bound * (1.0 + 2.0 * SLACK)
        nothing = np.ascontiguousarray(reports["values"]).view(np.uint32) == 0
        right = np.where(present, within, nothing).all(axis=1)
        return np.asarray(right & ~bits[:, self.size :].any(axis=1))

    def slot_cells(self, resolution: int) -> int:
        """The number of outcomes: absent, and the buckets of a piecewise report."""
        return resolution + 1

    def outcomes(self, payloads: NDArray[Any], resolution: int) -> Integers:
        """The outcome of each slot, shape (n, size): 0 for absent, else 1 + the bucket of [-C, C]."""
        reports = payloads.view(self.layout)
        present = self._unpacked(reports["present"])[:, : self.size] == 1
        buckets = self.piecewise.bucketise(reports["values"].astype(np.float64), resolution)
        return np.where(present, 1 + buckets, ABSENT)

    def slot_probabilities(self, value_buckets: int, resolution: int) -> tuple[Floats, Floats]:
        """(P(outcome | value bucket) in the drawn key's slot, P(outcome) in any other slot).

        Their shapes are (``resolution + 1``, ``value_buckets``) and (``resolution + 1``,).
        """
        a, b, _ = self.constants
        matrix = self.piecewise.channel(value_buckets, resolution).dense()
        own_slot = np.vstack((np.full(value_buckets, 1.0 - a), a * matrix))
        return own_slot, np.concatenate(([1.0 - b], np.full(resolution, b / resolution)))

    def _points(self, values: int) -> Floats:
        """The midpoints of the value buckets, shape (values,)."""
        return bucket_midpoints(values)

    def _named(self, histogram: Integers) -> tuple[Integers, Floats]:
        """The counts of each bucket of a piecewise report, and the midpoints of the buckets."""
        counts = histogram.reshape(self.size, -1)[:, 1:]
        return counts, self.piecewise.representatives(counts.shape[1])

    @property
    def _by_chance(self) -> tuple[float, float]:  # type: ignore[override]
        """Other slots are uniform on [-C, C]."""
        return self.piecewise.bound**2 / 3.0, math.sqrt(3.0) / self.piecewise.bound

    def output(self) -> str:
        """The layout of bits and floats, in words."""
        bound = self.piecewise.bound
        return (
            f"{self.layout.itemsize} bytes: {self.size} bits for presence padded to {self._row_bytes} "
            f"bytes, then {self.size} 32-bit floats in [{-bound:.6g}, {bound:.6g}], zero where absent"
            f"{self._assumed}"
        )
