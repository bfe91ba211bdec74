"""Every mechanism with its options, the people who report through it, and how likely each report is."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st
from scipy.linalg import block_diag
from support.forced_responses import forced_responses

from ldpbeam.domains import Categories, Domain, Floats, KeyValuePairs, KeyValues, Numeric, Vector
from ldpbeam.mechanisms import (
    PCKVPM,
    CategoricalMechanism,
    KeyValueMechanism,
    LocalHashing,
    Mechanism,
    PrivKV,
    SampledCoordinate,
    build_mechanism,
)
from ldpbeam.mechanisms.key_values.pckv import PaddedKeyValueMechanism

RANGE = Numeric(-3.0, 7.0)
#: Where nothing is special: no constant is near a limit of its arithmetic.
MODERATE = (0.01, 0.5, 1.0, 5.0)
EXTREME = (1.1e-6, 1e-5, 10.0, 20.0)


def categories(size: int) -> Categories:
    return Categories(tuple(f"c{i}" for i in range(size)))


def keys(size: int) -> KeyValues:
    return KeyValues(tuple(f"k{i}" for i in range(size)), RANGE)


@dataclass(frozen=True)
class Case:
    """A mechanism with its options, at any epsilon.

    Attributes:
        label: what the case is called in the name of a test.
        name: the registered mechanism.
        domain: what it reports about.
        options: as a study file gives them.
        variants: other domains and options, for the laws that hold for all of them.
        largest: the largest epsilon whose reports can be counted, or whose matrix is not too large.
        spends: whether some report is exp(epsilon) times likelier under one value than under another.
    """

    label: str
    name: str
    domain: Domain
    options: Mapping[str, Any] = field(default_factory=dict)
    variants: st.SearchStrategy[tuple[Domain, dict[str, Any]]] | None = None
    largest: float = 20.0
    spends: bool = True

    def __str__(self) -> str:
        return self.label

    def at(self, epsilon: float) -> Mechanism:
        """The mechanism at an epsilon."""
        return built(self.name, self.domain, epsilon, self.options)

    def epsilons(self, *chosen: float) -> list[float]:
        """Those of some epsilons that are not too large for the case."""
        return [epsilon for epsilon in chosen if epsilon <= self.largest]


def built(name: str, domain: Domain, epsilon: float, options: Mapping[str, Any]) -> Mechanism:
    """A mechanism at any epsilon; a table has its own, so that one of the epsilon is made."""
    if name == "matrix":
        options = forced_responses(domain.size, epsilon)
    return build_mechanism(name, domain, epsilon, **options)


def _sizes(most: int, **options: Any) -> st.SearchStrategy[tuple[Domain, dict[str, Any]]]:
    return st.integers(2, most).map(lambda size: (categories(size), dict(options)))


def _keys(most: int, **options: Any) -> st.SearchStrategy[tuple[Domain, dict[str, Any]]]:
    return st.integers(2, most).map(lambda size: (keys(size), dict(options)))


def _options(**drawn: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Domain, dict[str, Any]]]:
    return st.fixed_dictionaries(drawn).map(lambda options: (RANGE, options))


def _trees(oracle: str) -> st.SearchStrategy[tuple[Domain, dict[str, Any]]]:
    shapes = st.sampled_from([(2, 2), (2, 16), (3, 9), (4, 16), (5, 25), (7, 7)])
    return shapes.map(lambda shape: (RANGE, {"branching": shape[0], "leaves": shape[1], "oracle": oracle}))


def _numbers() -> list[Case]:
    waves = _options(top=st.floats(0.0, 1.0), half_width=st.none() | st.floats(0.01, 3.0))
    plain = ("square_wave", "piecewise", "laplace", "stochastic_rounding", "hybrid", "gaussian")
    return [
        *(Case(name, name, RANGE) for name in plain),
        Case("general_wave", "general_wave", RANGE, variants=waves),
        Case("triangle", "general_wave", RANGE, {"top": 0.0, "half_width": 0.4}),
        Case("trapezoid", "general_wave", RANGE, {"top": 0.6}),
    ]


def _ranges() -> list[Case]:
    def binned(oracle: str, largest: float = 20.0) -> Case:
        options = {"bins": 6, "oracle": oracle}
        variants = _options(bins=st.integers(2, 12), oracle=st.just(oracle))
        return Case(f"binned {oracle}", "binned", RANGE, options, variants, largest)

    def tree(branching: int, leaves: int, oracle: str, largest: float = 20.0) -> Case:
        options = {"branching": branching, "leaves": leaves, "oracle": oracle}
        label = f"hierarchy {branching} of {leaves} {oracle}"
        return Case(label, "hierarchy", RANGE, options, _trees(oracle), largest)

    powers = st.integers(1, 6).map(lambda levels: (RANGE, {"leaves": 2**levels}))
    return [
        *(binned(oracle) for oracle in ("auto", "grr", "hadamard", "block_hadamard", "oue", "sue")),
        binned("subset_selection"),
        binned("olh", largest=3.0),
        tree(2, 8, "auto"),
        tree(3, 27, "auto", largest=5.0),
        tree(3, 27, "hadamard"),
        tree(2, 8, "olh", largest=3.0),
        tree(5, 5, "grr"),
        Case("haar of 2", "haar", RANGE, {"leaves": 2}),
        Case("haar of 16", "haar", RANGE, {"leaves": 16}, powers),
        Case("discrete_square_wave", "discrete_square_wave", RANGE, {"bins": 12},
             _options(bins=st.integers(2, 80))),
    ]  # fmt: skip


def _categories() -> list[Case]:
    return [
        Case("grr", "grr", categories(6), variants=_sizes(40)),
        Case("hadamard", "hadamard", categories(6), variants=_sizes(40)),
        Case("block_hadamard", "block_hadamard", categories(6), variants=_sizes(40)),
        Case("block_hadamard of 50", "block_hadamard", categories(50)),
        Case("block_hadamard of one block", "block_hadamard", categories(6), {"most_blocks": 1}),
        Case("oue", "oue", categories(9), variants=_sizes(10)),
        Case("oue with bits of its own", "oue", categories(9), {"own": 0.65}),
        Case("sue", "sue", categories(9), variants=_sizes(10)),
        Case("subset_selection", "subset_selection", categories(9), variants=_sizes(10)),
        Case("subset_selection of four", "subset_selection", categories(9), {"subset": 4}),
        Case("olh", "olh", categories(5), {"seeds": 16}, _sizes(10, seeds=64), largest=6.0),
        Case("olh of text", "olh", categories(12), {"seeds": 32, "hashed": "text"}, largest=5.0),
        Case("matrix", "matrix", categories(4), variants=_sizes(10)),
        Case("olh any", "olh", categories(9), {"seeds": "any"}),
    ]


def _key_values() -> list[Case]:
    found = [
        Case("privkv", "privkv", keys(3), variants=_keys(3), spends=False),
        Case("privkv mostly key", "privkv", keys(3), {"key_share": 0.75}, spends=False),
        Case("privkvm", "privkvm", keys(3), variants=_keys(3), spends=False),
    ]
    for name in ("pckv_grr", "pckv_ue", "pckv_pm"):
        most = 2 if name == "pckv_pm" else 3
        padded = _keys(most, padding=2) | _keys(most, padding=4)
        found += [
            Case(name, name, keys(3), variants=_keys(most)),
            Case(f"{name} padded", name, keys(3), {"padding": 2}, padded),
        ]
    found.append(Case("pckv_grr of long padding", "pckv_grr", keys(3), {"padding": 4}))
    return found


def _vectors() -> list[Case]:
    vector = Vector(("a", "b", "c"), RANGE)
    return [Case(f"{name} of a vector", name, vector) for name in ("piecewise", "stochastic_rounding")]


CASES: tuple[Case, ...] = (*_numbers(), *_ranges(), *_categories(), *_key_values(), *_vectors())


def has_whole_reports(mechanism: Mechanism) -> bool:
    """Whether there is a cell for each whole report; pairs of any seed and a hash are too many."""
    return not (isinstance(mechanism, LocalHashing) and mechanism.seeds == "any")


def counted(mechanism: Mechanism) -> int:
    """How many counts one report adds to a histogram."""
    if not mechanism.composite:
        return 1
    if isinstance(mechanism, CategoricalMechanism | KeyValueMechanism):
        return mechanism.size
    return mechanism.granularity


def value_buckets(mechanism: Mechanism) -> int:
    """A few value buckets, as many as the mechanism can tell apart or more."""
    if isinstance(mechanism, CategoricalMechanism):
        return mechanism.size
    if isinstance(mechanism, KeyValueMechanism):
        return 5
    return 6 if mechanism.granularity == 1 else 2 * mechanism.granularity


def whole_reports(mechanism: Mechanism, buckets: int, resolution: int) -> Floats:
    """P(cell of a whole report | column); the columns of a vector are coordinate by coordinate."""
    if isinstance(mechanism, SampledCoordinate):
        inner = mechanism.inner.channel(buckets, resolution).dense()
        return block_diag(*[inner / mechanism.size] * mechanism.size)
    return mechanism.channel(buckets, resolution).dense()


# People


#: A person of a key-value study: the value on [0, 1] of each key that the person has.
Person = Mapping[int, float]


def pairs_of(people: Sequence[Person]) -> KeyValuePairs:
    """The pairs of people, as columns."""
    starts = np.cumsum([0, *(len(person) for person in people)])
    owned = np.array([key for person in people for key in sorted(person)], dtype=np.int64)
    values = np.array([person[key] for person in people for key in sorted(person)], dtype=float)
    return KeyValuePairs(starts, owned, values)


def columns_of(mechanism: KeyValueMechanism, person: Person, buckets: int, fakes: float = 0.5) -> Floats:
    """The distribution over the channel's columns that a person is, written from the papers."""
    d = mechanism.size
    if not isinstance(mechanism, PaddedKeyValueMechanism):
        weights = np.zeros((d, 4))
        for key in range(d):
            x, missing = (person[key], 0) if key in person else (fakes, 2)
            weights[key, missing], weights[key, missing + 1] = x / d, (1 - x) / d
        if not isinstance(mechanism, PrivKV):
            weights = np.column_stack((weights[:, :2], weights[:, 2:].sum(axis=1)))
        return weights.ravel()
    columns = buckets if isinstance(mechanism, PCKVPM) else 2
    pairs = np.zeros((d, columns))
    drawn = 1 / max(len(person), mechanism.padding)
    for key, x in person.items():
        if isinstance(mechanism, PCKVPM):
            pairs[key, min(int(x * columns), columns - 1)] = drawn
        else:
            pairs[key] = drawn * x, drawn * (1 - x)
    return np.append(pairs.ravel(), 1 - pairs.sum())


