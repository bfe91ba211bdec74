"""Mechanisms that perturb a category."""
