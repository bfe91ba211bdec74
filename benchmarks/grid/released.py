"""The papers' released programs, written anew from what their code does; their texts differ.

All but GRR's use 1,024 report cells and 1,024 value buckets. Every one starts from equal shares and takes
plain EM steps; shares are scaled to sum 1 after each. Here a step's products are the project's own, which
have the same values as the programs' dense matrices. ULE's report cells are 256 a service, whose products
take a sixteenth of the time and lose at most 1.4% of the information; with these, the errors of
docs/measured/accuracy_distribution.csv agree with those of the released program.

A smoothing kernel (a, b, a) acts on neighbouring buckets: the first bucket has (b, a), and the *last bucket
is not smoothed*, which is a slip that every one of the programs has.

The programs: SW-EM and SW-EMS of LDP_Protocols, SW-EMS, PM-EM (which smooths), GRR-EM and GRR-MR of
LDP-EM-MR, and ULE of Distribution_ULE.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ldpbeam import Attribute, Statistic
from ldpbeam.channels import Channel, DiagonalChannel, ReducedChannel
from ldpbeam.domains import Floats, Integers
from ldpbeam.estimators import Question
from ldpbeam.estimators.joint_likelihood import JointLikelihood
from ldpbeam.estimators.products import products

Product = Callable[[Floats], Floats]

#: The first steps, whose gain ends nothing.
UNTESTED = 2
#: Labels that GRR-MR never merges. The program's inputs are sorted by the true shares; here they are drawn.
NEVER_MERGED = 10


def smoothed(weights: Floats, beside: float, middle: float) -> Floats:
    """The kernel (beside, middle, beside), scaled to sum 1; the last bucket keeps its weight."""
    found = weights.copy()
    whole = middle + 2.0 * beside
    found[1:-1] = (beside * (weights[:-2] + weights[2:]) + middle * weights[1:-1]) / whole
    found[0] = (middle * weights[0] + beside * weights[1]) / (middle + beside)
    return np.asarray(found / found.sum())


def iterate(
    forward: Product,
    backward: Product,
    counts: Floats,
    buckets: int,
    *,
    kernel: tuple[float, float] | None,
    tolerance: float,
    most: int = 10_000,
    fading: float = -math.inf,
) -> Floats:
    """The weights after the last step of EM, shape (buckets,).

    The steps end when the sum of the weights' changes is at most 1 / n, or, from the third step on, when the
    log-likelihood has changed by less than the tolerance. What precedes the first gain is taken as 0, as the
    programs do.

    Args:
        forward: from weights to the probabilities of the observations, shape (observations,).
        backward: its transpose.
        counts: of each observation, shape (observations,), all above zero.
        buckets: the number of weights.
        kernel: (beside, middle) of the smoothing after each step; None if there is none.
        tolerance: on the change of the log-likelihood.
        most: the most steps.
        fading: a step is smoothed only if the gain of the one before exceeds this.
    """
    total = counts.sum()
    weights = np.full(buckets, 1.0 / buckets)
    probabilities = forward(weights)
    likelihood, gain = 0.0, math.inf
    for step in range(most):
        before = weights
        weights = before * backward(counts / probabilities)
        weights /= weights.sum()
        if kernel is not None and gain > fading:
            weights = smoothed(weights, *kernel)
        probabilities = forward(weights)
        reached = float(counts @ np.log(probabilities))
        gain, likelihood = reached - likelihood, reached
        if step >= UNTESTED and abs(gain) < tolerance:
            break
        if np.abs(weights - before).sum() <= 1.0 / total:
            break
    return weights


def _observed(attribute: Attribute, statistic: Statistic) -> tuple[Product, Product, Floats, int]:
    counts = statistic.histograms[0]
    seen = np.flatnonzero(counts)
    return *products(attribute.channel(0), seen)[:2], counts[seen].astype(np.float64), attribute.value_buckets


def sw_em(attribute: Attribute, statistic: Statistic) -> Floats:
    """SW-EM of LDP_Protocols (``sw.py``), shape (value buckets,)."""
    return iterate(*_observed(attribute, statistic), kernel=None, tolerance=1e-3)


def sw_ems(attribute: Attribute, statistic: Statistic) -> Floats:
    """SW-EMS of LDP_Protocols (``sw.py``), shape (value buckets,)."""
    return iterate(*_observed(attribute, statistic), kernel=(1.0, 2.0), tolerance=1e-3)


def sw_ems_fading(attribute: Attribute, statistic: Statistic) -> Floats:
    """SW-EMS of LDP-EM-MR: a step is smoothed if the one before gained more than 0.003."""
    return iterate(
        *_observed(attribute, statistic),
        kernel=(1.0, 4.0),
        tolerance=1e-3 * math.exp(attribute.versions[0].mechanism.epsilon),
        fading=0.003,
    )


def pm_ems(attribute: Attribute, statistic: Statistic) -> Floats:
    """PM-EMS of LDP-EM-MR, where it is called PM-EM; a finer tolerance from 100,000 reports on."""
    growth = math.exp(attribute.versions[0].mechanism.epsilon)
    tolerance = (1e-3 if statistic.reports < 100_000 else 1e-4) * growth
    return iterate(*_observed(attribute, statistic), kernel=(1.0, 2.0), tolerance=tolerance, most=5_000)


def ule(attribute: Attribute, statistic: Statistic) -> Floats:
    """ULE of Distribution_ULE: a user's likelihood is the product of the likelihoods of the reports."""
    likelihood = JointLikelihood(Question(attribute, statistic, attribute.services))
    counts = likelihood.counts.astype(np.float64)
    known = likelihood.products
    return iterate(
        known.forward, known.backward, counts, attribute.value_buckets, kernel=(1.0, 2.0), tolerance=1e-3
    )


