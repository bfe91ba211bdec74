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
    """The best estimate that is known for the attribute, without options.

    It uses the joint histogram if the attribute has one of all the services. The estimate's detail ``chosen``
    is a sentence about what was chosen and why, or the name of another estimator whose answer it is.
    """
    domain = question.attribute.domain
    if isinstance(domain, Numeric):
        estimate = auto_numbers(question)
    else:
        estimate = auto_keys(question) if isinstance(domain, KeyValues) else auto_shares(question)
    details = {"chosen": estimate.estimator, **estimate.details}
    return replace(estimate, estimator="auto", details=details)


def check_auto(attribute: Attribute, services: Sequence[str]) -> None:
    """Check that every mechanism of keys with values tells its own frequencies; all others fit.

    Raises:
        ValueError: if one does not.
    """
    if isinstance(attribute.domain, KeyValues):
        check_key_value(attribute, services)


def auto_joins(domain: Domain, mechanisms: Sequence[Mechanism]) -> bool:
    """Whether ``auto`` asks for the reports of several services to be joined by user.

    It does for numbers, if each whole report of each mechanism has a bucket of its own. Other attributes are
    joined if another estimator asks for it.

    Args:
        domain: the attribute's domain.
        mechanisms: the mechanisms of all services of the estimate, of two services or more.
    """
    return isinstance(domain, Numeric) and not any(mechanism.composite for mechanism in mechanisms)
