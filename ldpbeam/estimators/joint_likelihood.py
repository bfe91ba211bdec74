"""The joint likelihood of each user's reports to several services, and products with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from ldpbeam import joint_cells
from ldpbeam.attributes import MOST_JOINT_CELLS, Attribute
from ldpbeam.domains import Floats, Integers
from ldpbeam.estimators.products import Products
from ldpbeam.estimators.question import Question
from ldpbeam.estimators.user_rows import UserRows
from ldpbeam.statistics import Statistic

#: The most entries of the likelihoods of all kinds of users, if they are one matrix (64 MB).
MATRIX_ENTRIES = 2**23
#: The same for a joint histogram that keeps rows of users, whose products are faster in single precision.
FEW_ENTRIES = 2**20
#: Up to this many cells per kind, a table of all cells is preferred to that matrix: it multiplies matrices,
#: which was measured to be twenty times faster per entry than matrix times vector.
TABLE_CELLS_PER_KIND = 16


class JointProducts(Products, Protocol):
    """The likelihoods of kinds of users.

    Each row is scaled to a largest entry of about one, so that products over many services do not underflow.
    """

    def rows(self, chosen: Integers) -> Floats:
        """The (scaled) likelihoods of some kinds, shape (chosen, value buckets)."""
        ...


class Matrix(JointProducts):
    """The likelihoods of a few kinds of users, as one matrix."""

    def __init__(self, log_axes: Sequence[Floats], places: Integers) -> None:
        logs = np.zeros((len(places), log_axes[0].shape[1]))
        for axis, digits in zip(log_axes, places.T, strict=True):
            logs += axis[digits]
        self.matrix, self.log_scales = _scaled(logs)

    def forward(self, weights: Floats) -> Floats:
        """The (scaled) probability of each kind under a distribution, shape (kinds,)."""
        return self.matrix @ weights

    def backward(self, ratios: Floats) -> Floats:
        """The transpose of :meth:`forward`, shape (value buckets,)."""
        return ratios @ self.matrix

    def rows(self, chosen: Integers) -> Floats:
        """The (scaled) likelihoods of some kinds, shape (chosen, value buckets)."""
        return self.matrix[chosen]


class Table(JointProducts):
    """The likelihoods of all cells as ``(left * weights) @ right.T``, with some services on either side.

    The time of a product depends on the size of the table, not on the number of users.
    """

    def __init__(self, log_axes: Sequence[Floats], places: Integers) -> None:
        value_buckets = log_axes[0].shape[1]
        sides = [np.zeros((1, value_buckets)), np.zeros((1, value_buckets))]
        rows = [np.zeros(len(places), np.int64), np.zeros(len(places), np.int64)]
        for a in sorted(range(len(log_axes)), key=lambda a: (-len(log_axes[a]), a)):
            axis = log_axes[a]
            side = 0 if len(sides[0]) <= len(sides[1]) else 1
            rows[side] = rows[side] * len(axis) + places[:, a]
            total = sides[side][:, None, :] + axis[None, :, :]
            sides[side] = total.reshape(-1, value_buckets)
        (self.left, left_logs), (self.right, right_logs) = map(_scaled, sides)
        self.row, self.column = rows
        self.log_scales = left_logs[self.row] + right_logs[self.column]

    def forward(self, weights: Floats) -> Floats:
        """The (scaled) probability of each kind under a distribution, shape (kinds,)."""
        table: Floats = (self.left * weights) @ self.right.T
        return table[self.row, self.column]

    def backward(self, ratios: Floats) -> Floats:
        """The transpose of :meth:`forward`, shape (value buckets,)."""
        table = np.zeros((len(self.left), len(self.right)))
        table[self.row, self.column] = ratios
        return np.asarray(np.einsum("ij,ij->j", table @ self.right, self.left))

    def rows(self, chosen: Integers) -> Floats:
        """The (scaled) likelihoods of some kinds, shape (chosen, value buckets)."""
        return self.left[self.row[chosen]] * self.right[self.column[chosen]]


class JointLikelihood:
    """The likelihoods of every kind of user in a joint histogram, and products with them.

    With ``ends``, the first and the last value bucket are the ends of a range of numbers
    (:func:`ldpbeam.channels.with_ends`).

    A kind of user is a cell of the joint histogram: for each service, the bucket of the user's report, or
    "no report", whose likelihood is one. The likelihoods are a :class:`Matrix`, a :class:`Table` or
    :class:`~ldpbeam.estimators.user_rows.UserRows`, depending on sizes alone.

    Attributes:
        counts: the number of users of each kind, shape (kinds,).
        digits: each kind's cell on each service's axis, shape (kinds, services); 0 is "no report".
        log_axes: for each service, log P(axis cell | value bucket) of the cells that occur; 0 for "no
            report".
        places: the index of each kind's cell among those that occur, shape (kinds, services).
        products: the products with the likelihoods.
        log_scale: the sum over users of the logarithm of the row's scale.
    """

    def __init__(self, question: Question, *, ends: bool = False) -> None:
        attribute = question.attribute
        self.digits, self.counts = marginal(attribute, question.statistic, question.services)
        used = [np.unique(digit, return_inverse=True) for digit in self.digits.T]
        self.places = np.stack([digits.astype(self.digits.dtype) for _, digits in used], axis=1)
        axes = [
            attribute.joint_likelihood(service, cells, ends=ends)
            for service, (cells, _) in zip(question.services, used, strict=True)
        ]
        self.log_axes = [np.log(np.maximum(axis, np.finfo(np.float64).tiny)) for axis in axes]
        cells = float(np.prod([float(len(axis)) for axis in self.log_axes]))
        kinds = len(self.counts)
        most = FEW_ENTRIES if attribute.keeps_rows else MATRIX_ENTRIES
        small = kinds * attribute.value_buckets <= most
        self.products: Matrix | Table | UserRows
        if cells <= MOST_JOINT_CELLS and not (small and cells > TABLE_CELLS_PER_KIND * kinds):
            self.products = Table(self.log_axes, self.places)
        elif small:
            self.products = Matrix(self.log_axes, self.places)
        else:
            self.products = UserRows(self.log_axes, list(self.places.T))
        self.log_scale = float(self.counts @ self.products.log_scales)


def _scaled(logs: Floats) -> tuple[Floats, Floats]:
    """Rows from their logarithms, each divided by its largest entry, and the logarithms of these entries."""
    largest = logs.max(axis=1)
    return np.exp(logs - largest[:, None]), largest


def marginal(
    attribute: Attribute, statistic: Statistic, services: Sequence[str]
) -> tuple[Integers, Integers]:
    """The joint histogram of some of the joined services.

    Returns:
        (digits, counts): each kind's cell on the axis of each service, shape (kinds, services), and the
        number of its users, shape (kinds,). Users who answered none of the services are left out. Digits are
        of the smallest integer type that holds them.
    """
    shape = dict(zip(attribute.joint_services, attribute.joint_shape, strict=True))
    digits_of_cells = joint_cells.digits_of(attribute.joint_shape, statistic.joint_cells)
    digits = dict(zip(attribute.joint_services, digits_of_cells, strict=True))
    # The first service changes slowest.
    chosen = list(reversed(services))
    sizes = [shape[service] for service in chosen]
    cells = joint_cells.indexes(sizes, [digits[service] for service in chosen])
    del digits
    kinds, users = joint_cells.added_up(cells, statistic.joint_counts)
    columns = [digit.astype(np.min_scalar_type(max(sizes))) for digit in joint_cells.digits_of(sizes, kinds)]
    table = np.stack(columns[::-1], axis=1)
    some = table.any(axis=1)
    return table[some], users[some]
