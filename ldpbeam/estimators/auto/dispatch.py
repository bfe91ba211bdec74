"""Which part of ``auto`` answers for an attribute: numbers, categories, or keys with values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ldpbeam.attributes import Attribute
from ldpbeam.domains import Domain, KeyValues, Numeric
from ldpbeam.estimators.auto.key_values import auto_keys
from ldpbeam.estimators.auto.numbers import auto_numbers
from ldpbeam.estimators.auto.shares import auto_shares
from ldpbeam.estimators.estimate import Estimate
from ldpbeam.estimators.key_values.key_value import check_key_value
from ldpbeam.estimators.question import Question
from ldpbeam.mechanisms import Mechanism


def auto(question: Question) -> Estimate:
    """The best estimate for the attribute that we know of, without options.

    It uses the joint histogram if the attribute has one for all the services. The detail ``chosen`` of the
    estimate is a sentence about what was chosen and why, or the name of the estimator that gave the answer.
    """
    domain = question.attribute.domain
    if isinstance(domain, Numeric):
        estimate = auto_numbers(question)
    else:
        estimate = auto_keys(question) if isinstance(domain, KeyValues) else auto_shares(question)
    details = {"chosen": estimate.estimator, **estimate.details}
    return replace(estimate, estimator="auto", details=details)


def check_auto(attribute: Attribute, services: Sequence[str]) -> None:
    """Check that every mechanism for keys with values estimates their frequencies; other attributes fit.

    Raises:
        ValueError: if one does not.
    """
    if isinstance(attribute.domain, KeyValues):
        check_key_value(attribute, services)


def auto_joins(domain: Domain, mechanisms: Sequence[Mechanism]) -> bool:
    """Whether ``auto`` asks for the reports of several services to be joined by user.

    It does so for numbers if every mechanism maps each whole report to one bucket. The reports of other
    attributes are joined only if another estimator asks for it.

    Args:
        domain: the attribute's domain.
        mechanisms: the mechanisms of all services of the estimate, of two services or more.
    """
    return isinstance(domain, Numeric) and not any(mechanism.composite for mechanism in mechanisms)
