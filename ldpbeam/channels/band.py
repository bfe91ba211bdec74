"""The channel of the square wave and of the piecewise mechanism: a band around a moving centre."""

from __future__ import annotations

import numpy as np

from ldpbeam.channels.channel import Channel, Floats


class BandChannel(Channel):
    """A channel with one density in a band around a moving centre, and another one outside (SW, PM).

    The report's density at y given x in [0, 1] is ``inside`` if |y - (offset + slope x)| <= ``half_width``,
    and ``outside`` elsewhere in [low, high]. A product uses four look-ups per bucket in the second
    antiderivative of the vector, so it takes time O(report buckets + value buckets).
    """

    def __init__(
        self,
        value_buckets: int,
        report_buckets: int,
        *,
        low: float,
        high: float,
        slope: float,
        offset: float,
        half_width: float,
        inside: float,
        outside: float,
    ) -> None:
        super().__init__(report_buckets, value_buckets)
        self.report_edges = np.linspace(low, high, report_buckets + 1)
        self.centre_edges = offset + slope * np.linspace(0.0, 1.0, value_buckets + 1)
        self.half_width = half_width
        self.step = inside - outside
        self.floor = outside * (high - low) / report_buckets

    def _matvec(self, x: Floats) -> Floats:
        weights = np.ravel(x)
        band = _band_integrals(weights, self.centre_edges, self.report_edges, self.half_width)
        product: Floats = self.floor * weights.sum() + self.step * band
        return product

    def _rmatvec(self, x: Floats) -> Floats:
        weights = np.ravel(x)
        value_width, report_width = _width(self.centre_edges), _width(self.report_edges)
        band = _band_integrals(weights, self.report_edges, self.centre_edges, self.half_width)
        product: Floats = self.floor * weights.sum() + self.step * band * (report_width / value_width)
        return product

    def dense(self) -> Floats:
        """The matrix, each entry computed from the band's area in the rectangle of (report, centre)."""
        corners = self.report_edges[:, None] - self.centre_edges[None, :]

        def area_below(shift: float) -> Floats:
            """The area of {report - centre <= shift} in each rectangle."""
            ramp = 0.5 * np.square(np.maximum(shift - corners, 0.0))
            return ramp[:-1, 1:] - ramp[1:, 1:] - ramp[:-1, :-1] + ramp[1:, :-1]

        width = _width(self.centre_edges)
        area = area_below(self.half_width) - area_below(-self.half_width)
        matrix: Floats = self.floor + self.step * area / width
        return matrix


def _width(edges: Floats) -> float:
    """The width of equal buckets, from the outermost edges: neighbouring edges have rounding errors."""
    return float(edges[-1] - edges[0]) / (len(edges) - 1)


def _band_integrals(weights: Floats, source: Floats, target: Floats, half_width: float) -> Floats:
    """Integrals over each target bucket of the source mass within ``half_width``.

    Source bucket k has the mass ``weights[k]``, distributed uniformly; ``source`` and ``target`` are the
    edges of equal buckets on one axis. With D the second antiderivative of the mass's density, the integral
    over a target bucket [s, t] is D(t + h) - D(s + h) - D(t - h) + D(s - h).
    """
    width = _width(source)
    mass = np.concatenate(([0.0], np.cumsum(weights)))
    second = np.concatenate(([0.0], np.cumsum(width * (mass[:-1] + 0.5 * weights))))

    def antiderivative(points: Floats) -> Floats:
        position = (points - source[0]) / width
        index = np.clip(np.floor(position).astype(np.int64), 0, len(weights) - 1)
        inside = np.clip(position - index, 0.0, 1.0)
        beyond = np.maximum(points - source[-1], 0.0)
        result: Floats = (
            second[index] + width * inside * (mass[index] + 0.5 * inside * weights[index]) + mass[-1] * beyond
        )
        return result

    difference: Floats = antiderivative(target + half_width) - antiderivative(target - half_width)
    return np.diff(difference)
