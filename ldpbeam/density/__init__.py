"""Smooth densities that explain reports: priors, likelihoods, modes, evidence and draws (docs/density.md)."""

from ldpbeam.density.averaging import Family, Fit, average, by_evidence, log_evidence, tried, weigh
from ldpbeam.density.curves import Curves
from ldpbeam.density.draws import draws, freedom, of_people
from ldpbeam.density.families import numbers
from ldpbeam.density.likelihoods import Exact, Likelihood, Quadratic
from ldpbeam.density.modes import Mode, mode_of
from ldpbeam.density.priors import Prior

__all__ = [
    "Curves", "Exact", "Family", "Fit", "Likelihood", "Mode", "Prior", "Quadratic", "average", "by_evidence",
    "draws", "freedom", "log_evidence", "mode_of", "numbers", "of_people", "tried", "weigh",
]  # fmt: skip
