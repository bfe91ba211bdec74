"""Tests of fit for every mechanism: clean reports pass, and another epsilon is seen where it can be."""

from __future__ import annotations

import numpy as np
import pytest
from cases import CASES, Case, some_values

from ldpbeam import Attribute, ServiceVersion
from ldpbeam.domains import Numeric, Vector
from ldpbeam.fit import FitTest, fit_tests
from ldpbeam.fit.histograms import _pooled
from ldpbeam.mechanisms import (
    Hybrid,
    Laplace,
    Mechanism,
    NumericMechanism,
    SquareWave,
    StochasticRounding,
)
from ldpbeam.statistics import Answers, tally

USERS = 20_000
#: A vector is estimated one coordinate at a time, as numbers are.
WHOLE = [case for case in CASES if not isinstance(case.domain, Vector)]
#: Reports that are noisier than claimed fit values that are evenly spread.
TOO_NOISY_FITS = {
    "grr", "binned auto", "binned grr", "hierarchy 2 of 8 auto", "hierarchy 5 of 5 grr", "haar of 2",
    "haar of 16", "privkv", "privkv mostly key", "privkvm", "pckv_grr", "pckv_grr padded",
    "pckv_grr of long padding", "triangle", "subset_selection", "subset_selection of four", "matrix",
}  # fmt: skip
#: Reports with less noise than claimed fit some distribution unless some values are very frequent.
TOO_CLEAR_FITS = {
    "grr", "haar of 2", "block_hadamard of 50", "triangle", "subset_selection", "subset_selection of four",
    "matrix",
}  # fmt: skip


def fit_of(case: Case, sent: Mechanism, read: Mechanism) -> FitTest | None:
    """The test of reports of one mechanism, read as those of another; None if many are no such reports."""
    reports = sent.perturb(some_values(sent, USERS), np.random.default_rng(3))
    possible = reports.dtype == read.payload_dtype and read.is_report(reports).mean() > 0.99
    if not possible:
        return None
    buckets = read.granularity * -(-256 // read.granularity)
    attribute = Attribute("x", case.domain, buckets, (ServiceVersion("s", "", read),))
    reports = reports[read.is_report(reports)]
    answers = [Answers(0, np.arange(len(reports)), reports)]
    # Tests of tails follow.
    return next(fit_tests(attribute, tally(attribute, len(reports), answers)))


@pytest.mark.parametrize("case", WHOLE, ids=str)
def test_clean_reports_are_not_flagged(case: Case) -> None:
    found = fit_of(case, case.at(1.0), case.at(1.0))
    assert found is not None
    assert (found.test, found.services, found.reports) == ("reports", ("s",), USERS)
    # The least of fifty independent p-values is below this once in a hundred times, or less often.
    assert found.p_value > 0.01 / len(WHOLE)


@pytest.mark.parametrize("case", WHOLE, ids=str)
@pytest.mark.parametrize(("sent", "read"), [(1.0, 1.5), (1.5, 1.0)])
def test_another_epsilon_is_seen_where_it_can_be(case: Case, sent: float, read: float) -> None:
    found = fit_of(case, case.at(sent), case.at(read))
    hidden = TOO_NOISY_FITS if sent < read else TOO_CLEAR_FITS
    # Without a test, most reports are impossible, and become dead letters.
    assert (found is not None and found.p_value > 1e-6) == (str(case) in hidden)


@pytest.mark.parametrize(
    "case", [case for case in WHOLE if isinstance(case.at(1.0), NumericMechanism)], ids=str
)
@pytest.mark.parametrize(("buckets", "cells"), [(960, 240), (512, 256), (50, 50)])
def test_the_cell_of_a_bucket_is_the_cell_of_its_reports(case: Case, buckets: int, cells: int) -> None:
    mechanism = case.at(1.0)
    assert isinstance(mechanism, NumericMechanism)
    reports = mechanism.perturb(some_values(mechanism, 2000), np.random.default_rng(1))
    attribute = Attribute("x", case.domain, buckets, (ServiceVersion("s", "", mechanism),))
    pooled = _pooled(attribute, 0, 1024)[0][mechanism.bucketise(reports, buckets)]
    assert np.array_equal(pooled, mechanism.bucketise(reports, cells))


@pytest.mark.parametrize("buckets", [257, 514])
def test_signs_are_two_cells_whatever_the_number_of_buckets(buckets: int) -> None:
    attribute = Attribute(
        "x", Numeric(0.0, 1.0), buckets, (ServiceVersion("s", "", StochasticRounding(1.0)),)
    )
    cells, channel = _pooled(attribute, 0, 1024)
    assert cells.tolist() == [0, 1]
    assert len(channel.dense()) == 2


@pytest.mark.parametrize("buckets", [256, 257, 514, 1021])
@pytest.mark.parametrize("mechanism", [SquareWave(1.0), Hybrid(1.0), Laplace(1.0)], ids=lambda m: m.name)
def test_the_cells_of_any_number_of_buckets_have_the_probabilities_of_these(
    mechanism: NumericMechanism, buckets: int
) -> None:
    attribute = Attribute("x", Numeric(0.0, 1.0), buckets, (ServiceVersion("s", "", mechanism),))
    cells, channel = _pooled(attribute, 0, 1024)
    columns, whole = channel.dense(), mechanism.channel(1024, buckets).dense()
    assert 200 < len(columns) < 300
    expected = np.array([np.bincount(cells, column) for column in whole.T]).T
    np.testing.assert_allclose(columns[:, 1:-1], expected, atol=1e-12)
    # The first and the last are of the ends: a straight line goes there from the middle of the second bucket.
    ends = np.array([[1.5, -0.5], [1.5, -0.5]])
    linear = np.stack([expected[:, [0, 1]] @ ends[0], expected[:, [-1, -2]] @ ends[1]], axis=1)
    np.testing.assert_allclose(columns[:, [0, -1]], np.maximum(linear, 0.0), atol=2e-4)
    np.testing.assert_allclose(columns.sum(axis=0), 1.0)
