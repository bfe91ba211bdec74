"""``auto`` for categories."""

from __future__ import annotations

import dataclasses

from ldpbeam.estimators.auto.joined import is_joined
from ldpbeam.estimators.em import em
from ldpbeam.estimators.estimate import Estimate
from ldpbeam.estimators.question import Question
from ldpbeam.estimators.ule import ule


def auto_shares(question: Question) -> Estimate:
    """The shares of categories, from the joint histogram if there is one."""
    found = ule(question) if is_joined(question) else em(question)
    details = {"chosen": found.estimator, **found.details}
    return dataclasses.replace(found, estimator="auto", details=details)
