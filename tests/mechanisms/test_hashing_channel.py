"""Products of local hashing: their bits, whether matrices are kept or not, and their rows."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import xxhash

from ldpbeam.mechanisms import LocalHashing
from ldpbeam.mechanisms.categories import hashing_channel
from ldpbeam.mechanisms.categories.xxh32 import reduced

SHAPES = [(2, 8.0, 0), (3, 0.5, 5000), (6, 1.0, 9), (222, 1.0, 0), (300, 5.3, 0), (70_000, 8.0, 60)]


def straight(
    mechanism: LocalHashing, weights: np.ndarray, counts: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Both products as sums over categories, and over seeds."""
    seeds, size, g = int(mechanism.seeds), mechanism.size, mechanism.hashes
    keep, other = (probability / seeds for probability in mechanism.probabilities)
    forward, total = np.full(seeds * g, other * weights.sum()), np.zeros(size)
    step = max(1, 2**16 // size)
    for start in range(0, seeds, step):
        some = np.arange(start, min(start + step, seeds))
        own = mechanism.hash(np.arange(size)[None, :], some[:, None]).astype(np.int64)
        cells = (some[:, None] * g + own).ravel()
        sums = np.bincount(cells, np.tile(weights, len(some)), seeds * g)
        forward[some[0] * g : (some[-1] + 1) * g] += (keep - other) * sums[some[0] * g : (some[-1] + 1) * g]
        total += counts[cells].reshape(len(some), size).sum(axis=0)
    return forward, other * counts.sum() + (keep - other) * total


@pytest.mark.parametrize(("size", "epsilon", "seeds"), SHAPES)
@pytest.mark.parametrize("run", [2**20, 3 * 2**16])
def test_products_are_sums_and_have_the_same_bits_whether_matrices_are_kept(
    size: int, epsilon: float, seeds: int, run: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hashing_channel, "RUN_HASHES", run)
    mechanism = LocalHashing(epsilon, size, seeds)
    channel, rng = mechanism.channel(size, 0), np.random.default_rng(size)
    for _ in range(2):
        weights, counts = rng.dirichlet(np.ones(size)), rng.random(channel.shape[0])
        forward, backward = straight(mechanism, weights, counts)
        products = channel.matvec(weights), channel.rmatvec(counts)
        np.testing.assert_allclose(products[0], forward, rtol=1e-12)
        np.testing.assert_allclose(products[1], backward, rtol=1e-12)
        collisions = mechanism.table.collisions(weights)
        np.testing.assert_allclose(
            collisions, mechanism.table.scattered(mechanism.table.gathered(weights)), rtol=1e-12
        )
        monkeypatch.setattr(hashing_channel, "KEPT_CELLS", 0)
        not_kept = LocalHashing(epsilon, size, seeds).channel(size, 0)
        assert not_kept.matvec(weights).tobytes() == products[0].tobytes()
        assert not_kept.rmatvec(counts).tobytes() == products[1].tobytes()
        monkeypatch.undo()
        monkeypatch.setattr(hashing_channel, "RUN_HASHES", run)


def test_rows_are_those_of_published_hashes() -> None:
    mechanism = LocalHashing(1.2, 700, 481)
    channel, (p, q) = mechanism.channel(700, 0), mechanism.probabilities
    chosen = np.array([0, 5, 4 * 92, 4 * 93 + 3, 4 * 480 + 1])
    rows = channel.rows(chosen)
    for row, cell in zip(rows, chosen.tolist(), strict=True):
        seed, sent = divmod(cell, mechanism.hashes)
        for category in (0, 1, 350, 699):
            own = xxhash.xxh32_intdigest(category.to_bytes(4, "little"), seed) % mechanism.hashes
            assert row[category] == (p if own == sent else q) / 481


def test_squared_entries_are_the_squares_of_the_matrix() -> None:
    channel = LocalHashing(1.2, 40, 64).channel(40, 0)
    numbers = np.random.default_rng(1).random(channel.shape[0])
    np.testing.assert_allclose(channel.squares_rmatvec(numbers), numbers @ channel.dense() ** 2, rtol=1e-12)


@pytest.mark.parametrize("g", [2, 3, 4, 7, 256, 8104, 2**22, 485_165_196])
def test_a_remainder_is_exact_for_every_number_of_four_bytes(g: int) -> None:
    edges = np.array([0, 1, g - 1, g, g + 1, 2**32 // g * g - 1, 2**32 // g * g, 2**32 - 1]) % 2**32
    numbers = np.concatenate((edges, np.random.default_rng(g).integers(0, 2**32, 10_000))).astype(np.uint32)
    expected = [number % g for number in numbers.tolist()]
    assert reduced(numbers.copy(), g).tolist() == expected


def test_a_table_is_not_sent_to_other_processes() -> None:
    mechanism = LocalHashing(1.0, 300)
    assert mechanism.table.size == 300
    data = pickle.dumps(mechanism)
    assert len(data) < 1_000
    copy = pickle.loads(data)
    assert copy == mechanism
    weights = np.full(300, 1 / 300)
    assert (
        copy.channel(300, 0).matvec(weights).tobytes() == mechanism.channel(300, 0).matvec(weights).tobytes()
    )
