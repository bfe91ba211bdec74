"""Every real-valued report has draws under every value, and at most exp(epsilon) times as many under any."""

from __future__ import annotations

import decimal
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from support.given_draws import OnePerCall

from ldpbeam.domains import Integers, KeyValuePairs
from ldpbeam.mechanisms.key_values.pckv_piecewise import PCKVPM, slot_draws, slot_wave
from ldpbeam.mechanisms.numbers.gaussian import Gaussian, NormalLattice, normal_lattice
from ldpbeam.mechanisms.numbers.general_wave import GeneralWave
from ldpbeam.mechanisms.numbers.grid import DRAWS, STEPS, Wave, places, wave
from ldpbeam.mechanisms.numbers.hybrid import Hybrid
from ldpbeam.mechanisms.numbers.laplace import CELLS, Laplace, noise_table, noisy_cells
from ldpbeam.mechanisms.numbers.piecewise import Piecewise
from ldpbeam.mechanisms.numbers.square_wave import SquareWave
from ldpbeam.mechanisms.numbers.stochastic_rounding import StochasticRounding

EPSILONS = (0.1, 1.0, 4.0, 8.0)
#: What a likelihood ratio may be above exp(epsilon), relatively.
SLACK = 1 + Fraction(1, 10**9)


def budget(epsilon: float) -> Fraction:
    """exp(epsilon) to eighty digits, with the slack."""
    return Fraction(decimal.Context(prec=80).exp(decimal.Decimal(epsilon))) * SLACK


def waves(epsilon: float) -> dict[str, Wave]:
    return {
        "SW": SquareWave(epsilon).wave, "PM": Piecewise(epsilon).wave, "GW": GeneralWave(epsilon).wave,
        "triangle": GeneralWave(epsilon, 0.0).wave, "narrow": GeneralWave(epsilon, 0.5, 1e-9).wave,
        "wide": GeneralWave(epsilon, 0.5, 10.0).wave,
    }  # fmt: skip


def small(shape: str, epsilon: float, steps: int, draws: int) -> Wave:
    """A mechanism's wave on a small grid, by the arithmetic of the large one."""
    if shape == "PM":
        return wave(epsilon, -math.expm1(-epsilon / 2), math.exp(-epsilon / 2), steps=steps, draws=draws)
    # As wide as a small grid can resolve, whatever epsilon is.
    top, half_width = {"SW": (1.0, None), "GW": (0.6, 0.25), "triangle": (0.0, 0.25)}[shape]
    mechanism = GeneralWave(epsilon, top, half_width)
    wide, sloped = mechanism.b * (1 + mechanism.top), mechanism.b * (1 - mechanism.top)
    return wave(epsilon, mechanism.share, wide, sloped, steps=steps, draws=draws)


def counted(sampler: Wave, value: int) -> Integers:
    """How many pairs of draws lead a value to each place, by going through them all."""
    first = np.arange(sampler.draws)
    if sampler.slope == 1:
        found = sampler.sample(np.full(len(first), value), first)
        return np.bincount(found, minlength=sampler.size) * sampler.draws
    pairs = np.repeat(first, len(first)), np.tile(first, len(first))
    return np.bincount(sampler.sample(np.full(len(pairs[0]), value), *pairs), minlength=sampler.size)


def expected(sampler: Wave, value: int) -> Integers:
    """The same, by what the sampler says of itself."""
    counts = np.zeros(sampler.size, dtype=np.int64)
    in_wave = sampler.width * sampler.excess
    counts += np.bincount(np.arange(sampler.draws - in_wave) % sampler.size, minlength=sampler.size)
    counts *= sampler.draws
    share, left_over = divmod(sampler.draws, sampler.slope)
    sums = np.convolve(np.ones(sampler.width, dtype=np.int64), np.ones(sampler.slope, dtype=np.int64))
    counts[value : value + len(sums)] += sums * sampler.excess * share
    counts[np.arange(left_over) % sampler.size] += in_wave
    return counts


def worst(counts: Any) -> Fraction:
    """The largest likelihood ratio of any report between two values, rows being values."""
    most, least = np.max(counts, axis=0), np.min(counts, axis=0)
    assert (least > 0).all(), "some report comes from one value and not from another"
    return max(Fraction(int(top), int(bottom)) for top, bottom in zip(most, least, strict=True))


