"""``auto`` for keys with values: empirical Bayes over the frequencies, and over the means, of all keys.

The keys' frequencies are draws from one distribution, which is estimated from the reports of all keys; they
need not sum to one. The keys' means are draws from one normal distribution, so a key with little information
gets nearly the mean of the other keys. For PCKV-PM the means are those of ``pckv_em``, which were more
accurate when measured.
"""

from __future__ import annotations

import dataclasses
import itertools
from dataclasses import dataclass

import numpy as np
from scipy.special import betainc

from ldpbeam.domains import Floats
from ldpbeam.estimators.auto.share_likelihood import Supports
from ldpbeam.estimators.auto.share_prior import (
    MOST_STEPS,
    averaged,
    ends_of,
    most_likely_prior,
    relative,
    thinned,
)
from ldpbeam.estimators.estimate import Estimate
from ldpbeam.estimators.key_values.key_value import answer_keys, key_value, sums_of
from ldpbeam.estimators.key_values.pckv import pckv_em
from ldpbeam.estimators.key_values.privkv import check_privkvm, privkvm
from ldpbeam.estimators.question import Question
from ldpbeam.mechanisms.key_values.mechanism import KeySums
from ldpbeam.mechanisms.key_values.pckv import PaddedKeyValueMechanism

#: The beta distributions that frequencies may have: their means, and their sizes as numbers of observations.
BETA_MEANS, BETA_SIZES = (0.01, 0.03, 0.1, 0.2, 0.35, 0.5, 0.7), (0.5, 2.0, 8.0, 30.0)
#: The number of grid points of a frequency, besides those near unbiased frequencies.
POINTS = 401
#: The centres of the keys' means on [-1, 1], and the deviations around them; all are equally probable.
CENTRES, SPREADS = np.linspace(-0.95, 0.95, 39), np.geomspace(0.03, 1.0, 12)


@dataclass(frozen=True)
class KeyReports:
    """What the reports of one service or version say about each key; arrays have the shape (keys,).

    Attributes:
        present: the number of reports in which the key is present, binomial given its frequency, (keys, 1).
        sums: unbiased estimates of the frequency times the mean on [-1, 1].
        variances: the variances of ``sums``.
    """

    present: Supports
    sums: Floats
    variances: Floats


def auto_keys(question: Question) -> Estimate:
    """The frequencies and the means of keys.

    Rounds of PrivKVM are estimated by :func:`~ldpbeam.estimators.key_values.privkv.privkvm`, because later
    rounds depend on the means of earlier ones. If some rounds are missing, the estimate is that of
    :func:`~ldpbeam.estimators.key_values.key_value.key_value`.
    """
    mechanisms = question.mechanisms
    if any(mechanism.round for mechanism in mechanisms):
        try:
            check_privkvm(question.attribute, question.services)
        except ValueError:
            return key_value(question)
        return privkvm(question)
    parts = [key_reports(key_sums) for key_sums in sums_of(question)]
    frequencies, steps = frequencies_of(parts)
    padded = [mechanism for mechanism in mechanisms if isinstance(mechanism, PaddedKeyValueMechanism)]
    paddings = [mechanism.padding for mechanism in padded if mechanism.piecewise is not None]
    if len(paddings) == len(mechanisms) and len(set(paddings)) == 1:
        # The shape of a key's piecewise reports says more about its mean than their sum does.
        estimate = pckv_em(question)
        chosen = "empirical Bayes over the frequencies of all keys, and pckv_em for the means"
        details = {"chosen": chosen, **estimate.details}
        return dataclasses.replace(estimate, frequencies=frequencies, details=details)
    means = means_of(parts, frequencies)
    chosen = "empirical Bayes over the frequencies and over the means of all keys"
    return answer_keys(
        question,
        "auto",
        frequencies,
        (1.0 + means) / 2.0,
        n_iterations=steps,
        converged=steps < MOST_STEPS,
        details={"chosen": chosen},
    )


