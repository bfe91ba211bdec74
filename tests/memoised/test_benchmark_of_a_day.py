"""The simulated day of benchmarks/memoised has the mean and the variance of clients with one value."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.memoised.day import BUCKETS, HOURS, Cell, inputs_of, statistic_of
from ldpbeam.attributes import Attribute, ServiceVersion
from ldpbeam.mechanisms import CategoricalMechanism
from ldpbeam.memoised import SupportChain

RUNS, PEOPLE = 300, 500


@pytest.mark.parametrize("remember", ["all", "none"])
@pytest.mark.parametrize("mechanism", ["grr", "oue", "olh"])
def test_shares_of_a_day_vary_as_much_as_the_formula_says(mechanism: str, remember: str) -> None:
    """A variance of 300 runs has the standard error sqrt(2/300), and 8 of 40 shares are averaged."""
    cell = Cell(mechanism, (2.0, 1.0), PEOPLE, remember, "one value")
    lifetime = cell.lifetime
    attribute = Attribute("x", cell.domain, BUCKETS, (ServiceVersion("s", "", lifetime.window, lifetime),))
    rng = np.random.default_rng(9)
    inputs = inputs_of(cell, rng)
    truth = np.bincount(inputs.values, inputs.hours, 40) / inputs.hours.sum()
    window, chain = lifetime.window, lifetime.chain
    assert isinstance(window, CategoricalMechanism) and isinstance(chain, SupportChain)
    found = []
    for _ in range(RUNS):
        statistic = statistic_of(cell, attribute, inputs, rng)
        assert statistic.reports == HOURS * PEOPLE
        found.append(window.unbiased_frequencies(statistic.histograms[0], statistic.reports))
    noise = window.share_variances(truth, np.zeros(0, dtype=np.int64)) / (HOURS * PEOPLE)
    expected = noise * (chain.share_factors(truth, HOURS) if remember == "all" else 1.0)
    away = np.array(found) - truth
    # The means of 40 categories, each with a standard error of its own.
    assert np.abs(away.mean(axis=0) / np.sqrt(expected / RUNS)).max() < 4.5
    ratio = away[:, :8].var(axis=0) / expected[:8]
    assert abs(ratio.mean() - 1.0) < 4.0 * np.sqrt(2.0 / RUNS / 4.0)
