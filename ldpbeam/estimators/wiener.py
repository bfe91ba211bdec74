"""IIW: unbiased shares smoothed by the iterative Wiener filter, for values with an order."""

from __future__ import annotations

from typing import cast

import numpy as np
from numpy.typing import ArrayLike

from ldpbeam.domains import Floats
from ldpbeam.estimators.estimate import Estimate
from ldpbeam.estimators.frequencies import by_bin, leaf_warnings, norm_sub, spread_evenly, unbiased_shares
from ldpbeam.estimators.question import Question
from ldpbeam.mechanisms import FrequencyMechanism


def iterative_wiener(shares: ArrayLike, variance: float, *, correction: bool = True) -> Floats:
    """The limit of the iterative Wiener filter, in closed form (Fang et al., IEEE S&P 2023).

    The shares are the truth plus white noise. P is the power of their discrete Fourier transform at a
    frequency, and N = K variance is the noise's power. The estimated power S of the signal starts at P. Each
    iteration sets it to the power of the filtered shares; the improved filter (IIW) adds their uncertainty:

        S <- P (S/(S+N))^2 + S N/(S+N).

    With this correction, a fixed point other than zero has S + N = P, so the limit of the gain S/(S+N) is
    max(1 - N/P, 0). Without it, (S+N)^2 = S P, and the limit is (1 + sqrt(1 - 4N/P)) / 2 if P is at least 4N,
    else zero. The iteration converges slowly if P is near N (or 4N), so this function computes the limit; the
    paper stops after an unspecified number of iterations. Unlike the paper, this function keeps the sum of
    the shares, which is known.

    Args:
        shares: unbiased shares, shape (K,), in order; the last and the first are treated as neighbours.
        variance: the variance of the noise of one share.
        correction: whether to use the improved filter.

    Returns:
        The filtered shares, shape (K,); they may be negative.
    """
    values = np.asarray(shares, dtype=np.float64)
    spectrum = np.fft.rfft(values)
    power = np.abs(spectrum) ** 2
    noise = len(values) * variance
    least = noise if correction else 4.0 * noise
    kept = power > least
    left = 1.0 - least / np.where(kept, power, 1.0)
    gain = np.where(kept, left if correction else 0.5 * (1.0 + np.sqrt(np.maximum(left, 0.0))), 0.0)
    gain[0] = 1.0
    return np.fft.irfft(gain * spectrum, len(values))


def iiw(question: Question, *, correction: bool = True) -> Estimate:
    """Norm-Sub of the unbiased shares after the iterative Wiener filter.

    The filter helps if neighbours are similar (categories have the domain's order), and little otherwise. The
    noise variance is that of a rare category's or bin's share. Bins are filtered, and a bin's share is then
    divided equally among its value buckets. The noise of a hierarchy's leaves is not white.

    Args:
        question: what to estimate.
        correction: whether the filter is IIW, as published; without it the result is smoother.
    """
    shares, variance = unbiased_shares(question)
    mechanism = question.attribute.versions[question.versions[0]].mechanism
    bins = cast(FrequencyMechanism, mechanism).bins
    of_bins = by_bin(shares, question.attribute, bins)
    filtered = iterative_wiener(of_bins, variance, correction=correction)
    distribution = spread_evenly(norm_sub(filtered), question.attribute)
    return question.answer_distribution(
        "iiw",
        distribution,
        warnings=leaf_warnings(question),
        details={"deviation": float(np.sqrt(variance))},
    )
