"""Simulated runs: their statistics, and the p-values of their tests."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ldpbeam import Attribute, Categories, Numeric, ServiceVersion, build_mechanism, joint_cells
from ldpbeam.cells import Cells
from ldpbeam.domains import Domain, Floats, Integers
from ldpbeam.fit import FALSE_ALARMS, fit_tests, flagged
from ldpbeam.fit.spending import Spending
from ldpbeam.mechanisms import LocalHashing, Mechanism, UnaryEncoding
from ldpbeam.statistics import Answers, Moments, Statistic, has_tail, merge, tally
from ldpbeam.trials import populations

UNIT = Numeric(0.0, 1.0)
TEN = Categories(tuple(f"c{i}" for i in range(10)))
FIFTY = Categories(tuple(f"c{i}" for i in range(50)))

HOUR = 3_600_000
#: The limits of a stream of hours that began at time 0.
STREAM = Spending(since=0, started=0, earlier_runs=0, windows=Cells(HOUR), attributes=1)

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
    "HRR, 50 categories": Services(FIFTY, ("hadamard",)),
    "block Hadamard, 50 categories": Services(FIFTY, ("block_hadamard",)),
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
    """A run whose reports are what the study claims. Counts are drawn, or reports if sums are tested."""
    attribute, rng = _attribute(services), np.random.default_rng(seed)
    if any(has_tail(version.mechanism) for version in attribute.versions):
        values = CLEAN[services].values(population, users, rng)
        statistic = statistic_of(attribute, perturbed(attribute, [values], rng))
    else:
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
    histograms: tuple[Integers, ...]
    if len(mechanisms) == 2:
        chances = _joint(attribute, shares)
        grid = rng.multinomial(users, chances.ravel()).reshape(chances.shape)
        rows, columns = np.nonzero(grid)
        index = joint_cells.indexes(attribute.joint_shape, [1 + rows, 1 + columns])
        cells, counts = joint_cells.added_up(index, grid[rows, columns])
        histograms = grid.sum(axis=1), grid.sum(axis=0)
    elif isinstance(mechanisms[0], UnaryEncoding):
        # Bits are independent given the category, so that the counts of bits are given those of categories.
        own, other = mechanisms[0].support_probabilities
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
    products = (one * shares) @ other.T
    chances: Floats = products / products.sum()
    return chances


#: A stream's hours, and how many reports an hour has.
STREAM_HOURS, STREAM_REPORTS = 10_000, 3_000


def clean_hour(hour: int) -> tuple[bool, float]:
    """Whether the pane of an hour of one clean stream is flagged, and its least p-value times its tests."""
    kind = list(CLEAN)[hour % len(CLEAN)]
    attribute, rng = _attribute(kind), np.random.default_rng((hour, 7))
    values = CLEAN[kind].values("Beta(2, 5)", STREAM_REPORTS, rng)
    sent = perturbed(attribute, [values] * len(attribute.versions), rng)
    p_values = [test.p_value for test in fit_tests(attribute, statistic_of(attribute, sent))]
    limit = STREAM.limit((hour * HOUR, (hour + 1) * HOUR), 0)
    return any(flagged(p_values, limit)), min(1.0, len(p_values) * min(p_values))


def reports_until_seen(services: str, seed: int, hour: int = 12, early: int = 1_000) -> int:
    """How many reports of epsilon 0.8 it takes until a pane of a stream is flagged; 0 if 200,000 do not.

    The fleet changes at the start of an hour, whose window has a pane after each ``early`` reports.

    Args:
        services: the services, whose study says epsilon 1.
        seed: the seed.
        hour: how many hours the stream has run before.
        early: the number of reports between two panes.
    """
    attribute, rng = _attribute(services), np.random.default_rng(seed)
    mechanisms = [version.mechanism for version in CLEAN[services].at(0.8).versions]
    total: list[Statistic] = []
    for pane in range(200_000 // early):
        values = CLEAN[services].values("Beta(2, 5)", early, rng)
        sent = [mechanism.perturb(values, rng) for mechanism in mechanisms]
        own = [version.mechanism for version in attribute.versions]
        # Impossible reports are dropped, with a warning of their own.
        fit = np.logical_and.reduce([m.is_report(r) for m, r in zip(own, sent, strict=True)])
        total = [merge([*total, statistic_of(attribute, [reports[fit] for reports in sent])])]
        p_values = [test.p_value for test in fit_tests(attribute, total[0])]
        if any(flagged(p_values, STREAM.limit((hour * HOUR, (hour + 1) * HOUR), pane))):
            return (pane + 1) * early
    return 0


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


def _on_one_category(reports: Any, values: Floats) -> Any:
    """The first 5% of OLH's reports have the hash of category 7."""
    fake = reports.copy()
    few = fake[: len(fake) // 20]
    mechanism = _attribute("OLH, 50 categories").versions[0].mechanism
    assert isinstance(mechanism, LocalHashing)
    few["hash"] = mechanism.hash(np.array([7]), few["seed"])
    return fake


def again(services: Services) -> Callable[[int, int], tuple[bool, float]]:
    """Runs of clients that perturb their report once more, as if it were their value."""

    def run(users: int, seed: int) -> tuple[bool, float]:
        rng = np.random.default_rng(seed)
        attribute, values = services.at(1.0), services.values("Beta(2, 5)", users, rng)
        (first,) = perturbed(attribute, [values], rng)
        if isinstance(services.domain, Numeric):
            first = np.clip(0.5 * (first + 1.0), 0.0, 1.0)
        return is_flagged(attribute, perturbed(attribute, [first], rng))

    return run


def one_answer(services: Services) -> Callable[[int, int], tuple[bool, float]]:
    """Runs of clients that all have one value, whatever their users' values are."""

    def run(users: int, seed: int) -> tuple[bool, float]:
        rng = np.random.default_rng(seed)
        attribute, values = services.at(1.0), services.values("one value", users, rng)
        return is_flagged(attribute, perturbed(attribute, [values], rng))

    return run


_SW, _PM = Services(UNIT, ("square_wave",)), Services(UNIT, ("piecewise",))
_GRR, _OLH = Services(FIFTY, ("grr",)), CLEAN["OLH, 50 categories"]

#: Runs that are not what the study claims, by what is wrong with them.
WRONG: Mapping[str, Callable[[int, int], tuple[bool, float]]] = {
    "SW of epsilon 0.9": other_epsilon(_SW, 0.9),
    "PM of epsilon 0.9": other_epsilon(_PM, 0.9),
    "Laplace of epsilon 0.9": other_epsilon(CLEAN["Laplace"], 0.9),
    "OLH of epsilon 0.9, 50 categories": other_epsilon(_OLH, 0.9),
    "OLH of epsilon 1.2, 50 categories": other_epsilon(_OLH, 1.2),
    "HRR of epsilon 0.7, 50 categories": other_epsilon(CLEAN["HRR, 50 categories"], 0.7),
    "block Hadamard of epsilon 1.2, 50 categories": other_epsilon(
        CLEAN["block Hadamard, 50 categories"], 1.2
    ),
    "OUE of epsilon 0.9, 50 categories": other_epsilon(CLEAN["OUE, 50 categories"], 0.9),
    "5% of OLH support one category of 50": changed(_OLH, _on_one_category),
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

#: Runs that are wrong, and explained by some distribution of values.
UNSEEN: Mapping[str, Callable[[int, int], tuple[bool, float]]] = {
    "GRR of epsilon 0.9, 50 categories": other_epsilon(_GRR, 0.9),
    "GRR clients perturb twice, 50 categories": again(_GRR),
    "PM clients perturb twice": again(_PM),
    "SW clients all answer one value": one_answer(_SW),
    "OLH clients all answer one category of 50": one_answer(_OLH),
}
