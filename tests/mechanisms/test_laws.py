"""Each law of mechanisms, once per case."""

from __future__ import annotations

from collections import Counter

import pytest
from cases import CASES, Case
from laws import LAWS, Law
from support.covering import covering

from ldpbeam.mechanisms import registered_mechanisms

PAIRS = [(law, case) for law, holds in LAWS.items() for case in CASES if holds(case)]
#: Laws that every case is tried for: on these privacy and every estimate rest.
FIRST = ("no_report_is_likelier_than_exp_epsilon_allows", "the_sampler_follows_the_channel")


#: The labels of the cases that one of these holds for; each other case has a test of every law.
OF_FIRST = {case.label for law, case in PAIRS if law.__name__ in FIRST}


def factors(pair: tuple[Law, Case]) -> tuple[str, str]:
    law, case = pair
    by_label = law.__name__ in FIRST or case.label not in OF_FIRST
    return law.__name__, case.label if by_label else case.name


#: Every other law for one case of each mechanism.
TAKEN = covering(PAIRS, factors)


@pytest.mark.parametrize(("law", "case"), TAKEN, ids=[f"{law.__name__}-{case}" for law, case in TAKEN])
def test_the_law_holds(law: Law, case: Case) -> None:
    law(case)


def test_every_registered_mechanism_has_a_case_and_every_law_has_cases() -> None:
    # Other packages that are installed may have added theirs.
    ours = {name for name, kind in registered_mechanisms().items() if kind.__module__.startswith("ldpbeam.")}
    assert {case.name for case in CASES} == ours
    assert len({case.label for case in CASES}) == len(CASES) == len({case.label for _, case in TAKEN})
    assert set(FIRST) <= {law.__name__ for law in LAWS}
    cases_of = Counter(law.__name__ for law, _ in PAIRS)
    assert set(cases_of) == {law.__name__ for law in LAWS}
    assert min(cases_of.values()) >= 8


def test_no_two_cases_have_the_same_parameters() -> None:
    # "auto" is one of the oracles that are chosen by name; the fingerprint is that of the chosen one.
    chosen = [case for case in CASES if case.options.get("oracle") != "auto"]
    assert len({repr(sorted(case.at(1.0).parameters.items())) for case in chosen}) == len(chosen)
