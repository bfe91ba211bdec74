"""Pairs of attributes: a joint table from the reports of the same users, and what it says."""
