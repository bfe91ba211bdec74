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
    """A wave whose likeliest place is at most exp(epsilon) times its least likely one, each over an even one.

    Even places are draws modulo their number, so that some have one draw more than others.
    """
    even = wave.draws // wave.size
    most = math.floor(exponential(epsilon) * wave.even * even / (even + 1)) - wave.even - 1
    # Less excess may leave what is even a draw more a place.
    return dataclasses.replace(wave, excess=min(wave.excess, most))


def slot_draws(wave: Wave, epsilon: float) -> tuple[int, int]:
    """How many draws make the drawn key's slot present, and any other one: a half, and about 1/(s+1).

    Where the drawn key is another one, its own slot may be absent and the other one's present, so the odds of
    being absent are at most exp(epsilon) over what a place of the wave can be likelier than an even one.
    """
    likelier = Fraction(wave.excess + wave.even + 1, wave.draws // wave.size)
    return wave.draws // 2, math.ceil(wave.draws / (1 + exponential(epsilon) / likelier))


@register
@dataclasses.dataclass(frozen=True)
class PCKVPM(SlotsKeyValueMechanism):
    """PCKV-PM: PCKV's slots with a piecewise report in [-C, C] instead of a sign.

    The drawn key's slot is present with a = 1/2 and then a piecewise report of its value, of the whole
    epsilon; every other slot is present with b = 1/(s+1), s = exp(epsilon/2), and then an even draw from
    [-C, C]. The piecewise density is at most s times the even one, and (1 - b)/b is s too: exp(epsilon) in
    all. The key step of PCKV-UE, b = 2/(E+3), would be over budget (1.12 where epsilon is 1).

    The report is a row of bits for presence (least significant first, padded to whole bytes), then a 32-bit
    float a key, zero where it is absent.
    """

    name = "pckv_pm"
    summary = "PCKV-PM: every key present or not, and a piecewise value"

    @property
    def constants(self) -> tuple[float, float]:
        """(a, b): the chances of being present, of the drawn key's slot and of any other."""
        return 0.5, 1.0 / (math.exp(self.epsilon / 2.0) + 1.0)

    @functools.cached_property
    def piecewise(self) -> Piecewise:
        """The mechanism of the values."""
        return Piecewise(self.epsilon)

    @property
    def layout(self) -> np.dtype[Any]:
        """A row of bits and as many floats as keys."""
        return np.dtype([("present", np.uint8, (self._row_bytes,)), ("values", "<f4", (self.size,))])

    def _say(self, reports: NDArray[Any], keys: Integers, x: Floats, uniforms: Uniforms) -> None:
        shape = (len(keys), self.size)
        own, other = self.draws_present
        real = np.flatnonzero(keys < self.size)
        fewer = np.full(shape, other)
        fewer[real, keys[real]] = own
        present = whole_draws(uniforms, fewer.size).reshape(shape) < fewer
        # Every other slot has an even place of the wave, the drawn key's one of the wave itself.
        where = remainder(whole_draws(uniforms, fewer.size), self.wave.size).reshape(shape)
        drawn = self.wave.sample(places(x, STEPS), whole_draws(uniforms, len(keys)))
        where[real, keys[real]] = drawn[real]
        reports["present"] = np.packbits(present, axis=1, bitorder="little")
        reports["values"] = np.where(present, self.piecewise.report_at(where), 0.0)

    @functools.cached_property
    def wave(self) -> Wave:
        """PM's, with so much less excess that other slots' even places, too, keep within epsilon."""
        return slot_wave(self.piecewise.wave, self.epsilon)

    @functools.cached_property
    def draws_present(self) -> tuple[int, int]:
        """How many draws make the drawn key's slot present, and any other one."""
        return slot_draws(self.wave, self.epsilon)

    def is_report(self, payloads: NDArray[Any]) -> NDArray[np.bool_]:
        """Within [-C, C] where present, zero bytes elsewhere, and no bit beyond the last slot."""
        reports = payloads.view(self.layout)
        bits = self._unpacked(reports["present"])
        present = bits[:, : self.size] == 1
        within = np.abs(reports["values"]) <= self.piecewise.bound * (1.0 + 2.0 * SLACK)
        nothing = np.ascontiguousarray(reports["values"]).view(np.uint32) == 0
        right = np.where(present, within, nothing).all(axis=1)
        return np.asarray(right & ~bits[:, self.size :].any(axis=1))

    def slot_cells(self, resolution: int) -> int:
        """Absent, and the buckets of a piecewise report."""
        return resolution + 1

    def outcomes(self, payloads: NDArray[Any], resolution: int) -> Integers:
        """0 for absent, then the buckets of [-C, C] from 1 on."""
        reports = payloads.view(self.layout)
        present = self._unpacked(reports["present"])[:, : self.size] == 1
        buckets = self.piecewise.bucketise(reports["values"].astype(np.float64), resolution)
        return np.where(present, 1 + buckets, ABSENT)

    def slot_probabilities(self, value_buckets: int, resolution: int) -> tuple[Floats, Floats]:
        """The values of a key are value buckets of [0, 1]."""
        a, b = self.constants
        matrix = self.piecewise.channel(value_buckets, resolution).dense()
        own = np.vstack((np.full(value_buckets, 1.0 - a), a * matrix))
        return own, np.concatenate(([1.0 - b], np.full(resolution, b / resolution)))

    def _points(self, values: int) -> Floats:
        """The middles of the value buckets."""
        return bucket_midpoints(values)

    def key_values(self, histogram: Integers, reports: int) -> tuple[Floats, Floats]:
        """PCKV-UE's f = ell (N/n - b)/(a - b) for N reports with the key, clipped to [1/n, 1].

        The other slots' values are zero on average, so the mean on [-1, 1] is ell S/(n f a), clipped, with S
        the sum of the key's reports, each taken for the middle of its bucket. The paper gives no formula of
        this kind; it is PCKV's mean with PM's unbiased reports in the place of signs.
        """
        counts = histogram.reshape(self.size, -1)[:, 1:]
        a, b = self.constants
        shares = (counts.sum(axis=1) / reports - b) / (a - b)
        frequencies = np.clip(self.padding * shares, 1.0 / reports, 1.0)
        sums = counts @ self.piecewise.representatives(counts.shape[1])
        means = self.padding * sums / (reports * a * frequencies)
        return frequencies, np.clip((1.0 + means) / 2.0, 0.0, 1.0)

    def precisions(self, histogram: Integers, reports: int) -> tuple[Floats, Floats]:
        """Of even draws from [-C, C], of mean square C^2/3."""
        a, b = self.constants
        return self._precisions(reports, a, b, math.sqrt(3.0) / self.piecewise.bound)

    def output(self) -> str:
        """A row of bits and floats."""
        bound = self.piecewise.bound
        return (
            f"{self.layout.itemsize} bytes: {self.size} bits for presence padded to {self._row_bytes} "
            f"bytes, then {self.size} 32-bit floats in [{-bound:.6g}, {bound:.6g}], zero where absent"
            f"{self._assumed}"
        )
