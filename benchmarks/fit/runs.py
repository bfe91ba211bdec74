"""Simulated runs: their statistics, and the p-values of their tests."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ldpbeam import (
    Attribute,
    Categories,
    Numeric,
    ServiceVersion,
    build_mechanism,
    joint_cells,
    populations,
)
from ldpbeam.domains import Domain, Floats
from ldpbeam.fit import FALSE_ALARMS, fit_tests, flagged
from ldpbeam.mechanisms import Mechanism, UnaryEncoding
from ldpbeam.statistics import Answers, Moments, Statistic, tally

UNIT = Numeric(0.0, 1.0)
TEN = Categories(tuple(f"c{i}" for i in range(10)))
FIFTY = Categories(tuple(f"c{i}" for i in range(50)))

Draw = Callable[[int, np.random.Generator], Floats]

#: Values on [0, 1]; categories are their tenths or fiftieths.
POPULATIONS: dict[str, Draw] = {
    "Beta(2, 5)": lambda n, rng: rng.beta(2.0, 5.0, n),
    "two humps": populations.two_normals,
    "spikes": populations.spiky,
    "ten values": lambda n, rng: np.round(rng.beta(2.0, 5.0, n), 1),
    "uniform": lambda n, rng: rng.random(n),
    "one value": lambda n, rng: np.full(n, 0.3),
}


@dataclass(frozen=True)
class Services:
    """An attribute's services, joined if there are several.

    Attributes:
        domain: the domain.
        names: the mechanism of each service.
    """

    domain: Domain
    names: tuple[str, ...]

    def at(self, epsilon: float) -> Attribute:
        """The attribute, with one epsilon for all services."""
        versions = tuple(
            ServiceVersion(f"s{place}", "", build_mechanism(name, self.domain, epsilon))
            for place, name in enumerate(self.names)
        )
        joined = tuple(version.service for version in versions) if len(versions) > 1 else ()
        return Attribute("x", self.domain, 256, versions, joined)

    def values(self, population: str, users: int, rng: np.random.Generator) -> Floats:
        """True values, on the mechanisms' scale."""
        values = POPULATIONS[population](users, rng)
        if isinstance(self.domain, Categories):
            size = self.domain.size
            return np.minimum(np.floor(size * values), size - 1).astype(np.int64)
        return values


#: The services of the clean runs.
CLEAN: dict[str, Services] = {
    "SW, SR joined": Services(UNIT, ("square_wave", "stochastic_rounding")),
    "SW, PM joined": Services(UNIT, ("square_wave", "piecewise")),
    "GRR twice, 10 categories, joined": Services(TEN, ("grr", "grr")),
    "OLH, 50 categories": Services(FIFTY, ("olh",)),
    "OUE, 50 categories": Services(FIFTY, ("oue",)),
    "Laplace": Services(UNIT, ("laplace",)),
}


def statistic_of(attribute: Attribute, payloads: list[Floats]) -> Statistic:
    """The statistic of users who all answer all services."""
    users = len(payloads[0])
    return tally(attribute, users, [Answers(i, np.arange(users), own) for i, own in enumerate(payloads)])


def perturbed(attribute: Attribute, values: list[Floats], rng: np.random.Generator) -> list[Floats]:
    """What the clients of each service send, from values that may differ by service."""
    mechanisms: list[Mechanism] = [version.mechanism for version in attribute.versions]
    return [mechanism.perturb(own, rng) for mechanism, own in zip(mechanisms, values, strict=True)]


def is_flagged(attribute: Attribute, payloads: list[Floats]) -> tuple[bool, float]:
    """Whether a run of these reports has a flag at the stated rate, and its least p-value times its tests."""
    mechanisms = [version.mechanism for version in attribute.versions]
    if not all(own.is_report(sent).all() for own, sent in zip(mechanisms, payloads, strict=True)):
        # A run drops reports that the mechanism never sends, with a warning of its own.
        return True, 0.0
    return _flag([test.p_value for test in fit_tests(attribute, statistic_of(attribute, payloads))])


def _flag(p_values: Sequence[float]) -> tuple[bool, float]:
    """Whether any of a run's tests is flagged, and the least p-value times their number."""
    return any(flagged(p_values, FALSE_ALARMS)), min(1.0, len(p_values) * min(p_values))


def clean(services: str, population: str, users: int, seed: int) -> tuple[bool, float]:
    """A run whose reports are what the study claims: counts are drawn, not reports."""
    attribute, rng = _attribute(services), np.random.default_rng(seed)
    statistic = _drawn(attribute, _shares(services, population), users, rng)
    return _flag([test.p_value for test in fit_tests(attribute, statistic)])


@functools.cache
def _attribute(services: str) -> Attribute:
    return CLEAN[services].at(1.0)


@functools.cache
def _shares(services: str, population: str) -> Floats:
    """The population as shares of the value buckets."""
    own, attribute = CLEAN[services], _attribute(services)
    values = own.values(population, 200_000, np.random.default_rng(0))
    if isinstance(own.domain, Categories):
        return np.bincount(values.astype(np.int64), minlength=own.domain.size) / len(values)
    return UNIT.histogram(values, attribute.buckets) / len(values)


