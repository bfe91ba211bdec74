"""Confidence intervals of estimates; :mod:`ldpbeam.intervals.computing` defines what they cover."""

from ldpbeam.intervals.answer import WantedIntervals

__all__ = ["WantedIntervals"]
