"""Estimators: a statistic and its channels to an estimate. One file for each method family.

To add one, write its function and name it in :mod:`ldpbeam.estimators.registry`, or ship it in a package of
your own under the entry point group ``ldpbeam.estimators``.
"""

from ldpbeam.estimators.estimate import Estimate
from ldpbeam.estimators.estimator import Estimator
from ldpbeam.estimators.question import Progress, Question
from ldpbeam.estimators.registry import register, registered_estimators
from ldpbeam.estimators.solving import check, estimate
from ldpbeam.options import AboveZero, Iterations, Option, Range, Share

__all__ = [
    "AboveZero",
    "Estimate",
    "Estimator",
    "Iterations",
    "Option",
    "Progress",
    "Question",
    "Range",
    "Share",
    "check",
    "estimate",
    "register",
    "registered_estimators",
]
