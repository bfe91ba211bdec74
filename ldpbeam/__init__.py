"""Estimates from reports perturbed under local differential privacy.

The modules of this package compute the statistics, with numpy and scipy only. ``ldpbeam.schemas``,
``ldpbeam.transforms``, ``ldpbeam.pipelines`` and ``ldpbeam.runners`` are the Beam pipelines that use them.
"""

from ldpbeam.attributes import Attribute, ServiceVersion
from ldpbeam.domains import Categories, Numeric
from ldpbeam.estimators import Estimate, estimate, registered_estimators
from ldpbeam.mechanisms import build_mechanism, registered_mechanisms
from ldpbeam.statistics import Answers, Statistic, empty, merge, tally

__all__ = [
    "Answers",
    "Attribute",
    "Categories",
    "Estimate",
    "Numeric",
    "ServiceVersion",
    "Statistic",
    "build_mechanism",
    "empty",
    "estimate",
    "merge",
    "registered_estimators",
    "registered_mechanisms",
    "tally",
]
