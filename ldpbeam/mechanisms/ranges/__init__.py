"""Mechanisms that perturb the bin of a number, for range queries and histograms."""
