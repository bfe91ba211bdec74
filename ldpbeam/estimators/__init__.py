"""Estimators: a statistic and its channels to an estimate. One file for each method family.

To add one, write its function and name it in :mod:`ldpbeam.estimators.registry`, or ship it in a package of
your own under the entry point group ``ldpbeam.estimators``.
"""

from ldpbeam.estimators.estimate import Estimate as Estimate
from ldpbeam.estimators.estimator import Estimator as Estimator
from ldpbeam.estimators.question import Progress as Progress
from ldpbeam.estimators.question import Question as Question
from ldpbeam.estimators.registry import register as register
from ldpbeam.estimators.registry import registered_estimators as registered_estimators
from ldpbeam.estimators.solving import check as check
from ldpbeam.estimators.solving import estimate as estimate
from ldpbeam.options import AboveZero as AboveZero
from ldpbeam.options import Iterations as Iterations
from ldpbeam.options import Option as Option
from ldpbeam.options import Range as Range
from ldpbeam.options import Share as Share
