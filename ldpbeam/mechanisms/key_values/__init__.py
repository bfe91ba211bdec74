"""Mechanisms that perturb a person's keys and their values."""
