"""Tests of whether reports fit what the study claims of them: the mechanism, its epsilon, and its users.

The question is whether *any* distribution of true values explains the counts. Every test compares the counts
with the most likely distribution. The true one explains the counts no better, so that the p-values are too
large rather than too small: a clean run is flagged no more often than the stated rate.
"""

from ldpbeam.fit.tests import FALSE_ALARMS as FALSE_ALARMS
from ldpbeam.fit.tests import FitTest as FitTest
from ldpbeam.fit.tests import explain as explain
from ldpbeam.fit.tests import fit_tests as fit_tests
from ldpbeam.fit.tests import flagged as flagged
from ldpbeam.fit.tests import not_tested as not_tested
