"""ULE: the distribution from the joint likelihood of each user's reports to several services."""

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

#: The most entries of the likelihoods of all kinds of users, if they are one matrix (64 MB).
MATRIX_ENTRIES = 2**23
#: Up to this many cells per kind, a table of all cells is preferred to that matrix: its products are matrix
#: times matrix, which was measured twenty times faster per entry than matrix times vector.
TABLE_CELLS_PER_KIND = 16
#: If neither fits, each product recomputes the likelihoods in blocks of this many entries.
BLOCK_ENTRIES = 2**21


class JointLikelihood:
    """The likelihoods of every kind of user in a joint histogram, and products with them.

    A kind of user is a cell of the joint histogram: for each service, the bucket of the user's report, or
    "no report", whose likelihood is one. A product has one of three forms, chosen by size alone:

    * one matrix of shape (kinds, value buckets), if there are few kinds;
    * the table of all cells as ``(left * weights) @ right.T``, with the services divided into two sides, so
      that the time of an iteration depends on the table's size and not on the number of users;
    * blocks of rows, recomputed in each product.

    Each row is scaled to a largest entry of one, so that products over many services do not underflow.

    Attributes:
        counts: the number of users of each kind, shape (kinds,).
        digits: each kind's cell on each service's axis, shape (kinds, services); 0 is "no report".
        places: the index of that cell among the cells of the axis that occur, shape (kinds, services).
        log_axes: for each service, log P(axis cell | value bucket) of the cells that occur; 0 for no report.
        log_scale: the sum over users of the logarithm of the row's scale.
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
        """The likelihood tables of two sides of services, and each kind's row in both."""
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
    """Rows from their logarithms, each divided by its largest entry, and the logarithms of these entries."""
    largest = logs.max(axis=1)
    return np.exp(logs - largest[:, None]), largest


def marginal(
    attribute: Attribute, statistic: Statistic, services: Sequence[str]
) -> tuple[Integers, Integers]:
    """The joint histogram of some of the joined services.

    Returns:
        (digits, counts): each kind's cell on the axis of each service, shape (kinds, services), and the
        number of its users, shape (kinds,). Users who answered none of the services are left out.
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
    """The share of each channel's information that the joint histogram's resolution keeps, by label.

    It is the mutual information of value and report bucket under the estimated distribution, with
    ``joint_buckets`` buckets, divided by that with sixteen times as many. If the matrix would have more than
    2^22 entries, fewer buckets are compared, or no share is returned.
    """
    kept: dict[str, float] = {}
    finer = min(16, 2**22 // (attribute.joint_buckets * attribute.value_buckets))
    if finer < 2:
        return kept
    for index in attribute.versions_of(services):
        version = attribute.versions[index]
        cells = [version.mechanism.cells(n * attribute.joint_buckets) for n in (1, finer)]
        if cells[0] == cells[1]:
            # Reports of few kinds, such as signs or categories, have one bucket for each kind.
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


#: If the joint histogram keeps less than this share of a channel's information, the estimate has a warning.
LITTLE_KEPT = 0.9


def resolution_warnings(attribute: Attribute, kept: Mapping[str, float]) -> tuple[str, ...]:
    """Warnings for channels whose joint histogram is too coarse, from :func:`information_kept`."""
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

    This is EM over users; a user's likelihood is the product of the likelihoods of the user's reports. The
    paper prints plain EM, but its code smooths. Plain EM is far worse on smooth populations, so smoothing is
    the default.

    Args:
        question: what to estimate.
        smooth: whether to smooth each update of a numeric distribution (EMS); false as printed.
        tolerance: stop when the gain of the summed log-likelihood is below this.
        max_iterations: stop after this many iterations, with a warning.
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
    """Check that users are grouped and the services are joined, as the joint histogram needs.

    Raises:
        ValueError: if the domain is of keys with values, users are not grouped, or a service is not joined.
    """
    if isinstance(attribute.domain, KeyValues):
        raise ValueError("keys with values are not joined; use key_value, privkv_mle or pckv_em")
    if not attribute.group_users:
        raise ValueError("it joins users' reports, and this study does not group users")
    apart = [service for service in services if service not in attribute.joint_services]
    if apart:
        raise ValueError(f"{', '.join(apart)} is not among the joined services of the statistic")
