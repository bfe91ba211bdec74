"""The grid of benchmarks: its populations and its fixed methods."""

import numpy as np
import pytest

from benchmarks.grid.methods import FIXED, MECHANISMS, OF_NUMBERS, Ours, asked
from benchmarks.grid.populations import CATEGORIES, NUMBERS, is_here
from ldpbeam.estimators import check


def shape(name):
    return name.partition(":")[0].split(" ")[0].split(",")[0]


@pytest.mark.parametrize("populations", [NUMBERS, CATEGORIES])
def test_each_shape_is_once_in_each_half_and_no_population_in_both(populations):
    halves = {
        half: [p.name for p in populations if p.half == half and not p.apart]
        for half in ("tuning", "reporting")
    }
    assert not set(halves["tuning"]) & set(halves["reporting"])
    assert sorted(map(shape, halves["tuning"])) == sorted(map(shape, halves["reporting"]))
    assert len({shape(name) for name in halves["tuning"]}) == 7
    files = {p.half: p.file for p in populations if p.file}
    assert len(set(files.values())) == 2


@pytest.mark.parametrize("population", NUMBERS + CATEGORIES, ids=lambda p: p.name)
def test_people_are_in_the_domain_and_drawn_by_the_seed(population):
    if not is_here(population):
        pytest.skip(f"{population.file} is not here")
    first, second = (population.draw(1_000, np.random.default_rng(3)) for _ in range(2))
    assert first.shape == (1_000,)
    assert np.array_equal(first, second)
    if population in NUMBERS:
        assert first.min() >= 0.0
        assert first.max() <= 1.0
    else:
        shares = population.shares()
        assert shares.sum() == pytest.approx(1.0, abs=1e-12)
        assert first.max() < len(shares)


def test_gaps_are_empty_and_spikes_are_there():
    rng = np.random.default_rng(1)
    drawn = {p.name: p.draw(20_000, rng) for p in NUMBERS if not p.file}
    values = drawn["gap: .40 to .60"]
    assert not ((values > 0.40) & (values < 0.60)).any()
    told = drawn["spiky: 50% round, of 1/10, 1/20, 1/40"] * 40
    # Half of the people, less than four standard errors of a binomial share.
    assert abs((np.abs(told - np.rint(told)) < 1e-9).mean() - 0.5) < 4 * 0.5 / np.sqrt(20_000)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_every_fixed_method_of_ours_fits_the_mechanism(mechanism):
    attribute = asked(mechanism, 1.0, 20)
    ours = [method for method in FIXED[mechanism] if isinstance(method, Ours)]
    for method in ours:
        check(method.estimator, attribute, attribute.services, method.options)
    names = [method.name for method in FIXED[mechanism]]
    assert len(set(names)) == len(names)
    assert not any(method.estimator == "auto" for method in ours)
    assert (attribute.value_buckets == 256) == (mechanism in OF_NUMBERS)
