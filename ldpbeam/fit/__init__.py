"""Tests of whether reports fit the study's claims about them: the mechanism, its epsilon, and its users.

The question is whether *any* distribution of true values explains the counts. Every test compares the counts
with the most likely distribution. The true one explains them no better, so p-values are too large rather than
too small: a clean run is flagged no more often than the stated rate.
"""

from ldpbeam.fit.tests import FALSE_ALARMS, FitTest, explain, fit_tests, flagged, not_tested

__all__ = ["FALSE_ALARMS", "FitTest", "explain", "fit_tests", "flagged", "not_tested"]
