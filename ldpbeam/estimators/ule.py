"""ULE: the distribution from the joint likelihood of what each user sent to several services."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ldpbeam.attributes import MOST_JOINT_CELLS, Attribute
from ldpbeam.domains import Floats, Integers, KeyValues, Numeric
from ldpbeam.estimators.em import convergence_warnings
from ldpbeam.estimators.estimate import Estimate
from ldpbeam.estimators.iteration import maximise
from ldpbeam.estimators.options import AboveZero, Iterations
from ldpbeam.estimators.question import Question
from ldpbeam.statistics import Statistic

#: Up to this many entries the likelihoods of all kinds of users may be one matrix (64 MB).
MATRIX_ENTRIES = 2**23
#: A table of all cells is preferred to that matrix up to this many cells a kind: its products are
#: matrix times matrix, and measured twenty times faster an entry than matrix times vector.
TABLE_CELLS_PER_KIND = 16
#: Where neither is possible, likelihoods are made anew in blocks of this many entries.
BLOCK_ENTRIES = 2**21


class JointLikelihood:
    """The likelihoods of every kind of user in a joint histogram, and products with them.

    A kind of user is a joint cell: what each service received, or that it received nothing, which
    multiplies by one. Products take one of three forms, chosen by size alone:

    * one matrix (kinds, value buckets), where the kinds are few;
    * the table of all cells as ``(left * weights) @ right.T``, the services split in two sides, so that
      an iteration costs the table's size and not the users';
    * blocks of rows, made anew in each product.

    Rows are scaled to a largest entry of one, so that products over many services do not underflow.

    Attributes:
        counts: users of each kind, shape (kinds,).
        digits: each kind's cell on each service's axis, shape (kinds, services); 0 is no report.
        places: each kind's place among the cells of an axis that some kind has, shape (kinds, services).
        log_axes: log P(axis cell | value bucket) of those cells of each service; of no report, zeros.
        log_scale: the logarithm of what the rows were divided by, summed over users.
    """

    def __init__(self, question: Question) -> None:
        attribute, statistic = question.attribute, question.statistic
        self.digits, self.counts = marginal(attribute, statistic, question.services)
        used = [np.unique(digit, return_inverse=True) for digit in self.digits.T]
        self.places = np.stack([place for _, place in used], axis=1)
        axes = [
            attribute.joint_likelihood(service, cells)
            for service, (cells, _) in zip(question.services, used, strict=True)
        ]
        self.log_axes = [np.log(np.maximum(axis, np.finfo(np.float64).tiny)) for axis in axes]
        self.value_buckets = attribute.value_buckets
        self.log_scale = 0.0
        self._matrix: Floats | None = None
        self._table: tuple[Floats, Floats, Integers, Integers] | None = None
        cells = float(np.prod([float(len(axis)) for axis in self.log_axes]))
        kinds = len(self.counts)
        small = kinds * self.value_buckets <= MATRIX_ENTRIES
        if cells <= MOST_JOINT_CELLS and not (small and cells > TABLE_CELLS_PER_KIND * kinds):
            self._table = self._split()
        elif small:
            self._matrix, logs = self._rows(slice(None))
            self.log_scale = float(self.counts @ logs)
        else:
            self.log_scale = sum(float(self.counts[c] @ logs) for c, _, logs in self._blocks())

    def _rows(self, chosen: slice) -> tuple[Floats, Floats]:
        """The scaled likelihoods of some kinds of users, and the logarithms of the scales."""
        logs = np.zeros((len(self.counts[chosen]), self.value_buckets))
        for axis, place in zip(self.log_axes, self.places[chosen].T, strict=True):
            logs += axis[place]
        return _scaled(logs)

    def _split(self) -> tuple[Floats, Floats, Integers, Integers]:
        """Two sides of services, and each kind's row on both."""
        sides = [np.zeros((1, self.value_buckets)), np.zeros((1, self.value_buckets))]
        places = [np.zeros(len(self.counts), np.int64), np.zeros(len(self.counts), np.int64)]
        for a in sorted(range(len(self.log_axes)), key=lambda a: (-len(self.log_axes[a]), a)):
            axis = self.log_axes[a]
            side = 0 if len(sides[0]) <= len(sides[1]) else 1
            places[side] = places[side] * len(axis) + self.places[:, a]
            total = sides[side][:, None, :] + axis[None, :, :]
            sides[side] = total.reshape(-1, self.value_buckets)
        (left, left_logs), (right, right_logs) = map(_scaled, sides)
        self.log_scale = float(self.counts @ (left_logs[places[0]] + right_logs[places[1]]))
        return left, right, places[0], places[1]

    def _blocks(self) -> Iterator[tuple[slice, Floats, Floats]]:
        size = max(1, BLOCK_ENTRIES // self.value_buckets)
        for start in range(0, len(self.counts), size):
            chosen = slice(start, start + size)
            yield chosen, *self._rows(chosen)

    def forward(self, weights: Floats) -> Floats:
        """The (scaled) probability of each kind of user under a distribution, shape (kinds,)."""
        if self._matrix is not None:
            return self._matrix @ weights
        if self._table is not None:
            left, right, row, column = self._table
            table: Floats = (left * weights) @ right.T
            return table[row, column]
        return np.concatenate([rows @ weights for _, rows, _ in self._blocks()])

    def backward(self, ratios: Floats) -> Floats:
        """The transpose of :meth:`forward`, shape (value buckets,)."""
        if self._matrix is not None:
            return ratios @ self._matrix
        if self._table is not None:
            left, right, row, column = self._table
            table = np.zeros((len(left), len(right)))
            table[row, column] = ratios
            total: Floats = np.einsum("ij,ij->j", table @ right, left)
            return total
        total = np.zeros(self.value_buckets)
        for chosen, rows, _ in self._blocks():
            total += ratios[chosen] @ rows
        return total


def _scaled(logs: Floats) -> tuple[Floats, Floats]:
    """Rows from their logarithms, divided by their largest entry, and the logarithm of that."""
    largest = logs.max(axis=1)
    return np.exp(logs - largest[:, None]), largest


def marginal(
    attribute: Attribute, statistic: Statistic, services: Sequence[str]
) -> tuple[Integers, Integers]:
    """The joint histogram of some of the joined services.

    Returns:
        (digits, counts): each kind of user's cell a service, shape (kinds, services), and how many
        users are of it, shape (kinds,). Users who answered none of the services are left out.
    """
    cells, counts = statistic.joint_cells, statistic.joint_counts
    sizes, digits, rest = {}, {}, cells
    for service, size in zip(attribute.joint_services, attribute.joint_shape, strict=True):
        sizes[service], digits[service] = size, rest % size
        rest = rest // size
    chosen = np.zeros_like(cells)
    for service in services:
        chosen = chosen * sizes[service] + digits[service]
    kinds, inverse = np.unique(chosen, return_inverse=True)
    users = np.zeros(len(kinds), dtype=np.int64)
    np.add.at(users, inverse, counts)
    columns, rest = [], kinds
    for service in reversed(services):
        columns.append(rest % sizes[service])
        rest = rest // sizes[service]
    some = kinds > 0
    return np.stack(columns[::-1], axis=1)[some], users[some]


def information_kept(attribute: Attribute, services: Sequence[str], weights: Floats) -> dict[str, float]:
    """The share of each channel's information that the joint histogram's resolution keeps.

    It is the mutual information of value and report bucket under the estimated distribution, at
    ``joint_buckets`` over sixteen times as many (fewer, or nothing said, where that is a matrix of more than
    2^22 entries).
    """
    kept: dict[str, float] = {}
    finer = min(16, 2**22 // (attribute.joint_buckets * attribute.value_buckets))
    if finer < 2:
        return kept
    for index in attribute.versions_of(services):
        version = attribute.versions[index]
        cells = [version.mechanism.cells(n * attribute.joint_buckets) for n in (1, finer)]
        if cells[0] == cells[1]:
            # Reports of a few kinds, such as a sign or a category, are kept as they are.
            kept[version.label] = 1.0
            continue
        bits = []
        for resolution in (attribute.joint_buckets, finer * attribute.joint_buckets):
            channel = version.mechanism.channel(attribute.value_buckets, resolution).dense()
            marginal_of_report = channel @ weights
            ratio = np.where(channel > 0, channel, 1.0) / marginal_of_report[:, None]
            bits.append(float((channel * np.log(ratio)).sum(axis=0) @ weights))
        kept[version.label] = min(1.0, bits[0] / bits[1]) if bits[1] > 0 else 1.0
    return kept


#: Below this share of a channel's information the joint histogram's resolution is worth a warning.
LITTLE_KEPT = 0.9


def resolution_warnings(attribute: Attribute, kept: Mapping[str, float]) -> tuple[str, ...]:
    """What to change where the joint histogram is too coarse, from :func:`information_kept`."""
    return tuple(
        f"the joint histogram keeps {share:.0%} of what {label} says: raise joint_buckets (now "
        f"{attribute.joint_buckets}), or join fewer services in this attribute"
        for label, share in kept.items()
        if share < LITTLE_KEPT
    )


def ule(
    question: Question,
    *,
    smooth: bool = True,
    tolerance: AboveZero = 1e-3,
    max_iterations: Iterations = 10_000,
) -> Estimate:
    """User-level likelihood estimation (multi-service paper, Algorithm 3).

    EM over users with the product of the likelihoods of all their reports; a user who answered only
    some services multiplies only those. The paper prints plain EM while its code smooths; plain EM
    is far worse on smooth populations, so smoothing is the default.

    Args:
        question: what to estimate.
        smooth: smooth each update (EMS); false for the printed algorithm.
        tolerance: on the gain of the summed log-likelihood.
        max_iterations: give up here, with a warning.
    """
    likelihood = JointLikelihood(question)
    buckets = question.attribute.value_buckets
    smoothing = smooth and isinstance(question.attribute.domain, Numeric)
    fit = maximise(
        likelihood.forward,
        likelihood.backward,
        likelihood.counts.astype(np.float64),
        np.full(buckets, 1.0 / buckets),
        smoothing=smoothing,
        tolerance=tolerance,
        max_iterations=max_iterations,
        progress=question.progress,
    )
    kept = information_kept(question.attribute, question.services, fit.weights)
    details = {
        "joint_buckets": question.attribute.joint_buckets,
        "information_kept": kept,
        "tolerance_per_report": tolerance / question.reports,
    }
    return question.answer_distribution(
        "ule",
        fit.weights,
        converged=fit.converged,
        n_iterations=len(fit.log_likelihoods),
        log_likelihoods=fit.log_likelihoods + likelihood.log_scale,
        warnings=convergence_warnings(fit, tolerance) + resolution_warnings(question.attribute, kept),
        details=details,
    )


def check_joined(attribute: Attribute, services: Sequence[str]) -> None:
    """Whoever reads the joint histogram needs users grouped, and these services joined."""
    if isinstance(attribute.domain, KeyValues):
        raise ValueError("keys with values are not joined; use key_value, privkv_mle or pckv_em")
    if not attribute.group_users:
        raise ValueError("it joins users' reports, and this study does not group users")
    apart = [service for service in services if service not in attribute.joint_services]
    if apart:
        raise ValueError(f"{', '.join(apart)} is not among the joined services of the statistic")
