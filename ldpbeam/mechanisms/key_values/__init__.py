"""Mechanisms that perturb a set of keys with values."""
