"""Mixture reduction: EM over a number of components that is reduced by merges."""
