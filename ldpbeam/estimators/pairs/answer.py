"""The answer for a pair of attributes: a joint table, and the conditional distributions that it implies."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np
from scipy.special import gammaincc, ndtri

from ldpbeam.attributes import Attribute
from ldpbeam.domains import Floats
from ldpbeam.estimators.estimate import Estimate
from ldpbeam.estimators.pairs.counts import BUCKETS, GROUPS, Half, halves
from ldpbeam.estimators.pairs.dependence import Cells, Fit, Side, dependent, draws, fits, weights
from ldpbeam.pair_answer import Conditional, Measured, Numbers, PairAnswer
from ldpbeam.statistics import Statistic

#: How many tables are drawn for intervals.
DRAWS = 400
#: The number of functions of a numeric attribute in the test of independence.
TESTED = 3
#: The weights of draws are this power of the evidence, so that draws come from wider priors, too.
TEMPERED = 0.5
#: Intervals are wider than those of the draws by this factor, as other intervals that rest on priors are
#: (intervals/if_smooth.py): no prior has exactly the shape of people's values.
WIDER = 1.5


def pair(attribute: Attribute, statistic: Statistic, level: float | None, *, honest: bool = True) -> Estimate:
    """The estimate of a pair: its joint table, averaged over independence and dependences by evidence.

    Args:
        attribute: the pair.
        statistic: the reports of users who reported both attributes, at least one user.
        level: the level of the intervals; None for none.
        honest: whether all reports are taken to be honest; otherwise no interval is certain.
    """
    rng = np.random.default_rng(zlib.crc32(statistic.joint_counts.tobytes()))
    first, second, cells = halves(attribute, statistic, rng, 0 if level is None else DRAWS)
    sides = first.side, second.side
    fitted = fits(cells, sides)
    chances, believed = weights(fitted), dependent(fitted)
    table = (1.0 - believed) * np.outer(first.side.margin, second.side.margin)
    for chance, fit in zip(chances, fitted, strict=True):
        table += believed * chance * fit.table
    drawn = np.empty((0, *table.shape))
    if level is not None:
        margins = first.margins, second.margins
        drawn = draws(fitted, sides, margins, weights(fitted, tempered=TEMPERED), rng)
    bounded = honest and first.values is None and second.values is None
    certain = [certain_shares(cells, given, level) if bounded else None for given in (0, 1)]
    p_value = independence(cells, sides)
    # The mutual information is never below zero: its interval begins there unless the test excludes it.
    surely = level is not None and p_value < 1.0 - level
    information = _measured(_information(table), _information(drawn), level, 0.0, np.inf)
    if information.low is not None and not surely:
        information = Measured(information.value, (0.0,), information.high)
    correlation = None
    if first.values is not None and second.values is not None:
        values = first.values, second.values
        correlation = _measured(_correlation(table, *values), _correlation(drawn, *values), level, -1.0, 1.0)
    answer = PairAnswer(
        axes=(first.axis(first.grouped(BUCKETS)), second.axis(second.grouped(BUCKETS))),
        table=_numbers(table),
        p_value=p_value,
        weights=_weights(fitted, chances, believed),
        correlation=correlation,
        mutual_information=information,
        given=(
            _conditional(first, second, table, drawn, level, certain[0]),
            _conditional(second, first, table.T, np.swapaxes(drawn, 1, 2), level, certain[1]),
        ),
    )
    return Estimate("auto", attribute.services, statistic.reports, statistic.users, pair=answer)


def independence(cells: Cells, sides: tuple[Side, Side]) -> float:
    """The p-value of independence: the chance of as much dependence if values are independent.

    The scores of a cell are the means of functions of the value, given the cell. Under independence, the sums
    over users of the products of both attributes' whitened scores are normal with unit variances, whatever
    the margins are (Rao's score test).
    """
    whitened = []
    for rows, side, places in zip(cells.rows, sides, cells.places, strict=True):
        functions = side.functions[:, :TESTED] if side.ordered else side.functions
        scores = (rows * side.margin) @ functions / (rows @ side.margin)[:, None]
        users = np.bincount(places, cells.counts, minlength=len(rows))
        scores = scores - users @ scores / cells.users
        values, vectors = np.linalg.eigh((scores * users[:, None]).T @ scores / cells.users)
        varying = values > 1e-9 * max(values.max(), 1e-9)
        whitened.append((scores @ vectors[:, varying] / np.sqrt(values[varying]))[places])
    if not (whitened[0].size and whitened[1].size):
        # All users are in one cell.
        return 1.0
    sums = (whitened[0] * cells.counts[:, None]).T @ whitened[1]
    return float(gammaincc(0.5 * sums.size, 0.5 * (sums**2).sum() / cells.users))


def certain_shares(cells: Cells, given: int, level: float | None) -> tuple[Floats, Floats] | None:
    """The ends of intervals of one attribute's shares given the other, which hold for every distribution.

    Let a and b be unbiased indicators of two values and of the given value. The share s is the ratio of their
    means, so the mean of a - s b is zero. The interval consists of every s for which this mean is within z
    standard errors of zero (Fieller, J. R. Statist. Soc. B 16, 1954).

    Args:
        cells: the cells of two attributes of categories.
        given: 0 for the second attribute given the first, 1 for the first given the second.
        level: the level of the intervals.

    Returns:
        Two arrays of shape (categories of the given one, categories of the other). None without a level, or
        if there are no indicators: users sent to different services, or nobody sent some report.
    """
    whole = all(np.allclose(rows.sum(axis=0), 1.0) for rows in cells.rows)
    if level is None or not (cells.complete and whole):
        return None
    indicators = []
    for rows, places in zip(cells.rows, cells.places, strict=True):
        weighted = rows.T / rows.mean(axis=1)
        indicators.append(np.linalg.solve(weighted @ rows, weighted)[:, places])
    b, other = indicators[given], indicators[1 - given]
    people, allowed = cells.counts / cells.users, ndtri(0.5 + 0.5 * level) ** 2 / cells.users
    means, both = ((b * people).sum(axis=1))[:, None], (b * people) @ other.T
    square = means**2 - allowed * ((b**2 @ people)[:, None] - means**2)
    middle = both * means - allowed * ((b**2 * people) @ other.T - both * means)
    constant = both**2 - allowed * ((b**2 * people) @ (other**2).T - both**2)
    reach = np.sqrt(np.maximum(middle**2 - square * constant, 0.0))
    # If the given category may have nobody, any share is possible.
    bounded, positive = square > 0.0, np.maximum(square, 1e-300)
    low, high = (np.clip((middle + sign * reach) / positive, 0.0, 1.0) for sign in (-1.0, 1.0))
    return np.where(bounded, low, 0.0), np.where(bounded, high, 1.0)


def _weights(fitted: Sequence[Fit], chances: Floats, believed: float) -> dict[str, float]:
    one = float(sum(chance for chance, fit in zip(chances, fitted, strict=True) if fit.copula))
    return {"independence": 1.0 - believed, "copula": believed * one, "free": believed * (1.0 - one)}


def _numbers(array: Floats) -> Numbers:
    return tuple(array.ravel().tolist())


def _measured(value: Floats, drawn: Floats, level: float | None, least: float, most: float) -> Measured:
    """Numbers with intervals from draws, shape (draws, ...), clipped to [least, most]."""
    if level is None:
        return Measured(_numbers(value))
    ends = np.quantile(drawn, [0.5 * (1.0 - level), 0.5, 0.5 * (1.0 + level)], axis=0)
    low, high = (np.clip(ends[1] + WIDER * (end - ends[1]), least, most) for end in (ends[0], ends[2]))
    return _within(value, low, high)


def _within(value: Floats, low: Floats, high: Floats) -> Measured:
    return Measured(_numbers(value), _numbers(np.minimum(low, value)), _numbers(np.maximum(high, value)))


def _correlation(tables: Floats, x: Floats, y: Floats) -> Floats:
    """The correlation of each table, shape (..., 1)."""
    first, second = tables.sum(axis=-1), tables.sum(axis=-2)
    means = first @ x, second @ y
    covariance = (tables @ y) @ x - means[0] * means[1]
    variances = (first @ x**2 - means[0] ** 2) * (second @ y**2 - means[1] ** 2)
    return np.asarray(covariance / np.sqrt(np.maximum(variances, 1e-300)))[..., None]


def _information(tables: Floats) -> Floats:
    """The mutual information of each table in nats, shape (..., 1)."""
    tables = np.maximum(tables, 0.0)
    product = tables.sum(axis=-1)[..., :, None] * tables.sum(axis=-2)[..., None, :]
    terms = tables * np.log(np.maximum(tables, 1e-300) / np.maximum(product, 1e-300))
    return np.asarray(terms.sum(axis=(-1, -2)))[..., None]


def _conditional(
    given: Half,
    of: Half,
    table: Floats,
    drawn: Floats,
    level: float | None,
    certain: tuple[Floats, Floats] | None,
) -> Conditional:
    """The distribution of one attribute in groups of the other; rows of tables are those of ``given``."""
    groups, others = given.grouped(GROUPS), of.grouped(GROUPS)

    def shares(tables: Floats) -> Floats:
        rows = np.add.reduceat(tables, groups[:-1], axis=-2)
        together = np.add.reduceat(rows, others[:-1], axis=-1)
        return np.asarray(together / together.sum(axis=-1, keepdims=True))

    def means(tables: Floats) -> Floats:
        rows = np.add.reduceat(tables, groups[:-1], axis=-2)
        return np.asarray(rows @ of.values / rows.sum(axis=-1))

    ends = None if of.values is None else (float(of.values[0]), float(of.values[-1]))
    return Conditional(
        given.axis(groups),
        of.axis(others),
        _within(shares(table), *certain)
        if certain
        else _measured(shares(table), shares(drawn), level, 0.0, 1.0),
        None if ends is None else _measured(means(table), means(drawn), level, *ends),
    )
