"""Mechanisms that perturb a number."""