def everyone(size: int, values: Sequence[float]) -> list[Person]:
    """Every way to have each of the keys or not, with each of the values."""
    choices = itertools.product((None, *values), repeat=size)
    return [{key: x for key, x in enumerate(choice) if x is not None} for choice in choices]


PEOPLE: tuple[Person, ...] = ({}, {1: 0.3}, {0: 1.0, 2: 0.1}, {0: 0.9, 1: 0.4, 2: 0.6})


def populations(mechanism: Mechanism, people: int) -> list[tuple[Any, Floats]]:
    """Groups of so many people who are alike: their values, and their distribution over the columns.

    A channel takes a value to be uniform in its value bucket, so values are.
    """
    buckets = value_buckets(mechanism)
    rng = np.random.default_rng(1)
    if isinstance(mechanism, KeyValueMechanism):
        found = []
        for person in PEOPLE:
            one = pairs_of([person])
            starts = len(person) * np.arange(people + 1)
            pairs = KeyValuePairs(starts, np.tile(one.keys, people), np.tile(one.values, people))
            if isinstance(mechanism, PCKVPM):
                first = np.minimum(np.floor(pairs.values * buckets), buckets - 1)
                inside = (first + rng.random(len(first))) / buckets
                pairs = KeyValuePairs(pairs.starts, pairs.keys, inside)
            found.append((pairs, columns_of(mechanism, person, buckets)))
        return found
    columns = np.eye(buckets)
    if isinstance(mechanism, CategoricalMechanism):
        return [(np.full(people, category), columns[category]) for category in (0, buckets // 2, buckets - 1)]
    if isinstance(mechanism, SampledCoordinate):
        own = np.array([0, 2, buckets - 1])
        return [((own + rng.random((people, 3))) / buckets, columns[own].ravel())]
    chosen = (0, buckets // 2, buckets - 1)
    return [((bucket + rng.random(people)) / buckets, columns[bucket]) for bucket in chosen]


def some_values(mechanism: Mechanism, people: int) -> Any:
    """Values of all kinds in turn: the ends, the middle, people without a pair."""
    if isinstance(mechanism, KeyValueMechanism):
        kinds: list[Person] = [{}, {0: 0.0, 1: 1.0}, {1: 0.5}, {0: 1.0}]
        return pairs_of((kinds * people)[:people])
    if isinstance(mechanism, CategoricalMechanism):
        return np.arange(people) % mechanism.size
    values = np.resize([0.0, 0.25, 1.0, 0.6], people)
    if isinstance(mechanism, SampledCoordinate):
        return np.column_stack([np.roll(values, shift) for shift in range(mechanism.size)])
    return values


def likelihoods(mechanism: Mechanism, buckets: int, resolution: int, fakes: float = 0.5) -> Floats:
    """P(cell of a whole report | person), shape (cells, people), over people who differ as much as can be.

    Args:
        mechanism: whose reports they are.
        buckets: value buckets.
        resolution: report buckets.
        fakes: the mean of the values that people without a key report, of PrivKV.
    """
    matrix = whole_reports(mechanism, buckets, resolution)
    if isinstance(mechanism, SampledCoordinate):
        return np.asarray(matrix @ np.tile(np.eye(buckets), (mechanism.size, 1)))
    if isinstance(mechanism, KeyValueMechanism):
        people = everyone(mechanism.size, (0.0, 0.5, 1.0))
        return matrix @ np.column_stack([columns_of(mechanism, person, buckets, fakes) for person in people])
    return matrix


def largest_ratio(chances: Floats) -> float:
    """The largest ratio of a report's chances between any two people."""
    least = chances.min(axis=1)
    return float((chances.max(axis=1) / least).max()) if least.min() > 0.0 else math.inf