def key_reports(key_sums: KeySums) -> KeyReports:
    """The supports of each key and its unbiased sum of values, from its raw sums."""
    # A key that nobody was asked about says nothing.
    scale = key_sums.padding / (np.maximum(key_sums.asked, 1.0) * key_sums.own * key_sums.gain)
    squares = np.maximum(key_sums.squares, key_sums.square_by_chance)
    supports = Supports(
        key_sums.present[:, None],
        key_sums.asked[:, None],
        key_sums.other + (key_sums.own - key_sums.other) / key_sums.padding,
        key_sums.other,
    )
    return KeyReports(
        supports, scale * key_sums.sums, np.where(key_sums.asked > 0.0, scale**2 * squares, np.inf)
    )


def frequencies_of(parts: list[KeyReports]) -> tuple[Floats, int]:
    """(the posterior mean of each key's frequency, shape (keys,); the number of EM's steps)."""
    present = [part.present for part in parts]
    most = [dataclasses.replace(supports, reports=float(np.max(supports.reports))) for supports in present]

    def greatest(frequencies: Floats) -> Floats:
        """The information on a key that has the most reports of every service."""
        return np.asarray(np.sum([supports.information(_inside(frequencies)) for supports in most], axis=0))

    atoms = np.linspace(0.0, 1.0, POINTS) ** 2
    atoms = np.unique(np.concatenate((atoms, thinned(_unbiased(present), greatest))))
    ends, pairs = ends_of(atoms, 1.0), itertools.product(BETA_MEANS, BETA_SIZES)
    families = np.array([np.diff(betainc(mean * size, (1.0 - mean) * size, ends)) for mean, size in pairs])
    logs = np.zeros((len(parts[0].sums), len(atoms)))
    for supports in present:
        logs += supports.log_likelihood(_inside(atoms))
    table, _ = relative(logs)
    log_likelihoods = np.log(np.maximum(table @ families.T, np.finfo(np.float64).tiny)).sum(axis=0)
    weights = np.exp(log_likelihoods - log_likelihoods.max())
    prior, steps = most_likely_prior(table, np.ones(len(table), dtype=np.int64), averaged(families, weights))
    joint = table * prior
    frequencies: Floats = (joint @ atoms) / joint.sum(axis=1)
    return frequencies, steps


def _inside(frequencies: Floats) -> Floats:
    """Frequencies inside (0, 1): at the largest epsilons, 0 and 1 would have likelihoods of zero."""
    return frequencies.clip(1e-12, 1.0 - 1e-12)


def _unbiased(present: list[Supports]) -> Floats:
    """The unbiased frequencies of the keys that have reports, from all services together."""
    shares = [(one.supports / np.maximum(one.reports, 1.0) - one.q) / (one.p - one.q) for one in present]
    weights = np.array([one.information(_inside(share)) for one, share in zip(present, shares, strict=True)])
    total = weights.sum(axis=0)
    reported = total > 0.0
    return np.asarray((weights * shares).sum(axis=0)[reported] / total[reported])


def means_of(parts: list[KeyReports], frequencies: Floats) -> Floats:
    """The posterior mean of each key's mean on [-1, 1], shape (keys,), given the frequencies.

    A key with frequency f and mean m has a sum that is normal around f m. The result is averaged over a grid
    of centres and spreads of all keys' means, weighted by the likelihood of all sums.
    """
    weights = np.array([1.0 / part.variances for part in parts])
    precisions = weights.sum(axis=0)
    seen = precisions > 0.0
    sums = (weights * np.array([part.sums for part in parts])).sum(axis=0)[seen] / precisions[seen]
    centres, spreads = (grid.ravel()[:, None] for grid in np.meshgrid(CENTRES, SPREADS))
    variances = 1.0 / precisions[seen] + (frequencies[seen] * spreads) ** 2
    far = sums - frequencies[seen] * centres
    log_likelihoods = -0.5 * (far**2 / variances + np.log(variances)).sum(axis=1)
    chances = np.exp(log_likelihoods - log_likelihoods.max())
    chances /= chances.sum()
    moved = np.zeros((len(chances), len(precisions)))
    moved[:, seen] = spreads**2 * frequencies[seen] * far / variances
    return np.asarray(chances @ np.clip(centres + moved, -1.0, 1.0))
