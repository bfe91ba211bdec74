"""From the statistic of a pair to its two attributes, and the users in cells of both."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ldpbeam import joint_cells
from ldpbeam.attributes import Attribute
from ldpbeam.density.draws import draws
from ldpbeam.domains import Categories, Floats, Integers, Numeric
from ldpbeam.estimators.auto.dispatch import auto
from ldpbeam.estimators.auto.numbers import by_bucket, fit
from ldpbeam.estimators.pairs.dependence import Cells, Side
from ldpbeam.estimators.question import Question
from ldpbeam.pair_answer import Axis
from ldpbeam.statistics import Statistic, part_of

#: The most value buckets of a numeric attribute, and the most groups of these in an answer.
BUCKETS, GROUPS = 32, 8
#: The least share of a bucket: a table is scaled to its margins, which must be above zero.
LEAST_SHARE = 1e-6
#: The number of cells whose likelihoods are in memory at once, for all values.
BLOCK_CELLS = 2**13


@dataclass(frozen=True, eq=False)
class Half:
    """One attribute of a pair, from the reports of the pair's users.

    Attributes:
        attribute: the attribute, with its channels.
        side: its margin and the functions of its values.
        rows: P(cell | value bucket), shape (cells, buckets).
        starts: the first of the attribute's value buckets in each bucket, and their number; (buckets + 1,).
        values: the mean value in each bucket, in the attribute's unit; None for categories.
        margins: draws of the margin, shape (draws, buckets).
    """

    attribute: Attribute
    side: Side
    rows: Floats
    starts: Integers
    values: Floats | None
    margins: Floats

    def grouped(self, most: int) -> Integers:
        """The first bucket of each group, at most ``most`` groups, and the number of buckets.

        Categories are not grouped.
        """
        size = len(self.starts) - 1
        return _even(size, size if self.values is None else min(size, most))

    def axis(self, groups: Integers) -> Axis:
        """The axis of some groups of buckets."""
        domain = self.attribute.domain
        if isinstance(domain, Categories):
            return Axis(self.attribute.name, categories=domain.names)
        assert isinstance(domain, Numeric)
        edges = domain.edges(int(self.starts[-1]))[self.starts[groups]]
        return Axis(self.attribute.name, tuple(edges.tolist()))


def halves(
    attribute: Attribute, statistic: Statistic, rng: np.random.Generator, many: int
) -> tuple[Half, Half, Cells]:
    """The two attributes of a pair, and the users in each pair of their cells.

    Args:
        attribute: the pair.
        statistic: the statistic of the pair, with at least one user.
        rng: the source of draws.
        many: the number of draws of each margin.
    """
    digits = list(joint_cells.digits_of(attribute.joint_shape, statistic.joint_cells))
    both, places, first = [], [], 0
    for whole in attribute.sides:
        versions = range(first, first + len(whole.versions))
        resolution = attribute.joint_buckets
        side = replace(
            whole,
            joint_services=whole.services,
            joint_buckets=resolution
            if isinstance(resolution, int)
            else resolution[versions.start : versions.stop],
        )
        parts = [digits.pop(0) for _ in whole.services]
        cells, inverse = np.unique(np.stack(parts, axis=1), axis=0, return_inverse=True)
        joined = joint_cells.added_up(joint_cells.indexes(side.joint_shape, parts), statistic.joint_counts)
        of_side = part_of(statistic, side.fingerprint, versions, joined)
        users = np.bincount(inverse.ravel(), statistic.joint_counts)
        both.append(_half(side, of_side, cells, users, rng, many))
        places.append(inverse.ravel())
        first = versions.stop
    counts = Cells.of((both[0].rows, both[1].rows), np.stack(places), statistic.joint_counts)
    return both[0], both[1], counts


def _half(
    attribute: Attribute,
    statistic: Statistic,
    cells: Integers,
    users: Integers,
    rng: np.random.Generator,
    many: int,
) -> Half:
    question = Question(attribute, statistic, attribute.services)
    shares = auto(question).distribution
    assert shares is not None
    fine = np.maximum(shares, LEAST_SHARE * LEAST_SHARE)
    ordered = isinstance(attribute.domain, Numeric)
    starts = _even(len(fine), min(len(fine), BUCKETS) if ordered else len(fine))
    margin = _margin(np.add.reduceat(fine, starts[:-1]))
    rows = _rows(attribute, cells, fine, starts)
    values = None
    if isinstance(attribute.domain, Numeric):
        middles = attribute.domain.at(attribute.domain.middles(len(fine)))
        values = np.add.reduceat(fine * middles, starts[:-1]) / np.add.reduceat(fine, starts[:-1])
    margins = _drawn(question, rows, users, margin, starts, rng, many)
    return Half(attribute, Side(margin, ordered), rows, starts, values, margins)


def _even(size: int, parts: int) -> Integers:
    return np.round(np.linspace(0, size, parts + 1)).astype(np.int64)


def _margin(shares: Floats) -> Floats:
    raised = np.maximum(shares, LEAST_SHARE)
    return np.asarray(raised / raised.sum(axis=-1, keepdims=True))


def _rows(attribute: Attribute, cells: Integers, fine: Floats, starts: Integers) -> Floats:
    """P(cell | value bucket), where values inside a bucket have the shares of the margin."""
    tables = []
    for service, digits in zip(attribute.services, cells.T, strict=True):
        distinct, places = np.unique(digits, return_inverse=True)
        tables.append((attribute.joint_likelihood(service, distinct), places))
    rows = np.empty((len(cells), len(starts) - 1))
    within = np.add.reduceat(fine, starts[:-1])
    for at in range(0, len(cells), BLOCK_CELLS):
        product = np.prod([table[places[at : at + BLOCK_CELLS]] for table, places in tables], axis=0)
        rows[at : at + BLOCK_CELLS] = np.add.reduceat(product * fine, starts[:-1], axis=1) / within
    return rows


def _drawn(
    question: Question,
    rows: Floats,
    users: Integers,
    margin: Floats,
    starts: Integers,
    rng: np.random.Generator,
    many: int,
) -> Floats:
    """Draws of a margin: from the smooth density for numbers, else from a normal around the margin."""
    if not many:
        return np.empty((0, len(margin)))
    composite = any(mechanism.composite for mechanism in question.mechanisms)
    if isinstance(question.attribute.domain, Numeric) and not composite and (fitted := fit(question)):
        drawn = draws(fitted.likelihood, fitted.fits, rng, many=many).T
        fine = by_bucket(drawn, fitted.likelihood, int(starts[-1]))
        return rng.permutation(_margin(np.add.reduceat(fine, starts[:-1], axis=1)))
    chances = rows / (rows @ margin)[:, None]
    information = (chances * users[:, None]).T @ chances
    # Shares sum to one, so only differences between them are free.
    across = np.linalg.qr(np.column_stack((np.ones(len(margin)), np.eye(len(margin))[:, :-1])))[0][:, 1:]
    inner = across.T @ information @ across + np.eye(len(margin) - 1)
    noise = np.linalg.solve(np.linalg.cholesky(inner).T, rng.standard_normal((len(inner), many)))
    return _margin(margin + (across @ noise).T)
