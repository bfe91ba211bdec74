"""What readers of published estimates learn: amplification by shuffling.

Estimates do not depend on who sent what: they are functions of the multiset of the reports of a window.
Towards a reader of the estimates, who sees no report, n reports of epsilon_0 are therefore (epsilon,
delta)-differentially private with a smaller epsilon, in the sense that one user's value is replaced. Towards
whoever reads the reports, the epsilon is that of the reports.

The bound is the variation-ratio reduction of Wang et al., "Privacy Amplification via Shuffling: Unified,
Simplified, and Tightened" (arXiv 2304.05007), with p = q = exp(epsilon_0). It needs the largest
total variation beta between the reports of two values, ``Mechanism.total_variation``.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy import special

from ldpbeam.domains import Floats
from ldpbeam.mechanisms import Mechanism

#: The delta that is stated where none is asked for, at most this and at most 1/(100 n).
DELTA = 1e-6
#: The probability that a sum leaves out. It is added to the delta that is found.
_LEFT_OUT = 1e-18
#: How far an epsilon may be above the exact one.
_TOLERANCE = 1e-9
#: Above this, a report hides so little that nothing is computed.
LARGEST = 40.0


def default_delta(users: int) -> float:
    """The delta that is stated for a number of users: at most 1e-6, and a hundredth of a user's share."""
    return min(DELTA, 0.01 / users)


def largest_variation(epsilon: float) -> float:
    """The largest total variation that any mechanism with this epsilon has: (E - 1)/(E + 1)."""
    return math.tanh(epsilon / 2.0)


def together(mechanisms: Sequence[Mechanism]) -> tuple[float, float]:
    """(epsilon, total variation) of independent reports of one user by several mechanisms.

    The total variation of a product is at most 1 - prod(1 - beta_i).

    Raises:
        ValueError: if one of them has a delta of its own, for which the bound does not hold.
    """
    for mechanism in mechanisms:
        if mechanism.delta:
            raise ValueError(f"{mechanism.name} has a delta of its own, for which this bound does not hold")
    epsilon = math.fsum(mechanism.epsilon for mechanism in mechanisms)
    apart = 1.0 - math.prod(1.0 - mechanism.total_variation for mechanism in mechanisms)
    return epsilon, min(apart, largest_variation(epsilon))


def composed(parts: Sequence[tuple[float, float]], slack: float) -> tuple[float, float]:
    """(epsilon, delta) of several releases with independent noise, of (epsilon, delta) each.

    The smaller epsilon of basic composition, where both add up, and of advanced composition (Kairouz, Oh and
    Viswanath, "The Composition Theorem for Differential Privacy", Theorem 3.5), whose delta has a slack more.
    """
    epsilons = np.array([epsilon for epsilon, _ in parts])
    delta = math.fsum(each for _, each in parts)
    basic = math.fsum(epsilons)
    lost = math.fsum(epsilons * np.tanh(epsilons / 2.0))
    advanced = lost + math.sqrt(2.0 * math.log(1.0 / slack) * math.fsum(epsilons**2))
    return (basic, delta) if basic <= advanced else (advanced, delta + slack)


