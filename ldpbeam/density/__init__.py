"""Smooth densities that explain reports: priors, likelihoods, modes, evidence, draws (docs/formulas.md)."""

from ldpbeam.density.averaging import Family, average, weigh
from ldpbeam.density.draws import draws
from ldpbeam.density.likelihoods import Exact
from ldpbeam.density.priors import Prior

__all__ = ["Exact", "Family", "Prior", "average", "draws", "weigh"]
