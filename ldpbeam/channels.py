"""Channels: mechanisms as probabilities P(report bucket | value bucket).

A channel is a scipy ``LinearOperator`` of shape (report buckets, value buckets) whose columns sum to
one. A value is uniform inside its bucket, and densities are integrated exactly over both buckets, so
nothing is evaluated at midpoints only. Each class knows its structure: a product costs O(buckets),
and :meth:`Channel.dense` computes the same matrix from an independent closed form.
"""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter
from scipy.sparse.linalg import LinearOperator

Floats = NDArray[np.float64]


class Channel(LinearOperator):
    """P(report bucket | value bucket), shape (report buckets, value buckets)."""

    def __init__(self, report_buckets: int, value_buckets: int) -> None:
        super().__init__(np.dtype(np.float64), (report_buckets, value_buckets))  # type: ignore[call-arg]

    @abstractmethod
    def dense(self) -> Floats:
        """The whole matrix, from a formula that shares nothing with the products."""

    def rows(self, chosen: NDArray[np.int64]) -> Floats:
        """Some rows of the matrix, shape (chosen, value buckets)."""
        return self.dense()[chosen]


class BandChannel(Channel):
    """A band of one density around a moving centre, another density outside (SW, PM).

    The report's density at y given x in [0, 1] is ``inside`` where |y - (offset + slope x)| <=
    ``half_width`` and ``outside`` elsewhere in [low, high]. A product is four look-ups in the second
    antiderivative of the vector, so it costs O(report buckets + value buckets).
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
        """Each entry from the area of the band inside its rectangle of (report, centre)."""
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
    """The width of equal buckets; the difference of two edges would carry their rounding."""
    return float(edges[-1] - edges[0]) / (len(edges) - 1)


def _band_integrals(weights: Floats, source: Floats, target: Floats, half_width: float) -> Floats:
    """Integrals over each target bucket of the source mass within ``half_width``.

    The mass of source bucket k is ``weights[k]``, spread evenly; ``source`` and ``target`` are the
    edges of equal buckets on one axis. With D the second antiderivative of the mass's density, a
    target bucket [s, t] gets D(t + h) - D(s + h) - D(t - h) + D(s - h).
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


class LinearChannel(Channel):
    """A report of few values whose probabilities are linear in the value (SR).

    P(r | x) = intercepts[r] + slopes[r] x, exact for a bucket at its midpoint.
    """

    def __init__(self, value_buckets: int, intercepts: Floats, slopes: Floats) -> None:
        super().__init__(len(intercepts), value_buckets)
        self.intercepts = intercepts
        self.slopes = slopes
        self.midpoints = (np.arange(value_buckets) + 0.5) / value_buckets

    def _matvec(self, x: Floats) -> Floats:
        weights = np.ravel(x)
        product: Floats = self.intercepts * weights.sum() + self.slopes * (self.midpoints @ weights)
        return product

    def _rmatvec(self, x: Floats) -> Floats:
        weights = np.ravel(x)
        product: Floats = self.intercepts @ weights + (self.slopes @ weights) * self.midpoints
        return product

    def dense(self) -> Floats:
        """The outer sum of intercepts and slopes."""
        return self.intercepts[:, None] + np.outer(self.slopes, self.midpoints)


class DiagonalChannel(Channel):
    """A multiple of the identity plus a constant (GRR): ``keep`` on the diagonal, else ``other``."""

    def __init__(self, size: int, keep: float, other: float) -> None:
        super().__init__(size, size)
        self.keep = keep
        self.other = other

    def _matvec(self, x: Floats) -> Floats:
        weights = np.ravel(x)
        product: Floats = (self.keep - self.other) * weights + self.other * weights.sum()
        return product

    _rmatvec = _matvec

    def dense(self) -> Floats:
        """The full matrix."""
        matrix = np.full(self.shape, self.other)
        np.fill_diagonal(matrix, self.keep)
        return matrix


