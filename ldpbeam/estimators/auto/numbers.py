"""``auto`` for numbers."""

from __future__ import annotations

import dataclasses

from ldpbeam.estimators.auto.joined import is_joined
from ldpbeam.estimators.em import ems
from ldpbeam.estimators.estimate import Estimate
from ldpbeam.estimators.question import Question
from ldpbeam.estimators.ule import ule


def auto_numbers(question: Question) -> Estimate:
    """The distribution of numbers, from the joint histogram if there is one."""
    found = ule(question, accelerated=True) if is_joined(question) else ems(question, accelerated=True)
    details = {"chosen": f"{found.estimator} to its fixed point", **found.details}
    return dataclasses.replace(found, estimator="auto", details=details)
