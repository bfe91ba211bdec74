"""The total variation of each mechanism is at least that between two people of its exact matrix."""

import numpy as np
import pytest

from ldpbeam.mechanisms import build_mechanism
from tests.mechanisms.cases import (
    CASES,
    RANGE,
    Case,
    categories,
    has_whole_reports,
    likelihoods,
    value_buckets,
)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_at_least_that_of_the_matrix(case: Case) -> None:
    mechanism = case.at(1.0)
    if mechanism.delta or mechanism.composite or not has_whole_reports(mechanism):
        pytest.skip("no matrix of whole reports, or a delta")
    chances = likelihoods(mechanism, value_buckets(mechanism), 64)
    apart = max(0.5 * np.abs(chances - one[:, None]).sum(axis=0).max() for one in chances.T)
    assert apart <= mechanism.total_variation + 1e-9
    assert mechanism.total_variation <= np.tanh(0.5) + 1e-12


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("name", ["grr", "hadamard", "block_hadamard", "haar"])
def test_exact_for_categories_and_haar(name: str, epsilon: float) -> None:
    domain, options = (RANGE, {"leaves": 16}) if name == "haar" else (categories(6), {})
    mechanism = build_mechanism(name, domain, epsilon, **options)
    chances = mechanism.channel(16 if name == "haar" else 6, 0).dense()
    apart = max(0.5 * np.abs(chances - one[:, None]).sum(axis=0).max() for one in chances.T)
    assert mechanism.total_variation == pytest.approx(apart, abs=1e-9)