class LaplaceChannel(Channel):
    """Laplace noise on [0, 1], the report clamped to [0, 1]: inner cells and two end cells.

    The clamped report is sufficient: beyond an end the likelihood's shape in x no longer changes.
    Rows are (-inf, 0), ``inner`` equal cells of [0, 1], (1, inf). Products are two exponential
    recursions on the common refinement of cells and value buckets.
    """

    def __init__(self, value_buckets: int, inner: int, scale: float) -> None:
        super().__init__(inner + 2, value_buckets)
        self.scale = scale
        self.fine = int(np.lcm(value_buckets, inner))
        width = 1.0 / self.fine
        ratio = width / scale
        # The mass a fine cell receives from another n cells away is far * exp(-(n - 1) ratio).
        self.decay = np.exp(-ratio)
        self.far = 0.5 * np.expm1(-ratio) ** 2 / ratio
        self.same = 1.0 + np.expm1(-ratio) / ratio

    @functools.cached_property
    def below(self) -> Floats:
        """P(report < 0 | x uniform in a fine cell), mirrored P(report > 1); shape (fine,)."""
        ratio = 1.0 / (self.fine * self.scale)
        leave = 0.5 * -np.expm1(-ratio) / ratio
        share: Floats = leave * np.exp(-np.arange(self.fine) * ratio)
        return share

    def _spread(self, mass: Floats) -> Floats:
        """The symmetric kernel of the fine cells, applied to a vector of their size."""
        right = lfilter([0.0, self.far], [1.0, -self.decay], mass)
        left = lfilter([0.0, self.far], [1.0, -self.decay], mass[::-1])[::-1]
        spread: Floats = self.same * mass + right + left
        return spread

    def _matvec(self, x: Floats) -> Floats:
        weights = np.ravel(x)
        per_bucket = self.fine // self.shape[1]
        mass = np.repeat(weights / per_bucket, per_bucket)
        inner = self._spread(mass).reshape(self.shape[0] - 2, -1).sum(axis=1)
        ends = self.below @ mass, self.below[::-1] @ mass
        return np.concatenate(([ends[0]], inner, [ends[1]]))

    def _rmatvec(self, x: Floats) -> Floats:
        weights = np.ravel(x)
        per_cell = self.fine // (self.shape[0] - 2)
        fine = self._spread(np.repeat(weights[1:-1], per_cell))
        fine += weights[0] * self.below + weights[-1] * self.below[::-1]
        product: Floats = fine.reshape(self.shape[1], -1).mean(axis=1)
        return product

    def dense(self) -> Floats:
        """Each entry from differences of the second antiderivative of the Laplace density."""
        cells = np.linspace(0.0, 1.0, self.shape[0] - 1)
        edges = np.linspace(0.0, 1.0, self.shape[1] + 1)
        gap = cells[:, None] - edges[None, :]
        # The integral over x of the distribution function at y is an antiderivative in y - x.
        # (expm1, as a constant drops out of the differences and would cost their digits at a large scale).
        second = np.maximum(gap, 0.0) + 0.5 * self.scale * np.expm1(-np.abs(gap) / self.scale)
        below = (second[:, :-1] - second[:, 1:]) * self.shape[1]
        return np.vstack([below[:1], np.diff(below, axis=0), 1.0 - below[-1:]])


class StackedChannel(Channel):
    """Reports of several channels one below the other: independent reports of one population.

    Its columns sum to the number of channels, so EM's weights still sum to one when the counts of
    all of them are divided by their total.
    """

    def __init__(self, channels: Sequence[Channel]) -> None:
        super().__init__(sum(channel.shape[0] for channel in channels), channels[0].shape[1])
        self.channels = tuple(channels)
        self.ends = np.cumsum([channel.shape[0] for channel in channels])[:-1]

    def _matvec(self, x: Floats) -> Floats:
        return np.concatenate([channel.matvec(np.ravel(x)) for channel in self.channels])

    def _rmatvec(self, x: Floats) -> Floats:
        parts = np.split(np.ravel(x), self.ends)
        total = np.zeros(self.shape[1])
        for channel, part in zip(self.channels, parts, strict=True):
            total += channel.rmatvec(part)
        return total

    def dense(self) -> Floats:
        """The matrices of all channels, stacked."""
        return np.vstack([channel.dense() for channel in self.channels])


class DenseChannel(Channel):
    """A matrix that has no structure to use, such as normal noise or a wave of any shape."""

    def __init__(self, matrix: Floats) -> None:
        super().__init__(*matrix.shape)
        self.matrix = matrix

    def _matvec(self, x: Floats) -> Floats:
        product: Floats = self.matrix @ np.ravel(x)
        return product

    def _rmatvec(self, x: Floats) -> Floats:
        product: Floats = np.ravel(x) @ self.matrix
        return product

    def dense(self) -> Floats:
        """The matrix itself."""
        return self.matrix


class BinnedChannel(Channel):
    """A channel of bins, seen from value buckets that are finer (or as fine): each bin is so many of them."""

    def __init__(self, channel: Channel, value_buckets: int) -> None:
        super().__init__(channel.shape[0], value_buckets)
        self.channel = channel
        self.per_bin = value_buckets // channel.shape[1]

    def _matvec(self, x: Floats) -> Floats:
        product: Floats = self.channel.matvec(np.ravel(x).reshape(-1, self.per_bin).sum(axis=1))
        return product

    def _rmatvec(self, x: Floats) -> Floats:
        product: Floats = np.repeat(self.channel.rmatvec(np.ravel(x)), self.per_bin)
        return product

    def dense(self) -> Floats:
        """The bins' matrix, its columns repeated."""
        return np.repeat(self.channel.dense(), self.per_bin, axis=1)


class MixtureChannel(Channel):
    """A report names which of several channels it came through, drawn with fixed shares.

    Its rows are those of the channels, one below the other, times their shares; columns sum to one.
    """

    def __init__(self, channels: Sequence[Channel], shares: Sequence[float]) -> None:
        super().__init__(sum(channel.shape[0] for channel in channels), channels[0].shape[1])
        self.stacked = StackedChannel(channels)
        self.shares = np.repeat(shares, [channel.shape[0] for channel in channels])

    def _matvec(self, x: Floats) -> Floats:
        product: Floats = self.shares * self.stacked.matvec(np.ravel(x))
        return product

    def _rmatvec(self, x: Floats) -> Floats:
        product: Floats = self.stacked.rmatvec(self.shares * np.ravel(x))
        return product

    def dense(self) -> Floats:
        """The stacked matrix, its rows times their shares."""
        return self.shares[:, None] * self.stacked.dense()
