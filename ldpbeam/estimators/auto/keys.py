"""``auto`` for keys with values: empirical Bayes over the frequencies, and over the means, of all keys.

The keys' frequencies are draws from one distribution, which the reports of all keys tell together; they need
not sum to one. The keys' means are draws from one normal distribution. So a key of which reports tell little
has nearly the mean of the other keys. Means of PCKV-PM are those of ``pckv_em``, which measured better.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
from scipy.special import betainc

from ldpbeam.domains import Floats, Integers
from ldpbeam.estimators.auto.share_likelihood import Supports
from ldpbeam.estimators.auto.share_prior import ANYWHERE, most_likely_prior
from ldpbeam.estimators.estimate import Estimate
from ldpbeam.estimators.key_values.key_value import answer_keys, key_value, mechanism_of
from ldpbeam.estimators.key_values.pckv import pckv_em
from ldpbeam.estimators.key_values.privkv import check_privkvm, privkvm
from ldpbeam.estimators.question import Question
from ldpbeam.mechanisms.key_values.mechanism import KeyValueMechanism
from ldpbeam.mechanisms.key_values.pckv import PCKVGRR
from ldpbeam.mechanisms.key_values.pckv_piecewise import PCKVPM
from ldpbeam.mechanisms.key_values.pckv_slots import MINUS, PCKVUE, PLUS
from ldpbeam.mechanisms.key_values.privkv import PrivKV, PrivKVM

#: The means and the sizes (as of so many seen keys) of the beta distributions that frequencies may have.
BETA_MEANS, BETA_SIZES = (0.01, 0.03, 0.1, 0.2, 0.35, 0.5, 0.7), (0.5, 2.0, 8.0, 30.0)
#: The points of a frequency.
POINTS = 401
#: The centres of the keys' means on [-1, 1] and their deviations around it, all equally probable.
CENTRES, SPREADS = np.linspace(-0.95, 0.95, 39), np.geomspace(0.03, 1.0, 12)


@dataclass(frozen=True)
class KeyReports:
    """What a service's or version's reports tell of each key; arrays have the shape (keys,).

    Attributes:
        present: the binomial number of reports in which the key is present, given its frequency.
        sums: unbiased estimates of the frequency times the mean on [-1, 1].
        variances: of ``sums``.
    """

    present: Supports
    sums: Floats
    variances: Floats


def auto_keys(question: Question) -> Estimate:
    """The frequencies and the means of keys.

    Rounds of PrivKVM are estimated by :func:`~ldpbeam.estimators.key_values.privkv.privkvm`, because later
    rounds depend on the means of earlier ones; mechanisms of other packages by their own estimates.
    """
    mechanisms = [mechanism_of(question, index) for index in question.versions]
    if any(isinstance(mechanism, PrivKVM) for mechanism in mechanisms):
        return _by(question, rounds=True)
    if not all(isinstance(mechanism, PrivKV | PCKVGRR | PCKVUE | PCKVPM) for mechanism in mechanisms):
        return _by(question, rounds=False)
    parts = [
        key_reports(mechanism, question.statistic.histograms[index], question.reports_of(index))
        for mechanism, index in zip(mechanisms, question.versions, strict=True)
    ]
    frequencies, steps = frequencies_of(parts)
    values = [mechanism.padding for mechanism in mechanisms if isinstance(mechanism, PCKVPM)]
    if len(values) == len(mechanisms) and len(set(values)) == 1:
        # The shape of a key's piecewise reports tells more of its mean than their sum does.
        found = pckv_em(question)
        chosen = "empirical Bayes over the frequencies of all keys, and pckv_em for the means"
        return dataclasses.replace(
            found, estimator="auto", frequencies=frequencies, details={"chosen": chosen, **found.details}
        )
    means = means_of(parts, frequencies)
    details = {"chosen": "empirical Bayes over the frequencies and over the means of all keys"}
    return answer_keys(
        question, "auto", frequencies, (1.0 + means) / 2.0, n_iterations=steps, details=details
    )


def _by(question: Question, rounds: bool) -> Estimate:
    """The estimate of PrivKVM's rounds, or each mechanism's own one."""
    if rounds:
        try:
            check_privkvm(question.attribute, question.services)
        except ValueError:
            rounds = False
    found = privkvm(question) if rounds else key_value(question)
    return dataclasses.replace(found, estimator="auto", details={"chosen": found.estimator, **found.details})


def key_reports(mechanism: KeyValueMechanism, histogram: Integers, reports: int) -> KeyReports:
    """What a histogram of reports of PrivKV, PCKV-GRR, PCKV-UE or PCKV-PM tells of each key."""
    counts = histogram.astype(np.float64)
    if isinstance(mechanism, PrivKV):
        counts = counts.reshape(mechanism.size, 3)
        p1, p2 = mechanism.probabilities
        known = counts.sum(axis=1)
        present = counts[:, PLUS] + counts[:, MINUS]
        # Nobody was asked about a key without reports: it tells nothing.
        told = np.maximum(known, 1.0)
        gain = p1 * (2.0 * p2 - 1.0)
        sums = (counts[:, PLUS] - counts[:, MINUS]) / (told * gain)
        variances = np.where(known > 0.0, np.maximum(present, 1.0) / (told * gain) ** 2, np.inf)
        return KeyReports(Supports(present, known, p1, 1.0 - p1), sums, variances)
    if isinstance(mechanism, PCKVPM):
        counts = counts.reshape(mechanism.size, -1)[:, 1:]
        points = mechanism.piecewise.representatives(counts.shape[1])
        (a, b), gain = mechanism.constants, 1.0
        present, first, second = counts.sum(axis=1), counts @ points, counts @ points**2
        least = mechanism.piecewise.bound**2 / 3.0
    else:
        assert isinstance(mechanism, PCKVGRR | PCKVUE)
        (a, b, p), least = mechanism.constants, 1.0
        gain = 2.0 * p - 1.0
        if isinstance(mechanism, PCKVUE):
            _, plus, minus = counts.reshape(mechanism.size, 3).T
        else:
            minus, plus = counts.reshape(-1, 2)[: mechanism.size].T
        present, first, second = plus + minus, plus - minus, plus + minus
    scale = mechanism.padding / (reports * a * gain)
    supports = Supports(present, float(reports), b + (a - b) / mechanism.padding, b)
    return KeyReports(supports, scale * first, scale**2 * np.maximum(second, least))


def frequencies_of(parts: list[KeyReports]) -> tuple[Floats, int]:
    """(the posterior mean of each key's frequency, shape (keys,), the steps of EM)."""
    atoms = np.linspace(0.0, 1.0, POINTS) ** 2
    ends = np.concatenate(([0.0], (atoms[1:] + atoms[:-1]) / 2.0, [1.0]))
    families = np.array(
        [
            np.diff(betainc(mean * size, (1.0 - mean) * size, ends))
            for mean in BETA_MEANS
            for size in BETA_SIZES
        ]
    )
    # Frequencies of 0 and 1 would need chances of 0 and 1 at the largest epsilons.
    inside = atoms.clip(1e-12, 1.0 - 1e-12)
    table = np.zeros((len(parts[0].sums), len(atoms)))
    for part in parts:
        own = part.present
        known = np.broadcast_to(np.asarray(own.reports), own.supports.shape)[:, None]
        table += Supports(own.supports[:, None], known, own.own, own.other).log_likelihood(inside)
    table = np.exp(table - table.max(axis=1, keepdims=True))
    told = np.log(np.maximum(table @ families.T, np.finfo(np.float64).tiny)).sum(axis=0)
    weights = np.exp(told - told.max())
    start = (weights / weights.sum()) @ families
    start = (1.0 - ANYWHERE) * start + ANYWHERE / len(atoms)
    prior, steps = most_likely_prior(table, np.ones(len(table)), start)
    joint = table * prior
    frequencies: Floats = (joint @ atoms) / joint.sum(axis=1)
    return frequencies, steps


def means_of(parts: list[KeyReports], frequencies: Floats) -> Floats:
    """The posterior mean of each key's mean on [-1, 1], shape (keys,), given the frequencies.

    Given its mean m, a key's sum is normal around f m. The centre and the spread of all keys' means are
    averaged over a grid, each pair weighted by the likelihood of all sums.
    """
    weights = np.array([1.0 / part.variances for part in parts])
    known = weights.sum(axis=0)
    sums = np.divide(
        (weights * np.array([part.sums for part in parts])).sum(axis=0), known, out=np.zeros_like(known),
        where=known > 0.0,
    )  # fmt: skip
    noise = np.divide(1.0, known, out=np.full_like(known, np.inf), where=known > 0.0)
    centres, spreads = (grid.ravel()[:, None] for grid in np.meshgrid(CENTRES, SPREADS))
    seen = np.isfinite(noise)
    variances = noise[seen] + (frequencies[seen] * spreads) ** 2
    far = sums[seen] - frequencies[seen] * centres
    told = -0.5 * (far**2 / variances + np.log(variances)).sum(axis=1)
    chances = np.exp(told - told.max())
    chances /= chances.sum()
    moved = np.zeros((len(chances), len(noise)))
    moved[:, seen] = spreads**2 * frequencies[seen] * far / variances
    means: Floats = chances @ np.clip(centres + moved, -1.0, 1.0)
    return means
