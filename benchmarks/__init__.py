"""Measurements against peers and limits; never a timed test."""
