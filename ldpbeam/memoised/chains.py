"""The permanent and the instant step of a memoised client, and how the reports of one user depend on them.

A client draws the *permanent* answer of a value once, at the lifetime epsilon, and keeps it. In each window
it draws an *instant* answer from the permanent one, and sends that. Erlingsson et al. (CCS 2014) did this
first; Arcolezi et al. (arXiv 2111.04636; EDBT 2023) chain GRR, unary encoding and local hashing in this way.

The constants here are exact: both steps together are the mechanism of one window at its epsilon. The
published constants of GRR and local hashing are exact for two symbols only; with more symbols, the reports of
a window spend less than their epsilon, and are noisier than necessary.

E_inf and E_1 are exp of the lifetime epsilon and of the epsilon of one window.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ldpbeam.domains import Floats


@dataclass(frozen=True)
class SupportChain:
    """The probabilities that a permanent answer supports a category, and that a report does.

    Attributes:
        permanent: P(the permanent answer supports a category), for the person's category and for any other.
        instant: P(a report supports a category), if the permanent answer does and if it does not.
        inputs: the number of different inputs of the permanent step.
    """

    permanent: tuple[float, float]
    instant: tuple[float, float]
    inputs: int

    @property
    def window(self) -> tuple[float, float]:
        """P(a report supports a category), for the person's category and for any other."""
        p, q = (self._reported(answer) for answer in self.permanent)
        return p, q

    def _reported(self, permanent: float) -> float:
        yes, no = self.instant
        return no + (yes - no) * permanent

    @property
    def shared(self) -> tuple[float, float]:
        """The correlation of a user's supports in two windows, for the person's category and for any other.

        The variance of a support is m(1 - m). The permanent answer, which supports the category with
        probability a, contributes (p2 - q2)^2 a (1 - a) to it.
        """
        of_p, of_q = (self._correlation(answer) for answer in self.permanent)
        return of_p, of_q

    def _correlation(self, permanent: float) -> float:
        yes, no = self.instant
        reported = self._reported(permanent)
        return (yes - no) ** 2 * permanent * (1.0 - permanent) / (reported * (1.0 - reported))

    def share_factors(self, shares: Floats, windows: int) -> Floats:
        """The largest variance of unbiased shares of several windows, relative to independent reports.

        It is that of users who had one value in all windows and reported in each. The variance of a share f
        of n such users in T windows is [f h(p1) + (1-f) h(q1)] / ((p1-q1)(p2-q2))^2 / n, with
        h(a) = (p2-q2)^2 a (1-a) + [a p2 (1-p2) + (1-a) q2 (1-q2)] / T.

        Args:
            shares: approximate shares, shape (n,).
            windows: the number of windows of the reports.
        """
        (p, q), (of_own, of_other) = self.window, self.shared
        with_it, without = shares * p * (1.0 - p), (1.0 - shares) * q * (1.0 - q)
        together: Floats = (with_it * of_own + without * of_other) / (with_it + without)
        return 1.0 + (windows - 1) * together

    def factor(self, windows: int) -> float:
        """The same for anything that is computed from supports: the largest factor of all shares."""
        return 1.0 + (windows - 1) * max(self.shared)


@dataclass(frozen=True)
class NumberChain:
    """The steps of a client that reports a number.

    Attributes:
        shared: the largest correlation of any function of a user's reports in two windows, given the value.
        inputs: the number of different inputs that the permanent step can have.
    """

    shared: float
    inputs: int

    def factor(self, windows: int) -> float:
        """The largest variance of anything computed from several windows, relative to independent reports.

        It is that of users who had one value in all windows and reported in each.
        """
        return 1.0 + (windows - 1) * self.shared


def instant_ratio(cells: int, lifetime: float, epsilon: float, *, as_published: bool = False) -> float:
    """c: the instant step of randomised response over ``cells`` keeps an answer with c / (c + cells - 1).

    With the exact ratio, both steps together are GRR at epsilon: c = (E_inf E_1 + (k-2) E_1 - (k-1)) /
    (E_inf - E_1). The published ratio (arXiv 2111.04636, section 3; EDBT 2023, equation 3) is exact for k =
    2: c = (E_inf E_1 - 1) / (E_inf - E_1).

    Args:
        cells: the number k of categories, or of hash values.
        lifetime: the lifetime epsilon, above ``epsilon``.
        epsilon: the epsilon of one window.
        as_published: whether to use the published ratio.
    """
    # This form avoids differences of nearly equal numbers.
    apart = math.exp(epsilon) * math.expm1(lifetime - epsilon)
    if as_published:
        return math.expm1(lifetime + epsilon) / apart
    return (math.exp(epsilon) * math.expm1(lifetime) + (cells - 1) * math.expm1(epsilon)) / apart