@pytest.mark.parametrize("epsilon", [0.1, 8.0])
@pytest.mark.parametrize("shape", ["SW", "PM", "GW", "triangle"])
def test_a_wave_on_a_small_grid_is_within_its_budget_at_every_place(shape: str, epsilon: float) -> None:
    steps, draws = (64, 2**16) if shape in ("SW", "PM") else (16, 2**10)
    sampler = small(shape, epsilon, steps, draws)
    assert (sampler.slope > 1) == (shape in ("GW", "triangle"))
    table = [counted(sampler, value) for value in (0, 1, steps // 2, steps - 1, steps)]
    assert {int(row.sum()) for row in table} == {draws**2}
    for value, row in zip((0, 1, steps // 2, steps - 1, steps), table, strict=True):
        np.testing.assert_array_equal(row, expected(sampler, value))
    assert worst([expected(sampler, value) for value in range(steps + 1)]) <= budget(epsilon)


@pytest.mark.parametrize("epsilon", [1.1e-6, 0.01, *EPSILONS, 20.0])
def test_a_wave_on_the_real_grid_is_within_its_budget_at_every_place(epsilon: float) -> None:
    for shape, sampler in waves(epsilon).items():
        assert sampler.draws == DRAWS
        # By ``expected``: without a wave a place has ``even`` * DRAWS pairs of draws at least, in one at most
        # so many more; what is left over only adds to both.
        more = min(sampler.width, sampler.slope) * sampler.excess * (DRAWS // sampler.slope)
        assert sampler.even >= 1, shape
        assert 1 + Fraction(more, sampler.even * DRAWS) <= budget(epsilon), shape


@pytest.mark.parametrize("epsilon", [0.01, *EPSILONS, 20.0])
def test_a_wave_has_the_share_that_its_channel_says(epsilon: float) -> None:
    shares = {
        "SW": GeneralWave(epsilon, 1.0).share,
        "PM": -math.expm1(-epsilon / 2),
        "GW": GeneralWave(epsilon).share,
        "triangle": GeneralWave(epsilon, 0.0).share,
    }
    for shape, share in shares.items():
        sampler = waves(epsilon)[shape]
        # A place has whole draws, so a wave is off by less than one draw a place: 2^-22 for twice 2^30.
        assert sampler.width * sampler.excess / DRAWS == pytest.approx(share, rel=0, abs=2.0**-22), shape


@pytest.mark.parametrize(("shape", "epsilon"), [("SW", 8.0), ("PM", 1.0), ("GW", 0.1), ("wide", 20.0)])
def test_the_sampler_on_the_real_grid_is_that_of_whole_numbers_of_any_size(
    shape: str, epsilon: float
) -> None:
    sampler = waves(epsilon)[shape]
    wave_end, share = sampler.width * sampler.excess, DRAWS // sampler.slope
    firsts = [0, sampler.excess - 1, sampler.excess, wave_end - 1, wave_end, wave_end + 1]
    firsts += [wave_end + sampler.size - 1, wave_end + sampler.size, DRAWS - 1, DRAWS // 3]
    seconds = {0, share - 1, min(share, DRAWS - 1), share * sampler.slope - 1, DRAWS - 1}
    for value in (0, 1, STEPS // 2, STEPS - 1, STEPS):
        for first in firsts:
            for second in seconds:
                if first >= wave_end:
                    place = (first - wave_end) % sampler.size
                elif second < share * sampler.slope:
                    place = value + first // sampler.excess + second // share
                else:
                    place = second - share * sampler.slope
                (found,) = sampler.sample(np.array([value]), np.array([first]), np.array([second]))
                assert found == place
                assert 0 <= place < sampler.size


@pytest.mark.parametrize("epsilon", [1.1e-6, *EPSILONS, 20.0])
def test_rounding_is_within_its_budget_at_every_value(epsilon: float) -> None:
    mechanism = StochasticRounding(epsilon)
    x = np.array([0, 1, 2, STEPS // 3, STEPS // 2, STEPS - 1, STEPS])
    up = mechanism.draws_up(x)
    assert worst([up, DRAWS - up]) >= 1
    assert Fraction(int(up.max()), int(up.min())) <= budget(epsilon)
    assert Fraction(DRAWS - int(up.min()), DRAWS - int(up.max())) <= budget(epsilon)
    exact = 0.5 + (2 * x / STEPS - 1) / (2 * mechanism.bound)
    np.testing.assert_allclose(up / DRAWS, exact, rtol=0, atol=1e-15)
    every = mechanism.draws_up(np.arange(65), 64, 2**16)
    if epsilon in EPSILONS:
        assert (np.diff(every) >= 0).all()
        assert worst(np.column_stack((every, 2**16 - every))) <= budget(epsilon)


def test_hybrid_is_a_mixture_whatever_the_value_is() -> None:
    # Each of its two keeps to epsilon, and the first draw alone says which of them it is.
    x = np.array([0.0, 1e-12, 0.3, 1.0])
    for epsilon, first, who in ((1.0, 0.39, "PM"), (1.0, 0.4, "SR"), (0.5, 0.0, "SR")):
        for second in (0.0, 0.1, 0.7, 1 - 2.0**-53):
            own: Any = Piecewise(epsilon) if who == "PM" else StochasticRounding(epsilon)
            found = Hybrid(epsilon).perturb(x, OnePerCall(first, second))
            np.testing.assert_array_equal(found, own.perturb(x, OnePerCall(second)))


# Laplace


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_laplace_on_few_cells_is_within_its_budget_in_every_cell_and_beyond(epsilon: float) -> None:
    cells, draws = 32, 2**18
    table = noise_table(epsilon, cells, draws)
    found = [noisy_cells(np.full(draws, value), np.arange(draws), table, draws) for value in range(cells + 1)]
    # What is beyond an end counts together: how far beyond, the value has no part in.
    counts = [np.bincount(np.clip(row, -1, cells) + 1, minlength=cells + 2) for row in found]
    assert worst(counts) <= budget(epsilon)


@pytest.mark.parametrize("epsilon", [1.1e-6, *EPSILONS, 20.0])
def test_laplace_is_within_its_budget_in_every_cell_and_beyond(epsilon: float) -> None:
    table = Laplace(epsilon).noise
    counts = np.diff(table, prepend=0)
    assert counts.min() > 0
    assert Fraction(int(counts.max()), int(counts.min())) <= budget(epsilon)
    # Beyond an end: from that end itself half of all draws, from the other end what passes all cells.
    assert Fraction(DRAWS // 2, DRAWS // 2 - int(table[-1])) <= budget(epsilon)
    # And it is Laplace's distribution, to the rounding of 2^16 counts.
    ideal = -np.expm1(-epsilon * np.arange(1, CELLS + 1) / CELLS) / 2
    np.testing.assert_allclose(table / DRAWS, ideal, rtol=0, atol=2.0**-36)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_what_a_laplace_report_says_beside_its_cell_is_the_same_for_every_value(epsilon: float) -> None:
    mechanism, x = Laplace(epsilon), np.array([0.0, 1e-300, 1e-9, 0.3, 0.5, 1 - 1e-16, 1.0])
    for third in (0.0, 0.25, 1 - 2.0**-28, 1 - 2.0**-34, 1 - 2.0**-53):
        for first, sign in ((0.5 - 2.0**-53, -1), (1 - 2.0**-53, 1)):
            far = mechanism.perturb(x, OnePerCall(first, 0.5, third))
            assert len(set(far.tolist())) == 1
            assert sign * far[0] > 1
            assert mechanism.is_report(far).all()
    # From a place between cells on, one draw decides the cell and the next where in the cell it is.
    inside = mechanism.perturb(np.array([0.25, 0.5]), OnePerCall(0.5, 0.5, 0.75))
    np.testing.assert_array_equal(inside, (np.array([0.25, 0.5]) * CELLS + 0.75 + 2.0**-15) * 2 / CELLS - 1)


# Gaussian


def counts_of(lattice: NormalLattice, value: int) -> list[int]:
    """How many draws lead a value to each point, without those that are left over."""
    counts = [int(count) for count in np.diff(lattice.table, prepend=0)]
    low, high = lattice.ends
    first = value - lattice.reach
    kept = counts[low - first : high - first + 1]
    kept[0] += sum(counts[: low - first])
    kept[-1] += sum(counts[high - first + 1 :])
    return kept


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.01, 1e-15), (0.1, 1e-6), (1.0, 1e-12), (4.0, 1e-15), (8.0, 0.1), (20.0, 1e-6)]
)
def test_gaussian_is_within_its_delta_and_comes_to_every_point(epsilon: float, delta: float) -> None:
    lattice = Gaussian(epsilon, delta).lattice
    low, high = lattice.ends
    # What is left over has this many draws at least for every point, under every value.
    alike = (lattice.draws - int(lattice.table[-1])) // (high - low + 1)
    assert alike >= 1
    most, exceeded = budget(epsilon) / SLACK, Fraction(delta) * lattice.draws
    steps = lattice.steps
    for one, other in ((0, steps), (steps, 0), (0, 1), (0, steps // 2), (steps // 3, steps)):
        pairs = zip(counts_of(lattice, one), counts_of(lattice, other), strict=True)
        numerator, denominator = most.numerator, most.denominator
        over = sum(max(0, (a + alike) * denominator - (b + alike) * numerator) for a, b in pairs)
        assert Fraction(over, denominator) <= exceeded


def test_gaussian_on_a_small_lattice_has_the_counts_of_its_table() -> None:
    lattice = normal_lattice(3.0, 1.0, 2**14, fineness=8)
    low, high = lattice.ends
    every = np.arange(lattice.draws)
    left_over = lattice.draws - int(lattice.table[-1])
    rest = np.bincount(np.arange(left_over) % (high - low + 1), minlength=high - low + 1)
    for value in range(lattice.steps + 1):
        found = lattice.sample(np.full(len(every), value), every)
        counts = np.bincount(found - low, minlength=high - low + 1)
        assert counts.min() > 0
        np.testing.assert_array_equal(counts, counts_of(lattice, value) + rest)


# Slots


def slot_ratios(sampler: Wave, epsilon: float) -> Fraction:
    """The largest ratio of any report's probabilities between two people, of whatever keys and values."""
    own, other = slot_draws(sampler, epsilon)
    draws = sampler.draws
    even, base = draws // sampler.size, sampler.even
    # Of a place, the drawn key's draws over another slot's, at most and at least.
    likelier = Fraction(base + 1 + sampler.excess, even) * Fraction(own, other)
    rarer = Fraction(base, even + 1) * Fraction(own, other)
    absent = Fraction(draws - own, draws - other)
    most, least = max(likelier, absent), min(rarer, absent)
    # Two values of one key; two keys; a key and a dummy, which has no slot.
    one_key = Fraction(base + sampler.excess, base)
    return max(one_key, most / least, most, 1 / least)


@pytest.mark.parametrize("epsilon", [0.01, *EPSILONS, 20.0])
def test_slots_with_values_are_within_their_budget(epsilon: float) -> None:
    mechanism = PCKVPM(epsilon, 3)
    assert slot_ratios(mechanism.wave, epsilon) <= budget(epsilon)
    # And that costs next to nothing of what the channel says.
    s = math.exp(epsilon / 2)
    assert mechanism.draws_present[1] / DRAWS == pytest.approx(1 / (s + 1), rel=1e-5)
    assert mechanism.wave.width * mechanism.wave.excess / DRAWS == pytest.approx(1 - 1 / s, abs=2.0**-21)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
def test_slots_on_a_small_grid_are_within_their_budget_by_counting(epsilon: float) -> None:
    draws = 2**18
    plain = wave(epsilon, -math.expm1(-epsilon / 2), math.exp(-epsilon / 2), steps=16, draws=draws)
    sampler = slot_wave(plain, epsilon)
    own, other = slot_draws(sampler, epsilon)
    even = np.bincount(np.arange(draws) % sampler.size, minlength=sampler.size)
    values = [counted(sampler, value) // draws for value in range(17)]
    # A slot: absent, or one of the places; exact probabilities are these counts over draws^2.
    mine = np.array([[(draws - own) * draws, *(own * row)] for row in values], dtype=object)
    theirs = np.array([(draws - other) * draws, *(other * even)], dtype=object)
    ratios = [[Fraction(int(a), int(b)) for a, b in zip(row, theirs, strict=True)] for row in mine]
    one_key = worst(mine)
    two_keys = max(map(max, ratios)) / min(map(min, ratios))
    dummy = max(max(map(max, ratios)), 1 / min(map(min, ratios)))
    assert max(one_key, two_keys, dummy) <= budget(epsilon)
    assert max(one_key, two_keys, dummy) <= slot_ratios(sampler, epsilon)


def test_slots_hold_piecewise_reports_of_the_grid_and_nothing_finer() -> None:
    people = 50_000
    pairs = KeyValuePairs(np.arange(people + 1), np.zeros(people, dtype=np.int64), np.full(people, 0.3))
    mechanism = PCKVPM(1.0, 2)
    reports = mechanism.perturb(pairs, np.random.default_rng(7)).view(mechanism.layout)
    step = (mechanism.piecewise.bound + 1) / 2**30
    values = reports["values"][reports["values"] != 0]
    # Places are whole or half steps from zero, as their number is odd or even.
    nearest = np.rint(values.astype(np.float64) / (step / 2)) * (step / 2)
    np.testing.assert_array_equal(nearest.astype(np.float32), values)


# What is common to all


def test_a_value_is_put_on_the_nearest_place() -> None:
    np.testing.assert_array_equal(places([0.0, 0.3, 0.5, 1.0], 10), [0, 3, 5, 10])
    assert places([2.0**-31], STEPS) == 1
    assert places([2.0**-31 * 0.99], STEPS) == 0
