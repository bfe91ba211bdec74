"""Local hashing: the published hash, families of seeds and any seed, and what a report supports."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st
from support.given_draws import Given

from ldpbeam.mechanisms import LocalHashing, OptimisedUnaryEncoding
from ldpbeam.mechanisms.categories import local_hashing
from ldpbeam.mechanisms.categories.xxh32 import xxh32, xxh32_of_text

reproducibly = settings(derandomize=True, deadline=None, max_examples=40)
words = st.integers(0, 2**32 - 1)


def test_any_seed_is_any_32_bits_and_a_family_its_own() -> None:
    ends = [0.0, 0.25, 1.0 - 2.0**-53]
    for seeds, expected in (("any", [0, 2**30, 2**32 - 1]), (64, [0, 16, 63]), (4, [0, 1, 3])):
        mechanism = LocalHashing(1.0, size=5, seeds=seeds)  # type: ignore[arg-type]
        reports = mechanism.perturb([0, 1, 2], Given([*ends, *[0.0] * 6]))
        assert reports["seed"].tolist() == expected
        assert reports["hash"].tolist() == [
            xxhash.xxh32_intdigest(value.to_bytes(4, "little"), seed) % mechanism.hashes
            for value, seed in enumerate(expected)
        ]


@reproducibly
@given(values=st.lists(words, min_size=1, max_size=20), seeds=st.lists(words, min_size=1, max_size=5))
def test_xxh32_is_the_published_hash(values: list[int], seeds: list[int]) -> None:
    edges = [0, 1, 255, 2**31, 2**32 - 1]
    hashes = xxh32(
        np.array(values + edges, dtype=np.uint32)[:, None], np.array(seeds + edges, dtype=np.uint32)[None, :]
    )
    assert hashes.dtype == np.uint32
    for row, value in zip(hashes.tolist(), values + edges, strict=True):
        assert row == [xxhash.xxh32_intdigest(value.to_bytes(4, "little"), seed) for seed in seeds + edges]


@reproducibly
@given(
    values=st.lists(words, min_size=1, max_size=20),
    seeds=st.lists(st.integers(0, 2**63 - 1), min_size=1, max_size=5),
)
def test_the_hash_of_text_is_that_of_the_decimal_digits(values: list[int], seeds: list[int]) -> None:
    # pure-LDP and multi-freq-ldpy draw seeds of 63 bits, and send the lowest 32.
    values += [0, 2**32 - 1, *(10**power for power in range(10)), *(10**power - 1 for power in range(1, 10))]
    hashes = xxh32_of_text(np.array(values, np.uint32)[:, None], np.array(seeds).astype(np.uint32)[None, :])
    assert hashes.dtype == np.uint32
    for row, value in zip(hashes.tolist(), values, strict=True):
        assert row == [xxhash.xxh32_intdigest(str(value).encode(), seed) for seed in seeds]


def test_what_is_hashed_is_a_parameter_only_if_it_is_the_text() -> None:
    index, text = (LocalHashing(1.0, size=5, hashed=hashed) for hashed in ("index", "text"))  # type: ignore[arg-type]
    assert index.parameters == {"mechanism": "olh", "epsilon": 1.0, "size": 5, "seeds": 1024}
    assert text.parameters == {**index.parameters, "hashed": "text"}
    with pytest.raises(ValueError, match="hashed must be index or text, found 'bytes'"):
        LocalHashing(1.0, size=5, hashed="bytes")  # type: ignore[arg-type]


def test_a_family_of_hashes_has_nearly_the_variance_of_independent_hashes() -> None:
    """Over every report of a family: what is stated is of hashes that are drawn at random."""
    size = 9
    mechanism = LocalHashing(0.5, size=size, seeds=32)
    one = np.array([mechanism.unbiased_frequencies(row, 1) for row in np.eye(mechanism.cells(0), dtype=int)])
    column = mechanism.channel(size, 0).dense()
    np.testing.assert_allclose(column.T @ one, np.eye(size), atol=1e-9)
    rare = (column.T @ one**2)[~np.eye(size, dtype=bool)].mean()
    # Where the shares of all categories sum to one, that takes one part in so many off; a family is off by
    # its own collisions, here by 3.2%.
    assert rare == pytest.approx(mechanism.frequency_variance * (1 - 1 / size), rel=0.05)


@pytest.mark.parametrize("block", [1, 100, 2**22])
def test_supports_of_any_seed_equal_a_loop(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_hashing, "BLOCK_HASHES", block)
    mechanism = LocalHashing(1.0, size=13, seeds="any")
    reports = mechanism.perturb(np.arange(50) % 13, np.random.default_rng(9))
    counts = [50, 0] * 13
    for (seed, sent), value in itertools.product(reports.tolist(), range(13)):
        supported = xxhash.xxh32_intdigest(value.to_bytes(4, "little"), seed) % 4 == sent
        counts[2 * value] -= supported
        counts[2 * value + 1] += supported
    assert mechanism.histogram(reports, 0).tolist() == counts
    assert mechanism.histogram(reports[:0], 0).tolist() == [0] * 26


def test_hashes_from_g_up_and_seeds_beyond_the_family_are_refused() -> None:
    payloads = np.array(
        [(0, 0), (63, 3), (0, 4), (64, 0), (2**32 - 1, 0), (0, 2**32 - 1)],
        dtype=[("seed", "<u4"), ("hash", "<u4")],
    )
    family, free = LocalHashing(1.0, size=9, seeds=64), LocalHashing(1.0, size=9, seeds="any")
    assert family.is_report(payloads).tolist() == [True, True, False, False, False, False]
    assert free.is_report(payloads).tolist() == [True, True, False, True, True, False]
    assert family.payload_dtype.itemsize == 8
    assert np.frombuffer(bytes(range(8)), dtype=family.payload_dtype)[0].tolist() == (0x03020100, 0x07060504)


@pytest.mark.parametrize(
    ("epsilon", "size", "seeds", "allowed"),
    [
        # 2^16 seeds, 2^22 cells (2,982 hash values at epsilon 8), 2^27 hashes.
        (1.0, 5, 2**16 + 1, (4, 65536)),
        (8.0, 5, 1407, (1, 1406)),
        (4.0, 2**20, 129, None),
        (4.0, 1000, 36, (37, 65536)),
        (1.0, 5, 3, (4, 65536)),
        (1.0, 5, -1, (4, 65536)),
        (1.0, 5, 5.5, (4, 65536)),
        (1.0, 5, True, (4, 65536)),
        (1.0, 5, "every", (4, 65536)),
        (16.0, 5, 1, None),
    ],
)
def test_families_too_large_or_too_small_or_no_number_are_refused(
    epsilon: float, size: int, seeds: Any, allowed: tuple[int, int] | None
) -> None:
    family = f", or from {allowed[0]} to {allowed[1]}" if allowed else ""
    with pytest.raises(ValueError, match=rf"^seeds must be 'any'{family} with .* found {seeds!r}$"):
        LocalHashing(epsilon, size=size, seeds=seeds)
    for good in (*(allowed or ()), "any"):
        assert LocalHashing(epsilon, size=size, seeds=good).seeds == good  # type: ignore[arg-type]


def test_a_familys_smallest_size_tells_the_categories_apart() -> None:
    for epsilon, size in ((0.5, 9), (1.0, 30), (2.0, 100)):
        mechanism = LocalHashing(epsilon, size=size, seeds=2 * size // (round(math.exp(epsilon))) + 1)
        truth = np.random.default_rng(14).dirichlet(np.ones(size))
        expected = mechanism.channel(size, 0).dense() @ truth
        shares = mechanism.unbiased_frequencies(expected, 1)  # type: ignore[arg-type]
        np.testing.assert_allclose(shares, truth, atol=1e-7)


def test_the_default_family_adds_little_variance_and_has_any_seed_where_none_is_large_enough() -> None:
    for epsilon, size, seeds in ((1.0, 5, 1024), (1.0, 222, 2368), (9.0, 5, 517), (16.0, 5, "any")):
        mechanism = LocalHashing(epsilon, size=size)
        assert mechanism.seeds == seeds
        assert mechanism.parameters["seeds"] == seeds
        free = LocalHashing(epsilon, size=size, seeds="any")
        assert 1.0 <= mechanism.frequency_variance / free.frequency_variance < 1.04
    assert LocalHashing(1.0, size=2**20).seeds == "any"
    with pytest.raises(ValueError, match=r"cannot be joined by user; give a family such as seeds: 1024"):
        LocalHashing(1.0, size=5, seeds="any").cells(8)
    with pytest.raises(ValueError, match=r"more than 16 categories cannot be joined by user, found 17"):
        OptimisedUnaryEncoding(1.0, size=17).cells(8)


def test_shares_are_solved_once_for_each_histogram() -> None:
    """An estimate and its intervals ask for the same ones; what one of them writes to is its own."""
    rng = np.random.default_rng(1)
    first, second = rng.integers(1, 9, (2, LocalHashing(1.0, 12, seeds=64).cells(0)))
    mechanism, expected = LocalHashing(1.0, 12, seeds=64), LocalHashing(1.0, 12, seeds=64)
    of_second = expected.unbiased_frequencies(second, 500)
    for histogram, reports in ((first, 500), (second, 400), (second, 500), (second, 500)):
        shares = mechanism.unbiased_frequencies(histogram, reports)
        assert np.array_equal(shares, of_second) == (histogram is second and reports == 500)
        shares[:] = 0.0
