"""Made-up people: their values lie in the domain, and their shares and means are those that are stated."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ldpbeam.domains import Categories, KeyValuePairs, KeyValues, Numeric, Vector
from ldpbeam.trials import populations
from ldpbeam.trials.populations import drawn, gaussian_keys, linear_keys, names_for, people_of, power_law_keys

Floats = NDArray[np.float64]
DOMAINS = [
    Numeric(5.0, 9.0),
    Categories(("a", "b", "c")),
    KeyValues(("a", "b", "c"), Numeric(0.0, 1.0)),
    Vector(("a", "b"), Numeric(0.0, 1.0)),
]


@pytest.mark.parametrize("domain", DOMAINS, ids=lambda domain: type(domain).__name__)
def test_every_population_of_a_domain_lies_in_it(domain: Any) -> None:
    rng = np.random.default_rng(3)
    for name in names_for(domain):
        values = drawn(name, domain, 500, rng)
        if isinstance(values, KeyValuePairs):
            assert len(values) == 500
            values = values.values
        if isinstance(domain, Categories):
            # Of three categories a third is the first.
            assert set(values) == ({0} if name == "a_third" else {0, 1, 2})
        else:
            assert (values >= 0).all()
            assert (values <= 1).all()
        if isinstance(domain, Vector):
            assert values.shape == (500, 2)
    with pytest.raises(ValueError, match="no population is called 'other'"):
        drawn("other", domain, 5, rng)


def test_the_long_tail_is_one_over_the_rank() -> None:
    people = 60_000
    shares = (
        np.bincount(drawn("long_tail", Categories(("a", "b", "c")), people, np.random.default_rng(4)))
        / people
    )  # type: ignore[arg-type]
    expected = np.array([6, 3, 2]) / 11
    assert (np.abs(shares - expected) < 4 * np.sqrt(expected / people)).all()
    assert math.isclose(shares.sum(), 1.0)


@pytest.mark.parametrize(
    ("make", "table"),
    [
        (gaussian_keys, (0.49506, 0.10926, -0.00987, 0.43702)),
        (power_law_keys, (0.20660, 0.062901, -0.58681, 0.25160)),
        (linear_keys, (0.51, 0.08330, 0.0, 0.34694)),
    ],
)
def test_populations_have_the_moments_of_table_2(
    make: Callable[[int], tuple[Floats, Floats]], table: tuple[float, ...]
) -> None:
    frequencies, means = make(50)
    moments = (frequencies.mean(), frequencies.var(), means.mean(), means.var())
    # The table's last digit.
    np.testing.assert_allclose(moments, table, atol=1.1e-5)
    assert 0.0 < frequencies.min() <= frequencies.max() <= 1.0
    assert -1.0 <= means.min() <= means.max() <= 1.0


def test_people_are_drawn_in_blocks_and_in_one_block_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    frequencies, means = linear_keys(7)
    one = people_of(frequencies, means, 400, np.random.default_rng(2))
    has = np.random.default_rng(2).random((400, 7)) < frequencies
    np.testing.assert_array_equal(np.diff(one.starts), has.sum(axis=1))
    np.testing.assert_array_equal(one.keys, np.nonzero(has)[1])
    # A person may have more keys than a block.
    for at_once in (5, 7 * 3, 7 * 400):
        monkeypatch.setattr(populations, "KEYS_AT_ONCE", at_once)
        several = people_of(frequencies, means, 400, np.random.default_rng(2))
        # The generator gives the same numbers whatever the blocks.
        np.testing.assert_array_equal(several.starts, one.starts)
        np.testing.assert_array_equal(several.keys, one.keys)
        np.testing.assert_array_equal(several.values, one.values)


def test_people_have_keys_and_values_as_the_population_says() -> None:
    frequencies, means = np.array([0.0, 0.02, 0.5, 1.0]), np.array([0.3, -1.0, 0.6, -0.2])
    n = 50_000
    people = people_of(frequencies, means, n, np.random.default_rng(11))
    assert len(people) == n
    assert (np.diff(people.starts) == 1).sum() > 1000
    has = np.bincount(people.keys, minlength=4)
    assert has[0] == 0
    assert has[3] == n
    assert (np.abs(has / n - frequencies) <= 4 * np.sqrt(frequencies * (1 - frequencies) / n)).all()
    person = np.repeat(np.arange(n), np.diff(people.starts))
    assert (np.diff(person * 4 + people.keys) > 0).all()
    assert people.values.min() >= 0.0
    assert people.values.max() <= 1.0
    sums = np.bincount(people.keys, people.values, minlength=4)[1:] / has[1:]
    # A value is even over at most a width of one: a deviation of at most 0.29.
    assert (np.abs(2 * sums - 1 - means[1:]) <= 4 * 2 * 0.29 / np.sqrt(has[1:])).all()
