"""Smooth densities that explain reports: priors, likelihoods, modes, evidence, draws (docs/formulas.md)."""