def _drawn(attribute: Attribute, shares: Floats, users: int, rng: np.random.Generator) -> Statistic:
    """The statistic of users who all answer one service, or two that are joined."""
    mechanisms = [version.mechanism for version in attribute.versions]
    cells, counts = np.zeros(0, np.int64), np.zeros(0, np.int64)
    if len(mechanisms) == 2:
        chances = _joint(attribute, shares)
        grid = rng.multinomial(users, chances.ravel()).reshape(chances.shape)
        rows, columns = np.nonzero(grid)
        index = joint_cells.indexes(attribute.joint_shape, [1 + rows, 1 + columns])
        cells, counts = joint_cells.added_up(index, grid[rows, columns])
        histograms = grid.sum(axis=1), grid.sum(axis=0)
    elif isinstance(mechanisms[0], UnaryEncoding):
        # Bits are independent given the category, so that the counts of bits are given those of categories.
        own, other = mechanisms[0].probabilities
        people = rng.multinomial(users, shares)
        set_bits = rng.binomial(people, own) + rng.binomial(users - people, other)
        histograms = (np.column_stack((users - set_bits, set_bits)).ravel(),)
    else:
        chances = attribute.channel(0).matvec(shares)
        histograms = (rng.multinomial(users, chances / chances.sum()),)
    every = Moments(users, (0,) * len(mechanisms), (0,) * len(mechanisms))
    return Statistic(
        fingerprint=attribute.fingerprint,
        reports=users * len(mechanisms),
        users=users,
        histograms=histograms,
        moments={(1 << len(mechanisms)) - 1: every},
        joint_cells=cells,
        joint_counts=counts,
    )


def _joint(attribute: Attribute, shares: Floats) -> Floats:
    """The probability of each pair of report buckets, shape (buckets, buckets)."""
    one, other = (
        version.mechanism.channel(attribute.value_buckets, attribute.joint_resolution(index)).dense()
        for index, version in enumerate(attribute.versions)
    )
    chances: Floats = (one * shares) @ other.T
    return chances / chances.sum()


def other_epsilon(services: Services, sent: float) -> Callable[[int, int], tuple[bool, float]]:
    """Runs of clients of another epsilon than the study's, 1."""

    def run(users: int, seed: int) -> tuple[bool, float]:
        rng = np.random.default_rng(seed)
        values = services.values("Beta(2, 5)", users, rng)
        attribute, theirs = services.at(1.0), services.at(sent)
        return is_flagged(attribute, perturbed(theirs, [values] * len(services.names), rng))

    return run


def changed(
    services: Services, change: Callable[[Floats, Floats], Floats]
) -> Callable[[int, int], tuple[bool, float]]:
    """Runs in which the reports to the last service are changed; ``change`` takes reports and values."""

    def run(users: int, seed: int) -> tuple[bool, float]:
        rng = np.random.default_rng(seed)
        attribute, values = services.at(1.0), services.values("Beta(2, 5)", users, rng)
        payloads = perturbed(attribute, [values] * len(services.names), rng)
        return is_flagged(attribute, [*payloads[:-1], change(payloads[-1], values)])

    return run


def different_people(services: Services) -> Callable[[int, int], tuple[bool, float]]:
    """Runs of two services whose users are different people under one id."""

    def run(users: int, seed: int) -> tuple[bool, float]:
        rng = np.random.default_rng(seed)
        attribute = services.at(1.0)
        values = [services.values("Beta(2, 5)", users, rng) for _ in services.names]
        return is_flagged(attribute, perturbed(attribute, values, rng))

    return run


def _some_fixed(reports: Floats, values: Floats) -> Floats:
    fixed = reports.copy()
    fixed[: len(reports) // 50] = 0.4
    return fixed


_SW, _PM = Services(UNIT, ("square_wave",)), Services(UNIT, ("piecewise",))

#: Runs that are not what the study claims, by what is wrong with them.
WRONG: Mapping[str, Callable[[int, int], tuple[bool, float]]] = {
    "SW of epsilon 0.9": other_epsilon(_SW, 0.9),
    "PM of epsilon 0.9": other_epsilon(_PM, 0.9),
    "OLH of epsilon 0.9, 50 categories": other_epsilon(CLEAN["OLH, 50 categories"], 0.9),
    "OUE of epsilon 0.9, 50 categories": other_epsilon(CLEAN["OUE, 50 categories"], 0.9),
    "2% of SW send one fixed report": changed(_SW, _some_fixed),
    "2% of PM send one fixed report": changed(_PM, _some_fixed),
    "SW clients send true values": changed(_SW, lambda reports, values: values),
    "PM clients send true values": changed(_PM, lambda reports, values: 2.0 * values - 1.0),
    "SR with its sign flipped, joined with SW": changed(
        CLEAN["SW, SR joined"], lambda reports, values: -reports
    ),
    "different people: SW and SR": different_people(CLEAN["SW, SR joined"]),
    "different people: SW and PM": different_people(CLEAN["SW, PM joined"]),
    "different people: GRR twice, 10 categories": different_people(CLEAN["GRR twice, 10 categories, joined"]),
}
