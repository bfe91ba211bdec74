"""Both steps of a client that remembers its noise, by counting draws: epsilons, and the closed forms."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from support.covering import covering

from ldpbeam import Categories, Numeric, build_mechanism
from ldpbeam.mechanisms.numbers.grid import exponential
from ldpbeam.memoised import Lifetime, Steps, steps_of
from ldpbeam.memoised.steps import BitSteps, CellSteps, Inputs, SignSteps

#: Lifetime epsilons, and epsilons of a window.
PAIRS = [(2.0, 1.0), (4.0, 1.2), (4.0, 2.0), (1.0, 0.5), (1.001, 1.0), (10.0, 3.0), (0.3, 0.1), (20.0, 0.05)]
NUMBERS = ("stochastic_rounding", "square_wave", "piecewise")
NAMES = ("grr", "oue", "sue", "olh", *NUMBERS)
#: Mechanisms of numbers of a domain with a step, and how many values it has.
STEPPED = tuple(f"{name} of 7" for name in NUMBERS)
#: Exact integers, shape (answers, inputs).
Counts = NDArray[np.object_]


def lifetime_of(name: str, pair: tuple[float, float], size: int = 4, **more: Any) -> Lifetime:
    name, _, values = name.partition(" of ")
    domain = Numeric(0.0, 1.0) if name in NUMBERS else Categories(tuple(map(str, range(size))))
    buckets = more.pop("buckets", 16) if name in NUMBERS else 0
    published = more.pop("as_published", False)
    named = build_mechanism(name, domain, pair[1], **more)
    return Lifetime(named, pair[0], published, buckets, int(values or 0))


def places_of(inputs: Inputs) -> list[Fraction]:
    """Where the inputs lie in [0, 1]: values from end to end, or the middles of memo buckets."""
    if inputs.values:
        return [Fraction(j, inputs.values - 1) for j in range(inputs.values)]
    return [Fraction(2 * i + 1, 2 * inputs.buckets) for i in range(inputs.buckets)]


def evenly(draws: int, answers: int) -> list[int]:
    """How many of the first whole numbers leave each remainder."""
    return [draws // answers + (k < draws % answers) for k in range(answers)]


def permanent_counts(steps: Steps) -> Counts:
    """How many draws lead from each input to each answer; of bits, from "another" and "own" to 0 and 1."""
    if isinstance(steps, CellSteps):
        even = np.array(evenly(steps.draws - steps.excess, steps.answers), dtype=object)
        return even[:, None] + steps.excess * np.eye(steps.answers, dtype=int).astype(object)
    if isinstance(steps, BitSteps):
        up = np.array([steps.other, steps.own], dtype=object)
        return np.stack((steps.draws - up, up))
    if isinstance(steps, SignSteps):
        span = steps.draws - 2 * steps.fewest
        up = np.array([steps.fewest + math.floor(at * span) for at in places_of(steps.places)], dtype=object)
        return np.stack((steps.draws - up, up))
    ends = [-(-r * steps.size // steps.answers) for r in range(steps.answers + 1)]
    whole, rest = divmod(steps.draws - steps.width * steps.excess, steps.size)
    places = places_of(steps.inputs)
    counts = np.zeros((steps.answers, len(places)), dtype=object)
    for r, i in itertools.product(range(steps.answers), range(len(places))):
        low, high = ends[r], ends[r + 1]
        start = math.floor(steps.steps * places[i] + Fraction(1, 2))
        inside = max(0, min(high, start + steps.width) - max(low, start))
        counts[r, i] = whole * (high - low) + max(0, min(high, rest) - low) + steps.excess * inside
    return counts


def instant_counts(steps: Steps) -> Counts:
    """How many draws lead from each permanent answer to each instant one."""
    even = np.array(evenly(steps.draws - steps.kept, steps.answers), dtype=object)
    return even[:, None] + steps.kept * np.eye(steps.answers, dtype=int).astype(object)


def loss(counts: Counts, *, bits: bool) -> Fraction:
    """The largest ratio of the probabilities of one report for two inputs; infinite if one is zero."""
    assert min(counts.ravel()) > 0
    largest = max(Fraction(max(row), min(row)) for row in counts)
    if not bits:
        return largest
    # Reports of two categories differ in two bits: what one of them sets, the other one leaves.
    other, own = counts.T
    return max(Fraction(own[b] * other[c], other[b] * own[c]) for b, c in itertools.product((0, 1), repeat=2))


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("name", NAMES + STEPPED)
def test_epsilon_and_lifetime_epsilon_hold_by_exact_counts_and_are_reached(
    name: str, pair: tuple[float, float]
) -> None:
    lifetime = lifetime_of(name, pair)
    steps = steps_of(lifetime)
    permanent, bits = permanent_counts(steps), isinstance(steps, BitSteps)
    both = instant_counts(steps).dot(permanent)
    assert all(sum(column) == steps.draws for column in permanent.T)
    assert all(sum(column) == steps.draws**2 for column in both.T)
    for counts, epsilon in [(permanent, pair[0]), (both, pair[1])]:
        found = loss(counts, bits=bits)
        assert found <= exponential(epsilon)
        # A wave that is narrower than a report bucket, or a sign of a middle, spends less.
        if name not in NUMBERS + STEPPED:
            assert math.log(found) == pytest.approx(epsilon, rel=1e-6)


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("name", NAMES + STEPPED)
def test_both_steps_are_the_channel_of_one_window(name: str, pair: tuple[float, float]) -> None:
    """The excess is the product of both, and nothing else depends on the value: exactly the closed form."""
    lifetime = lifetime_of(name, pair)
    steps, window = steps_of(lifetime), lifetime.window
    permanent = permanent_counts(steps)
    both = instant_counts(steps).dot(permanent)
    apart = both - both[:, :1]
    assert (apart == steps.kept * (permanent - permanent[:, :1])).all()
    shares = (both / Fraction(steps.draws**2)).astype(float)
    if isinstance(steps, BitSteps):
        assert shares[1, ::-1] == pytest.approx(window.support_probabilities, rel=1e-9)  # type: ignore[attr-defined]
    elif isinstance(steps, CellSteps):
        growth = math.exp(pair[1])
        closed = (np.ones(shares.shape) + (growth - 1.0) * np.eye(len(shares))) / (growth + len(shares) - 1.0)
        assert shares == pytest.approx(closed, rel=1e-9)
    elif isinstance(steps, SignSteps):
        places = np.array([float(place) for place in places_of(steps.places)])
        assert shares == pytest.approx(window.at(places, 16), rel=1e-9)  # type: ignore[attr-defined]
    else:
        # The channel at the values, or at the middles of the memo buckets; the grid has steps of 2^-30.
        edges = np.linspace(-lifetime.half_width, 1.0 + lifetime.half_width, 17)
        middles = np.array([float(place) for place in places_of(steps.inputs)])
        inside, outside = window.densities  # type: ignore[attr-defined]
        ends = np.clip(edges[:, None], middles - lifetime.half_width, middles + lifetime.half_width)
        closed = outside * np.diff(edges)[:, None] + (inside - outside) * np.diff(ends, axis=0)
        assert shares == pytest.approx(closed, rel=2e-5)


@pytest.mark.parametrize("pair", [(2.0, 1.0), (4.0, 1.2)])
@pytest.mark.parametrize("name", NAMES + STEPPED)
def test_the_samplers_draw_these_counts(name: str, pair: tuple[float, float]) -> None:
    """Every draw of a source with few, in both steps."""
    steps = steps_of(lifetime_of(name, pair), draws=2**12, steps=64)
    every, many = np.arange(steps.draws), steps.draws_of_answer
    draws = np.repeat(every[:, None], many, axis=1)
    if isinstance(steps, BitSteps):
        # Every bit of every category: its own one, and all others.
        bits = [steps.permanent(np.full(len(every), own), draws).T for own in range(many)]
        for own, other in itertools.product(range(many), repeat=2):
            sent = np.bincount(bits[own][other], minlength=2)
            assert (sent == permanent_counts(steps)[:, int(own == other)]).all()
    else:
        inputs = len(permanent_counts(steps).T)
        sent = np.stack(
            [
                np.bincount(steps.permanent(np.full(len(every), i), draws)[:, 0], minlength=steps.answers)
                for i in range(inputs)
            ],
            axis=1,
        )
        assert (sent == permanent_counts(steps)).all()
    instants = [steps.instant(np.full((len(every), many), b), draws).T for b in range(steps.answers)]
    for of_draw in range(many):
        instant = [np.bincount(each[of_draw], minlength=steps.answers) for each in instants]
        assert (np.stack(instant, axis=1) == instant_counts(steps)).all()


@pytest.mark.parametrize("pair", PAIRS[:4])
@pytest.mark.parametrize("size", [2, 10, 100])
def test_published_constants_are_those_of_the_chain_that_is_read(
    pair: tuple[float, float], size: int
) -> None:
    lifetime = lifetime_of("grr", pair, size, as_published=True)
    steps = steps_of(lifetime)
    both = instant_counts(steps).dot(permanent_counts(steps))
    assert loss(both, bits=False) <= exponential(pair[1])
    assert float(Fraction(both[0, 0], steps.draws**2)) == pytest.approx(
        lifetime.window.support_probabilities[0],
        rel=1e-9,  # type: ignore[attr-defined]
    )


@pytest.mark.parametrize(
    ("name", "size", "pair"), covering(itertools.product(NAMES, [2, 3], [(2.0, 1.0), (1.0, 0.5)]))
)
def test_both_losses_of_a_user_are_at_most_what_explain_says(
    name: str, size: int, pair: tuple[float, float]
) -> None:
    """Every sequence of values and of reports of up to six windows; of ``olh``, of hash values."""
    more = {"hashes": size, "seeds": "any"} if name == "olh" else {"buckets": size} if name in NUMBERS else {}
    lifetime = lifetime_of(name, pair, size, **more)
    steps = steps_of(lifetime)
    first = (permanent_counts(steps) / Fraction(steps.draws)).astype(float)
    second = (instant_counts(steps) / Fraction(steps.draws)).astype(float)
    bits = isinstance(steps, BitSteps)
    instant = math.log(second.max() / second.min()) * (size if bits else 1)
    assert instant <= steps.loss * (1.0 + 1e-12)
    # Reports of bits are independent of each other given the values, so their losses add up.
    for windows in range(1, 7):
        values = np.array(list(itertools.product(range(size), repeat=windows)))
        parts = [(values == bit, values) for bit in range(size)] if bits else [(values, values)]
        logs = np.stack([_log_reports(*part, first, second) for part in parts])
        # Where the times of changes are known, a user had one of the sequences that change at these times.
        times: dict[tuple[int, ...], list[int]] = {}
        for index, row in enumerate(values.tolist()):
            times.setdefault(tuple(row.index(value) for value in row), []).append(index)
        for changes, own in times.items():
            told = min(windows * pair[1], len(set(changes)) * pair[0])
            assert _largest(logs[:, own]) <= told + 1e-9
        assert _largest(logs) <= windows * instant + 1e-9


@pytest.mark.parametrize(
    ("name", "pair", "draws"),
    covering(
        itertools.product(
            NAMES, [*PAIRS, (20.0, 19.0), (20.0, 1.0), (1.0 + 1e-13, 1.0)], [2**53, 2**30, 2**12]
        )
    ),
)
def test_the_loss_of_the_instant_step_is_never_below_the_exact_one(
    name: str, pair: tuple[float, float], draws: int
) -> None:
    """Every report against every two permanent answers, in rational numbers and 50 digits."""
    for size in (2, 3, 16, 100):
        more = {"hashes": size, "seeds": "any"} if name == "olh" else {"buckets": size}
        lifetime = lifetime_of(name, pair, size, **more if name in ("olh", *NUMBERS) else {})
        try:
            steps = steps_of(lifetime, draws=draws, steps=min(draws // 64, 2**30))
        except ValueError as error:
            assert "lifetime_epsilon is too near to epsilon" in str(error)
            assert draws < 2**53 or pair[0] - pair[1] < 1e-12
            continue
        counts = instant_counts(steps)
        assert counts.min() > 0
        largest = max(Fraction(max(row), min(row)) for row in counts)
        with localcontext() as context:
            context.prec = 50
            logarithm = (Decimal(largest.numerator) / largest.denominator).ln()
            exact = steps.draws_of_answer * logarithm
            assert exact <= Decimal(steps.loss) <= exact * (1 + Decimal("1e-14"))


def _largest(logs: Any) -> float:
    """The largest loss between two sequences of values; ``logs`` has shape (parts, values, reports)."""
    if len(logs) == 1:
        return float((logs[0].max(axis=0) - logs[0].min(axis=0)).max())
    # One sequence of values at a time: all pairs of them would take gigabytes.
    return max(float((logs[:, [k]] - logs).max(axis=2).sum(axis=0).max()) for k in range(logs.shape[1]))


def _log_reports(inputs: Any, values: Any, first: Any, second: Any) -> Any:
    """ln P(each sequence of reports | each sequence of values), shape (values, reports).

    Windows with one value share a permanent answer.

    Args:
        inputs: what the permanent step is given, in each window, shape (n, windows).
        values: whose permanent answers are shared, of the same shape.
        first, second: P(answer | input) of both steps, shape (answers, inputs) and (answers, answers).
    """
    reports = np.array(list(itertools.product(range(len(second)), repeat=values.shape[1])))
    rows = []
    for given, row in zip(inputs.astype(int), values, strict=True):
        found = np.ones(len(reports))
        for value in set(row.tolist()):
            own = np.flatnonzero(row == value)
            likely = np.stack([second[reports[:, own], b].prod(axis=1) for b in range(len(second))], axis=1)
            found *= likely @ first[:, given[own[0]]]
        rows.append(np.log(found))
    return np.array(rows)
