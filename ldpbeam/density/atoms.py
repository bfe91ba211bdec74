"""Atoms of a density at the ends of its range, to which clients clip all values beyond.

An atom is a spike (:mod:`~ldpbeam.density.spikes`) in the first or the last block. If that block is a point,
the reports of an atom are those of the end itself, and not those of the values beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from ldpbeam.density.averaging import Family, Fit, tried
from ldpbeam.density.likelihoods import Likelihood
from ldpbeam.density.modes import mode_of

#: The blocks of the two ends.
LOW, HIGH = 0, -1
#: The chance of atoms, relative to that of the smooth density: at one end, and at both.
CHANCES = {1: 0.5, 2: 0.25}
#: If atoms raise the log marginal likelihood by this, the rest may be much smoother than without them.
LIKELIER = 1.0


def with_atoms(likelihood: Likelihood, smooth: Fit, families: Sequence[Family]) -> Iterator[Fit]:
    """Smooth log densities with an atom at the low end, at the high end, and at both.

    Args:
        likelihood: the likelihood of the reports.
        smooth: the likeliest smooth log density without an atom.
        families: the families of log densities to try with the likeliest atoms.
    """
    fits = [_beside(likelihood, smooth, ends) for ends in ((LOW,), (HIGH,), (LOW, HIGH))]
    yield from fits
    likeliest = max(fits, key=lambda fit: fit.mode.log_evidence)
    if likeliest.mode.log_evidence < smooth.mode.log_evidence + LIKELIER:
        return
    ends = likeliest.prior.spikes
    smoother = list[Fit]()
    for family in families:
        priors = [replace(prior, spikes=ends) for prior in family.priors]
        smoother += tried(likelihood, Family(priors, CHANCES[len(ends)] * family.chance))
    yield from smoother
    if len(ends) == 1:
        best = max(smoother, key=lambda fit: fit.log_weight)
        yield _beside(likelihood, best, ({LOW: HIGH, HIGH: LOW}[ends[0]],))


def _beside(likelihood: Likelihood, fit: Fit, ends: tuple[int, ...]) -> Fit:
    """The same prior with more atoms."""
    prior = replace(fit.prior, spikes=(*ends, *fit.prior.spikes))
    curves = prior.curves(likelihood.sizes)
    mode = mode_of(likelihood, curves, np.append(np.zeros(len(ends)), fit.mode.coefficients))
    return Fit(prior, curves, mode, CHANCES[len(ends)] * fit.chance)
