"""The simulated day of benchmarks/memoised has the mean and the variance of clients with one value."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.memoised import joined
from benchmarks.memoised.day import BUCKETS, HOURS, Cell, inputs_of, statistic_of, values_of
from ldpbeam.attributes import Attribute, ServiceVersion
from ldpbeam.mechanisms import CategoricalMechanism
from ldpbeam.over_time.joined_windows import JoinedSupports
from ldpbeam.over_time.memoised import SupportChain

RUNS, PEOPLE = 300, 500


@pytest.mark.parametrize("remember", ["all", "none"])
@pytest.mark.parametrize("mechanism", ["grr", "olh"])
def test_shares_of_a_day_vary_as_much_as_the_formula_says(mechanism: str, remember: str) -> None:
    """A variance of 300 runs has the standard error sqrt(2/300), and 8 of 40 shares are averaged."""
    cell = Cell(mechanism, (2.0, 1.0), PEOPLE, remember, "one value")
    lifetime = cell.lifetime
    attribute = Attribute("x", cell.domain, BUCKETS, (ServiceVersion("s", "", lifetime.window, lifetime),))
    rng = np.random.default_rng(9)
    inputs = inputs_of(cell, values_of(cell, rng))
    truth = np.bincount(inputs.values, inputs.hours, 40) / inputs.hours.sum()
    window, chain = lifetime.window, lifetime.chain
    assert isinstance(window, CategoricalMechanism) and isinstance(chain, SupportChain)
    found = []
    for _ in range(RUNS):
        statistic = statistic_of(cell, attribute, inputs, rng)
        assert statistic.reports == HOURS * PEOPLE
        found.append(window.unbiased_frequencies(statistic.histograms[0], statistic.reports))
    # So many reports of one window that counts are as expected.
    histogram = np.rint(1e12 * window.channel(40, 0).matvec(truth)).astype(np.int64)
    noise = window.share_variances(truth, histogram) / (HOURS * PEOPLE)
    expected = noise * (chain.share_factors(truth, HOURS) if remember == "all" else 1.0)
    away = np.array(found) - truth
    # The means of 40 categories, each with a standard error of its own.
    assert np.abs(away.mean(axis=0) / np.sqrt(expected / RUNS)).max() < 4.5
    ratio = away[:, :8].var(axis=0) / expected[:8]
    assert abs(ratio.mean() - 1.0) < 4.0 * np.sqrt(2.0 / RUNS / 4.0)


@pytest.mark.parametrize(("mechanism", "remember"), [("grr", "all"), ("oue", "half"), ("olh", "none")])
def test_what_users_of_a_joined_day_sent_adds_up_and_has_the_variance_of_its_shares(
    mechanism: str, remember: str
) -> None:
    """A population drawn in each run. 100 runs of 8 shares, and sqrt(2/100) for a variance."""
    cell = Cell(mechanism, (2.0, 1.0), 200, remember, "one value, 1 to 24 reports")
    lifetime, rng, found, claimed = cell.lifetime, np.random.default_rng(5), [], []
    attribute = Attribute("x", cell.domain, BUCKETS, (ServiceVersion("s", "", lifetime.window, lifetime),))
    window = lifetime.window
    assert isinstance(window, CategoricalMechanism) and window.support_probabilities is not None
    own, other = window.support_probabilities
    for _ in range(100):
        values = values_of(cell, rng)
        statistic = joined.statistic_of(attribute, joined.sent_by(cell, lifetime, values, rng))
        assert isinstance(statistic.joined, JoinedSupports)
        assert statistic.joined.reports == statistic.reports == values.hours.sum()
        n, apart = statistic.joined.reports, own - other
        shares, errors = (
            (statistic.joined.supports / n - other) / apart,
            np.sqrt(statistic.joined.variances) / (n * apart),
        )
        if mechanism != "olh":
            unbiased = window.unbiased_frequencies(statistic.histograms[0], statistic.reports)
            assert shares == pytest.approx(unbiased, abs=1e-12)
        found.append((shares - joined.population(cell))[:8])
        claimed.append(errors[:8] ** 2)
    variances = np.mean(claimed, axis=0)
    assert np.abs(np.mean(found, axis=0) / np.sqrt(variances / 100)).max() < 4.5
    assert abs((np.var(found, axis=0) / variances).mean() - 1.0) < 4.0 * np.sqrt(2.0 / 100 / 4.0)
