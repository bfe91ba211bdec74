"""What false reports fake users send: several attacks, on any mechanism.

A target is what they push: the top of a number, the rarest category, the rarest key, or the value of the most
frequent key. An attack gives the reports of some fake users. Only those of :func:`one_report` are all alike:
in every other attack they vary as those of honest people do.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np
import scipy
from numpy.typing import NDArray

from benchmarks.coverage import CATEGORIES, KEYS, owners, zipf
from ldpbeam.attributes import Attribute, ServiceVersion
from ldpbeam.domains import Categories, Domain, Floats, Integers, KeyValuePairs, KeyValues, bucket_midpoints
from ldpbeam.mechanisms import Mechanism, NumericMechanism
from ldpbeam.mechanisms.categories.unary_encoding import UnaryEncoding
from ldpbeam.mechanisms.key_values.pckv_slots import SlotsKeyValueMechanism
from ldpbeam.mechanisms.key_values.privkv import PrivKV

BUCKETS = 128
#: The most value buckets of a key in a linear programme.
FEW = 8
#: Fake users choose their reports among so many that people send.
POOL = 100_000
#: The parts of a pool, those that say most, which a search tries.
PARTS = (0.7, 0.5, 0.3, 0.1, 0.03, 0.01)


@dataclass(frozen=True)
class Target:
    """What fake users push.

    Attributes:
        mechanism: what honest people perturb their values with.
        domain: of the values.
        place: the category or key that is pushed; for numbers 0.
        of_mean: whether it is the mean of the key's values that is pushed, and not its frequency.
    """

    mechanism: Mechanism
    domain: Domain
    place: int = 0
    of_mean: bool = False

    @functools.cached_property
    def attribute(self) -> Attribute:
        """The attribute with the mechanism as its one service."""
        return Attribute("x", self.domain, BUCKETS, (ServiceVersion("s", "", self.mechanism),))

    def people(self, n: int, rng: np.random.Generator) -> Any:
        """The values of honest people."""
        if isinstance(self.domain, Categories):
            return zipf(n, rng)
        return owners(n, rng) if isinstance(self.domain, KeyValues) else rng.beta(2.0, 5.0, n)

    def pushed(self, n: int) -> Any:
        """The values of people who have what is pushed."""
        if isinstance(self.domain, KeyValues):
            return KeyValuePairs(np.arange(n + 1), np.full(n, self.place), np.ones(n))
        return np.full(n, self.place) if isinstance(self.domain, Categories) else np.ones(n)

    def anything(self, n: int, rng: np.random.Generator) -> Any:
        """Values that are spread evenly; for keys, those of one pair each."""
        if isinstance(self.domain, KeyValues):
            return KeyValuePairs(np.arange(n + 1), rng.integers(0, KEYS, n), rng.random(n))
        return rng.integers(0, CATEGORIES, n) if isinstance(self.domain, Categories) else rng.random(n)

    def cells(self, reports: NDArray[Any], resolution: int = BUCKETS) -> Integers:
        """The cells of the histogram that count each report, shape (n, slots)."""
        mechanism = self.mechanism
        if isinstance(mechanism, SlotsKeyValueMechanism):
            outcomes = mechanism.outcomes(reports, resolution)
            return outcomes + mechanism.slot_cells(resolution) * np.arange(mechanism.size)
        if isinstance(mechanism, UnaryEncoding):
            return mechanism.supported(reports) + 2 * np.arange(mechanism.size)
        return mechanism.bucketise(reports, resolution)[:, None]

    @functools.cached_property
    def ratios(self) -> Floats:
        """The log-ratio of a cell's count from people with what is pushed to that from other people."""
        rng = np.random.default_rng(0)
        if isinstance(self.domain, KeyValues):
            having, others = (
                self.mechanism.histogram(self.mechanism.perturb(values, rng), BUCKETS) + 1.0
                for values in (self.pushed(POOL), self.people(POOL, rng))
            )
            return np.asarray(np.log(having / others))
        channel = self.mechanism.histogram_channel(self.attribute.value_buckets, BUCKETS).dense()
        place = self.place if isinstance(self.domain, Categories) else -1
        return np.asarray(np.log(np.maximum(channel[:, place], 1e-300) / channel.mean(axis=1)))

    def said(self, reports: NDArray[Any]) -> Floats:
        """How much each report speaks for what is pushed, shape (n,): above zero if it does."""
        return np.asarray(self.ratios[self.cells(reports)].sum(axis=1))

    def pool(self, values: Any) -> NDArray[Any]:
        """The reports of people with these values, those first that say most for what is pushed."""
        rng = np.random.default_rng(1)
        reports = self.mechanism.perturb(values, rng)
        # Reports that say the same are in any order.
        return reports[np.lexsort((rng.random(len(reports)), -self.said(reports)))]

    @functools.cached_property
    def pools(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """The pools of people with what is pushed, and of people with anything."""
        rng = np.random.default_rng(2)
        return self.pool(self.pushed(POOL)), self.pool(self.anything(POOL, rng))


class Crowd(NamedTuple):
    """Fake users among honest ones.

    Attributes:
        target: what they push.
        honest: the reports of the honest people.
        fake: how many fake users there are.
        share: their share of all users.
        rng: where they draw from.
    """

    target: Target
    honest: NDArray[Any]
    fake: int
    share: float
    rng: np.random.Generator


#: The reports of the fake users, shape (fake,).
Attack = Callable[[Crowd], NDArray[Any]]


def one_report(crowd: Crowd) -> NDArray[Any]:
    """All send one report: the largest number, or the one of a pool that says most."""
    if isinstance(crowd.target.mechanism, NumericMechanism):
        return np.full(crowd.fake, crowd.target.mechanism.report_range[1])
    return np.repeat(crowd.target.pools[0][:1], crowd.fake)


def false_value(crowd: Crowd) -> NDArray[Any]:
    """All perturb what is pushed as honest people do."""
    return crowd.target.mechanism.perturb(crowd.target.pushed(crowd.fake), crowd.rng)


def chosen_answer(crowd: Crowd) -> NDArray[Any]:
    """They draw as honest people with what is pushed do, until the report speaks for it."""
    pool = crowd.target.pools[0]
    return crowd.rng.choice(pool[crowd.target.said(pool) > 0.0], crowd.fake)


def top_fifth(crowd: Crowd) -> NDArray[Any]:
    """They draw from the fifth of these people's reports that says most: numbers are spread over the top."""
    return crowd.rng.choice(crowd.target.pools[0][: POOL // 5], crowd.fake)


def copies(crowd: Crowd) -> NDArray[Any]:
    """Each copies the report of an honest person, one that speaks for what is pushed."""
    return crowd.rng.choice(crowd.honest[crowd.target.said(crowd.honest) > 0.0], crowd.fake)


def searched(part: tuple[int, float]) -> Attack:
    """They draw from a part of a pool: the one, of several, that moves this estimator furthest."""

    def attack(crowd: Crowd) -> NDArray[Any]:
        pool, most = part
        return crowd.rng.choice(crowd.target.pools[pool][: max(1, int(most * POOL))], crowd.fake)

    return attack


def parts() -> Iterator[tuple[int, float]]:
    """The parts of pools that a search tries."""
    return ((pool, most) for pool in (0, 1) for most in PARTS)


def unseen(crowd: Crowd) -> NDArray[Any]:
    """The furthest that they get so that all reports together are those of other honest people.

    Let C be the channel and w the honest people's values, which the fake users know. They choose values w'
    that are furthest towards what is pushed, such that C w' is nowhere less than (1 - share) C w. The rest of
    C w' is what they send. No test of the histogram can tell it from honest reports of w', however many there
    are, and no estimator that finds what honest people have can find w.
    """
    wanted, resolution = unseen_cells(crowd.target, crowd.share)
    rng_pool = np.random.default_rng(3)
    pool = crowd.target.mechanism.perturb(crowd.target.anything(POOL, rng_pool), rng_pool)
    cells = crowd.target.cells(pool, resolution)
    slots = np.split(np.arange(len(wanted)), cells.shape[1])
    rows = [
        _with_cells(cells[:, slot], wanted, columns, crowd.fake, crowd.rng)
        for slot, columns in enumerate(slots)
    ]
    return _put_together(crowd.target.mechanism, pool, rows)


def _with_cells(
    cells: Integers, wanted: Floats, of_slot: Integers, fake: int, rng: np.random.Generator
) -> Integers:
    """Reports of a pool whose cells are as wanted, as indexes into the pool, shape (fake,)."""
    order = np.argsort(cells, kind="stable")
    starts = np.searchsorted(cells[order], [*of_slot, of_slot[-1] + 1])
    held = np.diff(starts)
    chances = np.where(held > 0, np.maximum(wanted[of_slot], 0.0), 0.0)
    drawn = rng.choice(len(of_slot), fake, p=chances / chances.sum())
    return order[starts[drawn] + np.floor(rng.random(fake) * held[drawn]).astype(np.int64)]


def _put_together(mechanism: Mechanism, pool: NDArray[Any], rows: list[Integers]) -> NDArray[Any]:
    """Reports of which each slot is that of one report of the pool."""
    if len(rows) == 1:
        return pool[rows[0]]
    if isinstance(mechanism, UnaryEncoding):
        packed = _bits(mechanism.supported(pool), rows)
        return np.ascontiguousarray(packed).view(mechanism.payload_dtype).ravel()
    assert isinstance(mechanism, SlotsKeyValueMechanism)
    reports = pool.view(mechanism.layout)
    made = np.zeros(len(rows[0]), dtype=mechanism.layout)
    for name in mechanism.layout.names or ():
        field = reports[name]
        if field.dtype == np.uint8:
            made[name] = _bits(np.unpackbits(field, axis=1, bitorder="little"), rows)
        else:
            made[name] = np.column_stack([field[row, slot] for slot, row in enumerate(rows)])
    return made.view(mechanism.payload_dtype)


def _bits(bits: NDArray[Any], rows: list[Integers]) -> NDArray[np.uint8]:
    """Packed bits, of which each is that of one row of a pool."""
    chosen = np.column_stack([bits[row, slot] for slot, row in enumerate(rows)])
    return np.packbits(chosen, axis=1, bitorder="little")


@functools.cache
def unseen_cells(target: Target, share: float) -> tuple[Floats, int]:
    """(the chances of each cell of the fake users' reports, slot by slot; the resolution of the cells)."""
    of_keys = isinstance(target.domain, KeyValues)
    resolution = FEW if of_keys else BUCKETS
    buckets = FEW if of_keys else target.attribute.value_buckets
    channel = target.mechanism.histogram_channel(buckets, resolution).dense()
    honest = _honest(target, channel.shape[1])
    kept = (1.0 - share) * channel @ honest
    best: tuple[float, Floats] = -np.inf, honest
    for gain, rows, totals in _programmes(target, honest):
        found = scipy.optimize.linprog(
            -gain, A_ub=-channel, b_ub=-kept, A_eq=rows, b_eq=totals, bounds=(0.0, None), method="highs"
        )
        # A mean is what is gained over the people who have the key.
        if found.x is not None and gain @ found.x / totals[-1] > best[0]:
            best = float(gain @ found.x / totals[-1]), found.x
    return np.maximum(channel @ best[1] - kept, 0.0) / share, resolution


def _honest(target: Target, columns: int) -> Floats:
    """The honest people's share of each column of the channel."""
    rng = np.random.default_rng(4)
    if not isinstance(target.domain, KeyValues):
        values = target.people(1_000_000, rng)
        if not isinstance(target.domain, Categories):
            values = np.minimum((values * columns).astype(np.int64), columns - 1)
        counts = np.bincount(values, minlength=columns)
        return np.asarray(counts / counts.sum())
    people = cast(KeyValuePairs, target.people(POOL, rng))
    lengths = np.diff(people.starts)
    padding = getattr(target.mechanism, "padding", 1)
    sampled = isinstance(target.mechanism, PrivKV)
    longest = np.full(len(people.keys), KEYS) if sampled else np.maximum(np.repeat(lengths, lengths), padding)
    drawn = 1.0 / (longest * len(people))
    values = (columns - 1) // KEYS
    if values > 3:
        bucket = np.minimum((people.values * values).astype(np.int64), values - 1)
        pairs = np.bincount(people.keys * values + bucket, drawn, minlength=KEYS * values)
    else:
        plus = np.bincount(people.keys, drawn * people.values, minlength=KEYS)
        pairs = np.column_stack((plus, np.bincount(people.keys, drawn, minlength=KEYS) - plus)).ravel()
    if sampled:
        missing = 1.0 / KEYS - pairs.reshape(KEYS, 2).sum(axis=1)
        return np.column_stack((pairs.reshape(KEYS, 2), missing / 2.0, missing / 2.0)).ravel()
    return np.append(pairs, 1.0 - pairs.sum())


def _programmes(target: Target, honest: Floats) -> Iterator[tuple[Floats, Floats, Floats]]:
    """(what each column gains, the sums of columns that are given, what these are) of linear programmes."""
    columns = len(honest)
    ones = np.ones((1, columns))
    if not isinstance(target.domain, KeyValues):
        own = np.eye(columns)[target.place]
        yield own if isinstance(target.domain, Categories) else bucket_midpoints(columns), ones, np.ones(1)
        return
    sampled = isinstance(target.mechanism, PrivKV)
    values = 4 if sampled else (columns - 1) // KEYS
    present = np.array([1.0, 1.0, 0.0, 0.0]) if sampled else np.ones(values)
    points = np.array([1.0, 0.0, 0.0, 0.0])[:values] if values in (2, 4) else bucket_midpoints(values)
    of_key, of_points = (
        np.append(np.kron(np.eye(KEYS)[target.place], row), np.zeros(columns - KEYS * values))
        for row in (present, points)
    )
    # Everybody is asked for a key that is drawn.
    rows = np.kron(np.eye(KEYS), np.ones(4)).astype(np.float64) if sampled else ones
    totals = np.full(KEYS, 1.0 / KEYS) if sampled else np.ones(1)
    if not target.of_mean:
        yield of_key, rows, totals
        return
    for more in np.geomspace(0.8, 8.0, 24):
        yield of_points, np.vstack((rows, of_key)), np.append(totals, more * float(of_key @ honest))


#: The attacks by name; that of a search is made for each estimator.
ATTACKS: Mapping[str, Attack] = {
    "one report": one_report,
    "a false value": false_value,
    "a chosen answer": chosen_answer,
    "the top fifth": top_fifth,
    "copies": copies,
    "unseen": unseen,
}
#: The attack whose reports are all alike.
ALIKE = "one report"
