"""Nothing outside of ``ldpbeam.mechanisms`` knows a mechanism: it is estimated through its base class.

Each mechanism is compared with a stranger: an unknown class below the same base, as a plug-in's is. It hands
on what the base declares, and nothing else.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
from cases import CASES, Case, some_values

from ldpbeam import Attribute, Numeric, ServiceVersion
from ldpbeam.domains import Vector
from ldpbeam.estimators import Question, registered_estimators
from ldpbeam.fit import fit_tests
from ldpbeam.intervals.answer import WantedIntervals
from ldpbeam.intervals.computing import StatisticIntervals, explain
from ldpbeam.mechanisms import (
    CategoricalMechanism,
    FrequencyMechanism,
    KeyValueMechanism,
    Mechanism,
    NumericMechanism,
    UnbiasedMechanism,
)
from ldpbeam.mechanisms.key_values.pckv import PaddedKeyValueMechanism
from ldpbeam.planning.influence import influence
from ldpbeam.statistics import Answers, tally

#: PCKV's estimators ask for padding, which is a base of several mechanisms.
BASES = (
    CategoricalMechanism, FrequencyMechanism, NumericMechanism, UnbiasedMechanism, PaddedKeyValueMechanism,
    KeyValueMechanism,
)  # fmt: skip
PEOPLE = 400


def stranger(mechanism: Mechanism) -> Mechanism:
    """An object of an unknown class below the mechanism's base, which hands everything on to it."""
    base = next(base for base in BASES if isinstance(mechanism, base))
    declared = {name for one in base.__mro__ for name in (*vars(one), *getattr(one, "__annotations__", ()))}
    handed_on = {
        name: property(lambda self, name=name: getattr(mechanism, name))
        for name in declared
        if not name.startswith(("__", "_abc"))
    }
    unknown: Any = type("Stranger", (base,), handed_on)
    return object.__new__(unknown)


def told_of(mechanism: Mechanism, case: Case, payloads: np.ndarray) -> list[Any]:
    """All that is told of the reports: tests of fit, estimates, intervals, the influence of fake users."""
    attribute = Attribute("x", case.domain, 4 * mechanism.granularity, (ServiceVersion("s", "", mechanism),))
    statistic = tally(attribute, PEOPLE, [Answers(0, np.arange(PEOPLE), payloads)])
    wanted, intervals = WantedIntervals(0.95, simultaneous=False), StatisticIntervals(attribute, statistic)
    # auto and intervals of numbers take seconds, and ask for no more than those of other estimators.
    numbers = isinstance(case.domain, Numeric)
    names = ("ivw", "em", "norm_sub") if numbers else ("auto", "mle", "threshold", "key_value", "pckv_em")
    told: list[Any] = [list(fit_tests(attribute, statistic)), explain(attribute, wanted)]
    for name in names:
        estimator = registered_estimators()[name]
        told.append(influence(attribute, name, ("s",)))
        try:
            estimator.check(attribute, ("s",))
        except ValueError as error:
            told.append(str(error))
        else:
            found = estimator.function(Question(attribute, statistic, ("s",)))
            told += [vars(found), {} if numbers else asdict(intervals.of(found, wanted))]
    return told


@pytest.mark.parametrize("case", [case for case in CASES if not isinstance(case.domain, Vector)], ids=str)
def test_a_mechanism_of_an_unknown_class_is_estimated_as_one_of_ours(case: Case) -> None:
    mechanism = case.at(1.0)
    payloads = mechanism.perturb(some_values(mechanism, PEOPLE), np.random.default_rng(8))
    expected = told_of(mechanism, case, payloads)
    np.testing.assert_equal(told_of(stranger(mechanism), case, payloads), expected)
