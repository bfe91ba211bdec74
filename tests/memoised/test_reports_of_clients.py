"""The reports of ldpbeam's own clients that remember their noise go through the channel that is read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.random import Generator
from numpy.typing import NDArray
from support.memoised_reports import FLEETS, Fleet

from ldpbeam.fit import fit_tests
from ldpbeam.fit.memory import memory
from ldpbeam.joined_windows import joined_supports
from ldpbeam.memoised import Memo
from ldpbeam.memoised.chains import uniform_part
from ldpbeam.schemas.reports.memos import memo_of

PEOPLE = 6_000


def memo(fleet: Fleet) -> Memo:
    return memo_of(fleet.study, fleet.study.attribute("x"), 0)


def keys_of(people: int, rng: Generator) -> list[bytes]:
    return [rng.bytes(16) for _ in range(people)]


def sent(fleet: Fleet, values: NDArray[Any], keys: list[bytes], rng: Generator) -> NDArray[Any]:
    """Reports of values of shape (people, windows), by one device per key; of the same shape."""
    own = memo(fleet)
    return np.stack([own.perturb(keys, column, rng) for column in values.T], axis=1)


def people(fleet: Fleet, rng: Generator) -> NDArray[Any]:
    if not fleet.size:
        return rng.beta(2.0, 5.0, PEOPLE)
    weights = 1.0 / np.arange(1, fleet.size + 1)
    return rng.choice(fleet.size, PEOPLE, p=weights / weights.sum())


@pytest.mark.parametrize("name", FLEETS)
def test_one_window_fits_its_channel_and_gives_unbiased_estimates(name: str) -> None:
    fleet, rng = FLEETS[name], np.random.default_rng(8)
    values = people(fleet, rng)
    payloads = sent(fleet, values[:, None], keys_of(PEOPLE, rng), rng)
    tally = fleet.tally(fleet.service, payloads)
    assert not tally.dead_letters
    (snapshot,) = tally.snapshots
    attribute = fleet.study.attribute("x")
    # Nine tests: a clean one is below 1e-3 in one of 111 seeds.
    assert all(test.p_value > 1e-3 for test in fit_tests(attribute, snapshot.statistic))
    mechanism: Any = attribute.versions[0].mechanism
    if fleet.size:
        shares = np.bincount(values, minlength=fleet.size) / PEOPLE
        p, q = mechanism.support_probabilities
        variance = (shares * p * (1 - p) + (1 - shares) * q * (1 - q)) / (p - q) ** 2
        # Collisions of a family of seeds add at most 1/31 (LocalHashing).
        errors = np.sqrt(variance * (1 + 1 / 31) / PEOPLE)
        (histogram,) = snapshot.statistic.histograms
        found = mechanism.unbiased_frequencies(histogram, PEOPLE)
        # 48 shares: one is 4.5 standard errors away in one of 3,000 seeds.
        assert (abs(found - shares) < 4.5 * errors).all()
        return
    buckets = memo(fleet).lifetime.memo_buckets
    middles = (np.floor(values * buckets) + 0.5) / buckets
    found = mechanism.unbiased(payloads[:, 0])
    error = np.sqrt(mechanism.variance(middles).mean() / PEOPLE)
    assert abs(found.mean() - middles.mean()) < 4.5 * error


@pytest.mark.parametrize("name", ["grr", "oue", "sue", "olh", "published grr", "published olh"])
def test_the_test_of_memory_sees_clients_that_remember_and_those_that_take_a_new_key(name: str) -> None:
    fleet, rng = FLEETS[name], np.random.default_rng(5)
    (of,) = fleet.study.attribute("x").versions
    shares = np.array([0.6, 0.3, 0.1, 0, 0, 0, 0, 0])
    values = np.repeat(rng.choice(8, (3_000, 1), p=shares), 12, axis=1)
    keys = keys_of(3_000, rng)
    remembered = sent(fleet, values, keys, rng)
    anew = np.stack([memo(fleet).perturb(keys_of(3_000, rng), column, rng) for column in values.T], axis=1)
    # Of 18 clean tests here, one is below 1e-4 in one of 550 seeds.
    for payloads, expected in ((remembered, []), (anew, ["remembered_noise"])):
        supported = of.mechanism.supported(payloads.ravel())  # type: ignore[attr-defined]
        found = memory(of, joined_supports(np.repeat(np.arange(3_000), 12), supported, 12))
        assert found is not None
        assert [kind for kind, p_value in found.p_values.items() if p_value < 1e-4] == expected


@pytest.mark.parametrize("name", ["stochastic_rounding", "square_wave", "piecewise"])
def test_windows_of_numbers_share_a_permanent_answer(name: str) -> None:
    fleet, rng = FLEETS[name], np.random.default_rng(6)
    values = np.repeat(people(fleet, rng)[:, None], 2, axis=1)
    first, second = sent(fleet, values, keys_of(PEOPLE, rng), rng).T
    life = memo(fleet).lifetime
    if name == "stochastic_rounding":
        kept = memo(fleet).steps.kept / 2**53
        # Both are kept, or one of them is any sign: half of those agree.
        expected = kept**2 + (1.0 - kept**2) / 2
    else:
        kept = 1.0 - uniform_part(life.half_width, 2.0, 1.0)
        expected = kept**2 + (1.0 - kept**2) / life.memo_buckets
    error = np.sqrt(expected * (1.0 - expected) / PEOPLE)
    assert abs((first == second).mean() - expected) < 4.0 * error
