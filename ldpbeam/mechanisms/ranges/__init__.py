"""Mechanisms that perturb a number in buckets, for range queries and histograms."""
