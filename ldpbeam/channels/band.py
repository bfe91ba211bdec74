"""The channel of the square wave and of the piecewise mechanism: a band around a moving centre."""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np

from ldpbeam.channels.channel import Channel, Floats


class Band(NamedTuple):
    """The density of reports in [low, high].

    At y given x in [0, 1] it is ``inside`` if |y - (offset + slope x)| <= ``half_width``, else ``outside``.
    """

    low: float
    high: float
    slope: float
    offset: float
    half_width: float
    inside: float
    outside: float

    def at(self, values: Floats, cells: int) -> Floats:
        """P(cell | value) of ``cells`` equal cells of the reports, shape (cells, values)."""
        edges = np.linspace(self.low, self.high, cells + 1)[:, None]
        centres = self.offset + self.slope * values
        near = np.diff(np.clip(edges, centres - self.half_width, centres + self.half_width), axis=0)
        floor = self.outside * (self.high - self.low) / cells
        return np.asarray(floor + (self.inside - self.outside) * near)

    def corners(self, cells: int) -> Floats:
        """The values between 0 and 1 at which the slope of some P(cell | value) changes, ascending."""
        edges = np.linspace(self.low, self.high, cells + 1) - self.offset
        values = np.concatenate((edges - self.half_width, edges + self.half_width)) / self.slope
        return np.unique(values[(values > 0.0) & (values < 1.0)])


class BandChannel(Channel):
    """A channel with one density in a band around a moving centre, and another one outside (SW, PM).

    A product uses four look-ups per bucket in the second antiderivative of the vector, so it takes time
    O(report buckets + value buckets).
    """

    def __init__(self, value_buckets: int, report_buckets: int, band: Band) -> None:
        super().__init__(report_buckets, value_buckets)
        self.band = band
        low, high, slope, offset, self.half_width, inside, outside = band
        self.report_edges = np.linspace(low, high, report_buckets + 1)
        self.centre_edges = offset + slope * np.linspace(0.0, 1.0, value_buckets + 1)
        self.step = inside - outside
        self.floor = outside * (high - low) / report_buckets

    @functools.cached_property
    def _onto_reports(self) -> BandIntegrals:
        return BandIntegrals(self.centre_edges, self.report_edges, self.half_width)

    @functools.cached_property
    def _onto_values(self) -> BandIntegrals:
        return BandIntegrals(self.report_edges, self.centre_edges, self.half_width)

    def _matvec(self, x: Floats) -> Floats:
        weights = np.ravel(x).astype(np.float64, copy=False)
        band = self._onto_reports(weights)
        band *= self.step
        band += self.floor * weights.sum()
        return band

    def _rmatvec(self, x: Floats) -> Floats:
        weights = np.ravel(x).astype(np.float64, copy=False)
        band = self._onto_values(weights)
        band *= self.step
        band *= _width(self.report_edges) / _width(self.centre_edges)
        band += self.floor * weights.sum()
        return band

    def dense(self) -> Floats:
        """The matrix, each entry computed from the band's area in the rectangle of (report, centre)."""
        corners = self.report_edges[:, None] - self.centre_edges[None, :]

        def area_below(shift: float) -> Floats:
            """The area of {report - centre <= shift} in each rectangle."""
            ramp = 0.5 * np.square(np.maximum(shift - corners, 0.0))
            return ramp[:-1, 1:] - ramp[1:, 1:] - ramp[:-1, :-1] + ramp[1:, :-1]

        width = _width(self.centre_edges)
        area = area_below(self.half_width) - area_below(-self.half_width)
        return self.floor + self.step * area / width


def _width(edges: Floats) -> float:
    """The width of equal buckets, from the outermost edges: neighbouring edges have rounding errors."""
    return float(edges[-1] - edges[0]) / (len(edges) - 1)


class BandIntegrals:
    """Integrals over each target bucket of the source mass within ``half_width``.

    Source bucket k has the mass ``weights[k]``, distributed uniformly; ``source`` and ``target`` are the
    edges of equal buckets on one axis. Let D be the second antiderivative of the mass's density. The integral
    over a target bucket [s, t] is D(t + h) - D(s + h) - D(t - h) + D(s - h). The places of the four look-ups
    in D do not depend on the weights, so they are computed once.
    """

    def __init__(self, source: Floats, target: Floats, half_width: float) -> None:
        self.width = _width(source)
        self.above = _Places(target + half_width, source)
        self.below = _Places(target - half_width, source)

    def __call__(self, weights: Floats) -> Floats:
        """The integrals, shape (target buckets,), of weights of shape (source buckets,)."""
        mass = _sums(weights)
        steps = 0.5 * weights
        steps += mass[:-1]
        steps *= self.width
        second = _sums(steps)
        difference = self.above.antiderivative(weights, mass, second)
        difference -= self.below.antiderivative(weights, mass, second)
        return difference[1:] - difference[:-1]


class _Places:
    """Where ascending points lie among the edges of equal buckets: before, within, after the last one.

    Only points within need a look-up. The sums before all buckets are zero, and those after are the totals.
    """

    def __init__(self, points: Floats, source: Floats) -> None:
        self.width = _width(source)
        last = len(source) - 2
        position = (points - source[0]) / self.width
        index = np.clip(np.floor(position).astype(np.int64), 0, last)
        inside = np.clip(position - index, 0.0, 1.0)
        beyond = np.maximum(points - source[-1], 0.0)
        self.points = len(points)
        self.start = int(np.count_nonzero(position <= 0.0))
        self.end = len(points) - int(np.count_nonzero((index == last) & (inside == 1.0)))
        self.past = int(np.count_nonzero(beyond == 0.0))
        self.index = index[self.start : self.end]
        self.half = 0.5 * inside[self.start : self.end]
        self.scale = self.width * inside[self.start : self.end]
        self.beyond = beyond[self.past :]

    def antiderivative(self, weights: Floats, mass: Floats, second: Floats) -> Floats:
        """The second antiderivative at the points, from the weights and their running sums."""
        values = np.zeros(self.points)
        within = weights.take(self.index)
        within *= self.half
        within += mass.take(self.index)
        within *= self.scale
        within += second.take(self.index)
        values[self.start : self.end] = within
        values[self.end :] = second[-2] + self.width * (mass[-2] + 0.5 * weights[-1])
        values[self.past :] += mass[-1] * self.beyond
        return values


def _sums(steps: Floats) -> Floats:
    """The running sums, from zero on."""
    sums = np.empty(len(steps) + 1)
    sums[0] = 0.0
    np.cumsum(steps, out=sums[1:])
    return sums
