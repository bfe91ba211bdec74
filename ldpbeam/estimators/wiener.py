"""IIW: unbiased shares smoothed by the iterative Wiener filter, for values in an order."""

from __future__ import annotations

from typing import cast

import numpy as np
from numpy.typing import ArrayLike

from ldpbeam.domains import Floats
from ldpbeam.estimators.estimate import Estimate
from ldpbeam.estimators.frequencies import leaf_warnings, norm_sub, spread_evenly, unbiased_shares
from ldpbeam.estimators.question import Question
from ldpbeam.mechanisms import FrequencyMechanism


def iterative_wiener(shares: ArrayLike, variance: float, *, correction: bool = True) -> Floats:
    """Where the iterative Wiener filter ends, in closed form (Fang et al., IEEE S&P 2023).

    The shares are the truth plus white noise. With P the power of their discrete Fourier transform and
    N = K variance that of the noise, the signal's power S starts at P and is set to that of the filtered
    shares; the improved filter (IIW) adds what is uncertain of them:

        S <- P (S/(S+N))^2 + S N/(S+N).

    With that correction a fixed point other than zero has S + N = P, so the gain S/(S+N) ends at
    max(1 - N/P, 0). Without it (S+N)^2 = S P: the gain ends at (1 + sqrt(1 - 4N/P)) / 2 where P is 4N or
    more, and at zero elsewhere. The end is approached slowly where P is near N (or 4N), so it is computed and
    not iterated to; the paper stops after a number of iterations that it leaves open. The sum of the shares
    is left as it is, being known: that is ours.

    Args:
        shares: unbiased, shape (K,), in order; the last one and the first are neighbours.
        variance: of the noise of one share.
        correction: whether the improved filter is meant.
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
    filtered: Floats = np.fft.irfft(gain * spectrum, len(values))
    return filtered


def iiw(question: Question, *, correction: bool = True) -> Estimate:
    """The iterative Wiener filter of the unbiased shares, then Norm-Sub, so that it is a distribution.

    It gains where neighbours are alike (categories stand in the domain's order), and little elsewhere. The
    noise comes from the number of reports: it is that of a rare category, or bin. Bins are filtered as bins,
    and each is then spread evenly over its value buckets; a hierarchy's leaves do not have white noise.

    Args:
        question: what to estimate.
        correction: whether the filter is IIW, as published; without, it is smoother.
    """
    shares, variance = unbiased_shares(question)
    mechanism = question.attribute.versions[question.versions[0]].mechanism
    bins = cast(FrequencyMechanism, mechanism).bins
    filtered = iterative_wiener(shares.reshape(bins, -1).sum(axis=1), variance, correction=correction)
    distribution = spread_evenly(norm_sub(filtered), len(shares))
    return question.answer_distribution(
        "iiw",
        distribution,
        warnings=leaf_warnings(question),
        details={"deviation": float(np.sqrt(variance))},
    )
