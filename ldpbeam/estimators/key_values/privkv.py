"""PrivKV: EM as published, the exact maximum likelihood, and the rounds of PrivKVM."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ldpbeam.attributes import Attribute
from ldpbeam.domains import Floats, Integers
from ldpbeam.estimators.estimate import Estimate
from ldpbeam.estimators.estimator import every, of_mechanisms, of_one_channel
from ldpbeam.estimators.iteration import Trace
from ldpbeam.estimators.key_values.key_value import (
    answer_keys,
    check_key_value,
    estimates_by_version,
    unreported,
)
from ldpbeam.estimators.question import Question
from ldpbeam.mechanisms.key_values.mechanism import shares_of
from ldpbeam.mechanisms.key_values.privkv import ABSENT, MINUS, PLUS, PrivKV
from ldpbeam.options import AboveZero, Iterations


def fit_keys(
    counts: Floats, block: Floats, trace: Trace, *, precision: float
) -> tuple[Floats, Integers, Integers]:
    """EM for each key separately, computed for all keys at once (PrivKV-EM paper, Algorithm 1).

    A key starts with uniform states, and stops after the update that changes no state's probability by more
    than ``precision``. A key without a report keeps the uniform start.

    Args:
        counts: the reports of each kind, shape (keys, kinds).
        block: P(kind | state), shape (kinds, states).
        trace: counts the iterations; when it is full, EM ends without having converged. Its log-likelihoods
            are sums over the reports of all keys.
        precision: the paper's eta.

    Returns:
        The distribution over each key's states, shape (keys, states); the number of updates of each key,
        shape (keys,); and the keys that have not met the precision.
    """
    keys, states = len(counts), block.shape[1]
    theta = np.full((keys, states), 1.0 / states)
    totals = counts.sum(axis=1)
    iterations = np.zeros(keys, dtype=np.int64)
    moving = np.flatnonzero(totals)
    while len(moving) and not trace.is_full:
        probabilities = theta @ block.T
        trace.tell(float((counts * np.log(probabilities)).sum()))
        old = theta[moving]
        ratios = counts[moving] / probabilities[moving]
        new = old * (ratios @ block) / totals[moving, None]
        theta[moving] = new
        iterations[moving] += 1
        moving = moving[np.abs(new - old).max(axis=1) > precision]
    return theta, iterations, moving


def privkv_maximum_likelihood(counts: Integers, mechanism: PrivKV) -> tuple[Floats, Floats]:
    """PrivKV's exact maximum-likelihood (frequencies, means on [0, 1]), in closed form, shape (keys,) each.

    The sign of a missing key is a fair coin, so the three counts have two parameters: r = P(present) =
    q1 + (p1 - q1) f and t = P(+1) - P(-1) = g p1 f m, with g = p2 - q2 and m on [-1, 1]. The log-likelihood
    n0 ln(1 - r) + n1 ln((r + t)/2) + n2 ln((r - t)/2) is concave in (r, t), which lie in the triangle
    q1 <= r <= p1, abs(t) <= c (r - q1), c = g p1/(p1 - q1). If the unconstrained maximum is outside, the
    maximum is on an edge of the triangle: f = 1, where t is free, or m = +1 or -1, where r is a root of a
    quadratic equation.

    Args:
        counts: the counts of absent, +1 and -1, shape (keys, 3).
        mechanism: the mechanism of the reports.
    """
    p1, p2 = mechanism.probabilities
    q1, g = 1.0 - p1, 2.0 * p2 - 1.0
    c = g * p1 / (p1 - q1)
    n0, n1, n2 = (counts[:, kind].astype(np.float64) for kind in (ABSENT, PLUS, MINUS))
    reports, present = n0 + n1 + n2, n1 + n2
    r = np.divide(present, reports, out=np.full(len(counts), q1), where=reports > 0.0)
    t = np.divide(n1 - n2, reports, out=np.zeros(len(counts)), where=reports > 0.0)
    lean = np.divide(n1 - n2, present, out=np.zeros(len(counts)), where=present > 0.0)
    edges = [(np.full(len(counts), p1), np.clip(p1 * lean, -g * p1, g * p1))]
    for sign, same, opposite in ((1.0, n1, n2), (-1.0, n2, n1)):
        for root in _edge_roots(c, q1, n0, same, opposite):
            at = np.clip(root, q1, p1)
            edges.append((at, sign * c * (at - q1)))
    candidates = np.array([*edges, (np.full(len(counts), q1), np.zeros(len(counts)))])
    along, across = candidates[:, 0], candidates[:, 1]
    likelihoods = (
        n0 * np.log1p(-along) + n1 * np.log((along + across) / 2.0) + n2 * np.log((along - across) / 2.0)
    )
    best = likelihoods.argmax(axis=0)
    inside = (r >= q1) & (r <= p1) & (np.abs(t) <= c * (r - q1))
    keys = np.arange(len(counts))
    r = np.where(inside, r, along[best, keys])
    t = np.where(inside, t, across[best, keys])
    frequencies = np.clip((r - q1) / (p1 - q1), 0.0, 1.0)
    most = g * p1 * frequencies
    return frequencies, shares_of(most + t, 2.0 * most)


def _edge_roots(c: float, q1: float, n0: Floats, same: Floats, opposite: Floats) -> tuple[Floats, Floats]:
    """The two stationary points r of the likelihood along an edge t = +-c (r - q1), shape (keys,) each.

    On the edge the log-likelihood is n0 ln(1 - r) + same ln(A r + B) + opposite ln(C r + D), up to a
    constant, with A = 1 + c, B = -c q1, C = 1 - c and D = c q1.
    """
    A, B, C, D = 1.0 + c, -c * q1, 1.0 - c, c * q1
    square = -(n0 + same + opposite) * A * C
    linear = -n0 * (A * D + B * C) + same * A * (C - D) + opposite * C * (A - B)
    constant = -n0 * B * D + same * A * D + opposite * C * B
    # Without a real root, the maximum is at an end of the edge, which is also on another edge. A sum of two
    # numbers of the same sign loses no digits; the textbook formula has a difference.
    root = np.sqrt(np.maximum(linear**2 - 4.0 * square * constant, 0.0))
    half = -0.5 * (linear + np.copysign(root, linear))
    zero = np.zeros_like(half)
    return (
        np.divide(half, square, out=zero.copy(), where=square != 0.0),
        np.divide(constant, half, out=zero.copy(), where=half != 0.0),
    )


def _counts(question: Question) -> Integers:
    """The counts of absent, +1 and -1, shape (channels, keys, 3)."""
    histograms = question.histograms
    return np.stack(histograms).reshape(len(histograms), -1, 3)


def privkv_em(
    question: Question, *, precision: AboveZero = 1e-4, max_iterations: Iterations = 10_000
) -> Estimate:
    """PrivKV-EM as published: EM per key on its three counts (PrivKV-EM paper, Algorithm 1).

    A key has four states and three kinds of reports, so the likelihood does not identify the states. The
    uniform start and the early stop are therefore part of the estimate; ``privkv_mle`` has neither.

    Args:
        question: what to estimate.
        precision: a key stops when no state's probability changes by more than this. It is the paper's eta,
            whose value the paper does not give; 1e-4 comes nearest to its Table 4.
        max_iterations: stop after this many iterations, with a warning.
    """
    counts = _counts(question)
    mechanisms = question.mechanisms
    trace = Trace(max_iterations, question.progress)
    theta, iterations, moving = fit_keys(
        np.concatenate(counts, axis=1).astype(np.float64),
        np.vstack([mechanism.block for mechanism in mechanisms]),
        trace,
        precision=precision,
    )
    warnings = unreported(question)
    if len(moving):
        warnings += (
            f"{len(moving)} keys have not converged after {max_iterations} iterations: "
            "raise max_iterations, or precision",
        )
    return answer_keys(
        question,
        "privkv_em",
        *mechanisms[0].key_values_of(theta.ravel()),
        converged=not len(moving),
        n_iterations=int(iterations.max()),
        log_likelihoods=np.array(trace.likelihoods),
        warnings=warnings,
        details={"precision": precision, "median_iterations": float(np.median(iterations))},
    )


def privkv_mle(question: Question) -> Estimate:
    """PrivKV's exact maximum likelihood in closed form, which needs a fair coin as a missing key's sign."""
    (index,) = question.versions
    mechanism: PrivKV = question.mechanism(index)
    frequencies, means = privkv_maximum_likelihood(_counts(question)[0], mechanism)
    return answer_keys(question, "privkv_mle", frequencies, means, warnings=unreported(question))


def privkvm(question: Question) -> Estimate:
    """PrivKVM: the means of the last round that has reports, and the frequencies of all rounds.

    The frequencies are weighted by the precisions of the rounds.
    """
    rounds = {index: question.mechanism(index).round for index in question.versions}
    last = [index for index, number in rounds.items() if number == max(rounds.values())]
    return answer_keys(
        question,
        "privkvm",
        estimates_by_version(question, question.versions)[0],
        estimates_by_version(question, last)[1],
        warnings=unreported(question),
        details={"means_of_round": max(rounds.values())},
    )


check_privkv_em = every(check_key_value, of_mechanisms(PrivKV, "is not PrivKV; use pckv_em, or key_value"))


# In a later round of PrivKVM a missing key's sign is not a fair coin.
check_privkv_mle = every(
    check_privkv_em,
    of_one_channel(
        lambda mechanism: mechanism.round <= 1,
        "privkv, or the first round of privkvm,",
        "privkvm, privkv_em or key_value",
    ),
)


def check_privkvm(attribute: Attribute, services: Sequence[str]) -> None:
    """Check that every mechanism is a round, and that the rounds are 1, 2, ..., one per service.

    Raises:
        ValueError: if not.
    """
    check_key_value(attribute, services)
    for index in attribute.versions_of(services):
        version = attribute.versions[index]
        if not version.mechanism.round:
            raise ValueError(
                f"service {version.label} ({version.mechanism.name}) is not a round of privkvm; use "
                "privkv_mle, pckv_em, or key_value"
            )
    # All rounds of the attribute count, even if only some of its services are used.
    pairs = {
        (version.service, version.mechanism.round)
        for version in attribute.versions
        if version.mechanism.round
    }
    rounds = sorted(number for _, number in pairs)
    if len({service for service, _ in pairs}) < len(pairs) or rounds != list(range(1, len(rounds) + 1)):
        raise ValueError(f"the services' rounds are {rounds}; they must be 1, 2, ..., one service per round")
