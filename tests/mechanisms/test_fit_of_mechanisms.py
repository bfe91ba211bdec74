"""Tests of fit for every mechanism: clean reports pass, and another epsilon is seen where it can be."""

from __future__ import annotations

import numpy as np
import pytest
from cases import CASES, Case, some_values

from ldpbeam import Attribute, ServiceVersion
from ldpbeam.domains import Vector
from ldpbeam.fit import FitTest, fit_tests
from ldpbeam.mechanisms import Mechanism
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