def randomised_response(
    cells: int, lifetime: float, epsilon: float, *, as_published: bool = False
) -> SupportChain:
    """The chain of ``grr`` over ``cells`` categories; the arguments are those of :func:`instant_ratio`."""
    growth, ratio = math.exp(lifetime), instant_ratio(cells, lifetime, epsilon, as_published=as_published)
    first, second = 1.0 / (growth + cells - 1.0), 1.0 / (ratio + cells - 1.0)
    return SupportChain((growth * first, first), (ratio * second, second), cells)


def local_hashing(
    hashes: int, lifetime: float, epsilon: float, *, as_published: bool = False
) -> SupportChain:
    """The chain of ``olh``: that of ``grr`` over hash values; other categories have uniform hashes."""
    chain = randomised_response(hashes, lifetime, epsilon, as_published=as_published)
    return SupportChain((chain.permanent[0], 1.0 / hashes), chain.instant, hashes)


def optimised_unary(size: int, lifetime: float, epsilon: float) -> SupportChain:
    """The chain of ``oue`` over ``size`` categories, L-OSUE (arXiv 2111.04636, section 3)."""
    both = math.expm1(lifetime + epsilon)
    apart = math.exp(epsilon) * math.expm1(lifetime - epsilon)
    return _unary(size, (0.5, 1.0 / (math.exp(lifetime) + 1.0)), both / (apart + both))


def symmetric_unary(size: int, lifetime: float, epsilon: float) -> SupportChain:
    """The chain of ``sue`` over ``size`` categories: RAPPOR without cohorts, L-SUE."""
    kept = 1.0 / (1.0 + math.exp(-lifetime / 2.0))
    instant = 0.5 + 0.5 * math.tanh(epsilon / 4.0) / math.tanh(lifetime / 4.0)
    return _unary(size, (kept, 1.0 - kept), instant)


def _unary(size: int, permanent: tuple[float, float], kept: float) -> SupportChain:
    """Permanent bits; each is sent unchanged with probability ``kept``."""
    return SupportChain(permanent, (kept, 1.0 - kept), size)


def rounding(lifetime: float, epsilon: float, inputs: int) -> NumberChain:
    """The chain of ``stochastic_rounding``: a permanent sign, as of ``grr`` with two categories.

    The correlation of two reports is largest for a value in the middle, whose signs are equally likely.
    """
    ratio = instant_ratio(2, lifetime, epsilon)
    return NumberChain(((ratio - 1.0) / (ratio + 1.0)) ** 2, inputs)


def uniform_part(half_width: float, lifetime: float, epsilon: float) -> float:
    """l: the probability that a report of a wave is uniform instead of the permanent one.

    l = (p - E_1 q) / (p - E_1 q + u (E_1 - 1)), with the densities p and q of the permanent step and the
    uniform density u. Reports of a window have a wave of the same width, with E_1 times the density
    elsewhere.

    Args:
        half_width: the half-width of the permanent wave, relative to the range of values.
        lifetime: the lifetime epsilon, above ``epsilon``.
        epsilon: the epsilon of one window.
    """
    outside = 1.0 / (2.0 * half_width * math.exp(lifetime) + 1.0)
    excess = outside * math.exp(epsilon) * math.expm1(lifetime - epsilon)
    return excess / (excess + math.expm1(epsilon) / (1.0 + 2.0 * half_width))


def wave(half_width: float, lifetime: float, epsilon: float, buckets: int) -> NumberChain:
    """The chain of ``square_wave`` and ``piecewise``, with ``buckets`` memo and report buckets.

    Given the permanent answer b, the mean of a function g of the report is (1-l) g(b) plus a constant. Let V
    be the variance of g(b). The variance of that mean over b is (1-l)^2 V, and the variance of g over reports
    is at least (1-l) V + l U, where U, its variance under the uniform distribution, is at least V u/p.
    """
    part = uniform_part(half_width, lifetime, epsilon)
    inside = 1.0 / (2.0 * half_width + math.exp(-lifetime))
    even = 1.0 / (1.0 + 2.0 * half_width)
    kept = 1.0 - part
    return NumberChain(kept**2 / (kept + part * even / inside), buckets)


def published_hashes(lifetime: float, epsilon: float) -> int:
    """OLOLOHA's number of hash values, which minimises the variance of its chain (EDBT 2023, equation 6)."""
    a, b = math.exp(lifetime), math.exp(epsilon)
    root = math.sqrt(a**4 - 14.0 * a**2 - 12.0 * (a * b) ** 2 + 12.0 * a * b + 12.0 * a**3 * b + 1.0)
    return max(2, int(np.rint((1.0 - a**2 + 6.0 * a - 6.0 * b + root) / (6.0 * (a - b)))))