def grr_em(attribute: Attribute, statistic: Statistic) -> Floats:
    """GRR-EM of LDP-EM-MR: until a gain is below 1e-6, or 1,400 steps; shape (categories,)."""
    counts = statistic.histograms[0].astype(np.float64)
    channel = _diagonal(attribute)
    start = np.full(len(counts), 1.0 / len(counts))
    return _steps(channel, counts, start, lambda gain: gain < 1e-6, 1_400)[0]


def grr_mr(attribute: Attribute, statistic: Statistic) -> Floats:
    """GRR-MR of LDP-EM-MR, shape (categories,).

    Twice, the K/4 smallest weights (or those that there are) below tau are merged, but never those of ten
    labels, which are drawn with a fixed seed here. Tau is a standard deviation of a rare category's
    unbiased share if epsilon is below ln 5, else two. Between merges EM takes steps until a gain is above 0
    and below 1e-3 exp(epsilon), or 1,000 + 10 K steps (1,000 after the last merge). The program divides a
    component's weight equally among its labels; if there is only one component it reads the weight of the
    wrong one, which is left out here. Its BIC never ends anything.
    """
    counts = statistic.histograms[0].astype(np.float64)
    categories, reports = len(counts), counts.sum()
    growth = math.exp(attribute.versions[0].mechanism.epsilon)
    deviation = math.sqrt((categories - 2 + growth) / reports) / (growth - 1.0)
    threshold = deviation if growth < 5.0 else 2.0 * deviation
    kept = np.zeros(categories, dtype=np.bool_)
    kept[np.random.default_rng(0).permutation(categories)[:NEVER_MERGED]] = True

    def settled(gain: float) -> bool:
        return 0.0 < gain < 1e-3 * growth

    merged = np.zeros(categories, dtype=np.int64)
    weights, reached = np.full(categories, 1.0 / categories), -math.inf
    long = 1_000 + 10 * categories
    for stage in (1, 2, 3):
        single = np.flatnonzero(merged == 0)
        channel = ReducedChannel(_diagonal(attribute), _labels(merged))
        most = long if stage < 3 else 1_000
        weights, reached = _steps(channel, counts, weights, settled, most, reached)
        below = single[weights[: len(single)] < threshold]
        shares = np.zeros(categories)
        shares[single] = weights[: len(single)]
        smallest = below[np.argsort(shares[below], kind="stable")][: categories // 4]
        chosen = smallest[~kept[smallest]]
        if stage == 3 or not len(chosen):
            break
        merged[chosen] = stage
        # The program starts the new component at 1/K, whatever the weights of its labels were.
        weights = np.concatenate((shares[merged == 0], weights[len(single) :], [1.0 / categories]))
    return channel.spread(weights)


def _diagonal(attribute: Attribute) -> DiagonalChannel:
    channel = attribute.channel(0)
    assert isinstance(channel, DiagonalChannel)
    return channel


def _labels(merged: Integers) -> Integers:
    """The component of each category: single ones in their order, then those merged first, then second."""
    labels = np.zeros(len(merged), dtype=np.int64)
    single = merged == 0
    labels[single] = np.arange(single.sum())
    labels[~single] = single.sum() + merged[~single] - 1
    return labels


def _steps(
    channel: Channel,
    counts: Floats,
    weights: Floats,
    ended: Callable[[float], bool],
    most: int,
    reached: float = -math.inf,
) -> tuple[Floats, float]:
    """EM until a gain ends it: the weights, and the last log-likelihood that did not."""
    for _ in range(most):
        weights = weights * channel.rmatvec(counts / channel.matvec(weights))
        weights /= weights.sum()
        likelihood = float(counts @ np.log(channel.matvec(weights)))
        if ended(likelihood - reached):
            break
        reached = likelihood
    return weights, reached


RELEASED: dict[str, Callable[[Attribute, Statistic], Floats]] = {
    function.__name__: function for function in (sw_em, sw_ems, sw_ems_fading, pm_ems, ule, grr_em, grr_mr)
}