def amplified_delta(epsilon: float, local: float, variation: float, users: int) -> float:
    """The least delta that the bound proves at an epsilon.

    C users of the other n - 1 send what is as likely for either value; C has the binomial distribution with
    share 2a, a = beta/(p - 1), and A of them, half of them on average, look like the first value. The user
    adds one to A with probability p a, one to C - A with probability a, and nothing otherwise. Given the sum
    s, the likelihood ratio with the mirror image increases with the first number, so the worst event is that
    it is at least a threshold. Half binomials need one tail and one probability for each s.

    Args:
        epsilon: at least 0.
        local: the epsilon of what a user sends, above 0 and at most :data:`LARGEST`.
        variation: the largest total variation of it between two values, in (0, (E - 1)/(E + 1)].
        users: the number n of distinct users who send it, 1 or more.
    """
    if epsilon >= local:
        return 0.0
    gain = math.expm1(local)
    p, excess = gain + 1.0, math.expm1(epsilon)
    rate = variation / gain
    rest = max(0.0, 1.0 - rate * (p + 1.0))
    others = users - 1
    share = 2.0 * rate
    # Bernstein's inequality: C is farther than this from its mean with a probability of at most _LEFT_OUT.
    reach = -math.log(0.5 * _LEFT_OUT)
    reach = reach / 3.0 + math.sqrt(reach * reach / 9.0 + 2.0 * reach * others * share * (1.0 - share))
    first = max(0, math.floor(others * share - reach))
    last = min(others, math.ceil(others * share + reach))
    chances = _binomial(np.arange(first, last + 1), np.array(others), share)
    # Of sums 1 and more; a sum of zero is as likely for the mirror image, and has no event.
    sums = np.arange(max(first, 1), last + 2)
    before = np.append(0.0, chances)[sums - first] if first else chances[sums - 1]
    after = np.append(chances, 0.0)[sums - first]
    ratio = (excess + 1.0) * p - 1.0
    from_rest = rest * (users - sums) / (1.0 - 2.0 * rate)
    threshold = np.ceil((sums * ratio + from_rest * excess) / (gain * (excess + 2.0)))
    inside = threshold <= sums
    sums, before, after, threshold = sums[inside], before[inside], after[inside], threshold[inside]
    # P(A >= threshold - 1) and P(A = threshold - 1) for A of s - 1 fair coins; the threshold is at least 1.
    tail = special.betainc(np.maximum(threshold - 1, 1), sums - threshold + 1, 0.5)
    at_least = np.where(threshold <= 1, 1.0, tail)
    exactly = _binomial(threshold - 1, sums - 1, 0.5)
    of_user = before * rate * (ratio * exactly - excess * (p + 1.0) * at_least)
    delta = math.fsum(of_user - after * rest * excess * (at_least - 0.5 * exactly))
    return min(1.0, max(0.0, delta) + _LEFT_OUT)


def _binomial(successes: NDArray[Any], trials: NDArray[Any], share: float) -> Floats:
    """The probabilities of numbers of successes, from 0 to the trials.

    Loader, "Fast and Accurate Computation of Binomial Probabilities" (2000). To import scipy.stats for it
    takes a second.
    """
    failures = trials - successes
    exponent = special.kl_div(successes, trials * share) + special.kl_div(failures, trials * (1.0 - share))
    exponent += _stirling(successes) + _stirling(failures) - _stirling(trials)
    inside = (successes > 0) & (failures > 0)
    ratio = np.divide(trials, successes * failures, out=np.full(inside.shape, 2.0 * np.pi), where=inside)
    probabilities: Floats = np.exp(-exponent) * np.sqrt(ratio / (2.0 * np.pi))
    return probabilities


def _stirling(numbers: NDArray[Any]) -> Floats:
    """What Stirling's formula lacks of the logarithm of a factorial; 0 for 0, which needs no formula."""
    small = np.minimum(np.maximum(numbers, 1.0), 15.0)
    exact = (
        special.gammaln(small + 1.0) - (small + 0.5) * np.log(small) + small - 0.5 * math.log(2.0 * math.pi)
    )
    large = np.maximum(numbers, 1.0)
    series = (1.0 - (1.0 / 30.0 - (1.0 / 105.0 - 1.0 / (140.0 * large**2)) / large**2) / large**2) / (
        12.0 * large
    )
    return np.where(numbers == 0, 0.0, np.where(numbers <= 15, exact, series))


def amplified_epsilon(delta: float, local: float, variation: float, users: int) -> float:
    """The least epsilon that the bound proves at a delta, to 1e-9 above; at most ``local``.

    Args:
        delta: above 0 and below 1.
        local: an argument of :func:`amplified_delta`, like the next two.
        variation: see there.
        users: see there.

    Raises:
        ValueError: if an argument is out of its range.
    """
    if not 0.0 < delta < 1.0:
        raise ValueError(f"delta must be between 0 and 1, found {delta}")
    if not 0.0 < variation <= largest_variation(local) * (1.0 + 1e-9):
        raise ValueError(f"no mechanism of epsilon {local:g} has total variation {variation:g}")
    if users < 1:
        raise ValueError(f"users must be 1 or more, found {users}")
    if local > LARGEST:
        return local

    @functools.cache
    def over(epsilon: float) -> float:
        proved = amplified_delta(epsilon, local, variation, users)
        return math.log(max(proved, 1e-300) / delta)

    if over(0.0) <= 0.0:
        return 0.0
    low, high = 0.0, local
    # The root is near zero for many users; the logarithm is nearly a parabola there.
    while low == 0.0 and high > 1e-12 and over(high / 4.0) <= 0.0:
        high /= 4.0
    low = high / 4.0 if over(high / 4.0) > 0.0 else 0.0
    epsilon = float(scipy.optimize.brentq(over, low, high, xtol=_TOLERANCE / 2.0))
    while over(epsilon) > 0.0:
        epsilon += _TOLERANCE / 2.0
    return min(epsilon, local)
