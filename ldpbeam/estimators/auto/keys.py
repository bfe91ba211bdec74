"""``auto`` for keys with values."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from ldpbeam.attributes import Attribute
from ldpbeam.estimators.estimate import Estimate
from ldpbeam.estimators.key_values.key_value import key_value
from ldpbeam.estimators.key_values.pckv import check_pckv_em, pckv_em
from ldpbeam.estimators.key_values.privkv import check_privkv_em, check_privkvm, privkv_em, privkvm
from ldpbeam.estimators.question import Question

Check = Callable[[Attribute, Sequence[str]], None]

#: The first that fits is taken; ``key_value`` fits all others.
_METHODS: tuple[tuple[Check, Callable[[Question], Estimate]], ...] = (
    (check_pckv_em, pckv_em),
    (check_privkvm, privkvm),
    (check_privkv_em, privkv_em),
)


def auto_keys(question: Question) -> Estimate:
    """The frequencies and means of keys, by the method of their mechanism."""
    fitting = (method for check, method in _METHODS if _fits(check, question))
    found = next(fitting, key_value)(question)
    return dataclasses.replace(found, estimator="auto", details={"chosen": found.estimator, **found.details})


def _fits(check: Check, question: Question) -> bool:
    try:
        check(question.attribute, question.services)
    except ValueError:
        return False
    return True
