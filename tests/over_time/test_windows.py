"""One window of reports of clients that remember their noise, through the pipeline."""

from __future__ import annotations

import numpy as np
import pytest
from support.memoised_reports import FLEETS

from ldpbeam.answers.solve import answers
from ldpbeam.fit import fit_tests
from ldpbeam.schemas.study.yaml_file import parse_study

PEOPLE = 4_000


def values_of(size: int, rng: np.random.Generator) -> np.ndarray:
    if not size:
        return rng.beta(2.0, 5.0, (PEOPLE, 1))
    weights = 1.0 / np.arange(1, size + 1)
    return rng.choice(size, (PEOPLE, 1), p=weights / weights.sum())


@pytest.mark.parametrize("name", FLEETS)
def test_one_window_is_read_as_that_of_the_plain_mechanism_bit_for_bit(name: str) -> None:
    fleet, rng = FLEETS[name], np.random.default_rng(7)
    payloads = fleet.payloads(values_of(fleet.size, rng), rng)
    found = []
    for service in (fleet.service, fleet.plain):
        study = parse_study(fleet.text(service))
        tally = fleet.tally(service, payloads)
        assert not tally.dead_letters
        (snapshot,) = tally.snapshots
        (answer,) = answers(study, snapshot).values()
        tests = [test.p_value for test in fit_tests(study.attribute("x"), snapshot.statistic)]
        found.append((snapshot.statistic.histograms, answer, tests))
    (own, answer, tests), (plain, other, others) = found
    assert all(map(np.array_equal, own, plain)) and len(tests) == len(others) == 1
    if name in ("published grr", "published olh"):
        # The plain study has the epsilon of published constants to the last digit but one.
        assert answer.distribution == pytest.approx(other.distribution, abs=1e-9)
        assert tests == pytest.approx(others, rel=1e-6)
        return
    assert np.array_equal(answer.distribution, other.distribution)
    assert (answer.mean, answer.standard_error, answer.warnings) == (
        other.mean,
        other.standard_error,
        other.warnings,
    )
    # What is certain of quantiles allows for how far clients that remember their noise round values.
    for part, condition in (("mean", "certain"), ("variance", "if_smooth"), ("distribution", "if_smooth")):
        assert np.array_equal(answer.intervals.of(part, condition), other.intervals.of(part, condition))
    assert (answer.intervals.flags, answer.intervals.methods) == (
        other.intervals.flags,
        other.intervals.methods,
    )
    assert tests == others
