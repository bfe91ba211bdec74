"""OLH, unary encodings, Hadamard response and sampled coordinates: probabilities, packing, inversions."""

from __future__ import annotations

import itertools
import math
import tracemalloc
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ldpbeam import Answers, Attribute, Categories, Numeric, ServiceVersion, build_mechanism, tally
from ldpbeam.channels import Channel
from ldpbeam.domains import Vector
from ldpbeam.estimators import estimate
from ldpbeam.mechanisms import (
    BlockHadamardResponse,
    CategoricalMechanism,
    HadamardRandomisedResponse,
    LocalHashing,
    OptimisedUnaryEncoding,
    Piecewise,
    RandomisedResponse,
    SampledCoordinate,
    SymmetricUnaryEncoding,
)
from ldpbeam.mechanisms.categories import local_hashing, unary_encoding
from ldpbeam.mechanisms.categories.unary_encoding import UnaryEncoding
from ldpbeam.mechanisms.categories.xxh32 import xxh32, xxh32_of_text

Floats = NDArray[np.float64]
reproducibly = settings(derandomize=True, deadline=None, max_examples=40)
words = st.integers(0, 2**32 - 1)


def make(name: str, epsilon: float, size: int, seeds: int = 64) -> CategoricalMechanism:
    kinds = {
        "oue": OptimisedUnaryEncoding,
        "sue": SymmetricUnaryEncoding,
        "hadamard": HadamardRandomisedResponse,
    }
    if name in kinds:
        return kinds[name](epsilon, size=size)
    return LocalHashing(epsilon, size=size, seeds="any" if name == "olh any" else seeds)


class Scripted:
    """Uniform draws that were written down."""

    def __init__(self, *draws: Sequence[float] | Floats) -> None:
        self.draws = [np.asarray(draw, dtype=np.float64) for draw in draws]

    def random(self, size: int) -> Floats:
        draw = self.draws.pop(0)
        assert draw.size == size
        return draw


def test_a_bit_vectors_probability_is_the_product_over_its_bits() -> None:
    for name, (own, other) in (
        ("oue", (0.5, 1 / (math.exp(1.2) + 1))),
        ("sue", (math.exp(0.6) / (math.exp(0.6) + 1), 1 / (math.exp(0.6) + 1))),
    ):
        matrix = make(name, 1.2, 4).channel(4, 0).dense()
        for bits in itertools.product((0, 1), repeat=4):
            row = sum(bit << place for place, bit in enumerate(bits))
            for category in range(4):
                p = [own if place == category else other for place in range(4)]
                expected = math.prod(q if bit else 1 - q for bit, q in zip(bits, p, strict=True))
                assert matrix[row, category] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 3.0])
def test_with_any_seed_the_own_hash_has_p_and_every_other_one_q(epsilon: float) -> None:
    """For one value and seed, over all draws: the hash's probabilities are p once, else q."""
    mechanism = LocalHashing(epsilon, size=50, seeds="any")
    g = round(math.exp(epsilon)) + 1
    keep = mechanism.probabilities[0]
    assert mechanism.hashes == g >= 2
    assert keep == pytest.approx(math.exp(epsilon) / (math.exp(epsilon) + g - 1), rel=1e-12)
    seeds = np.random.default_rng(1).random(20)
    for value, seed in itertools.product((0, 17, 49), seeds):
        hashed = int(mechanism.hash(np.array([value]), np.array([math.floor(seed * 2**32)]))[0])
        # Each draw of another hash stands for 1/(g - 1), kept ones (below p) for p, others for 1 - p.
        draws = (np.arange(g - 1) + 0.5) / (g - 1)
        probability = np.zeros(g)
        for kept, share in ((keep - 1e-9, keep), (keep + 1e-9, 1 - keep)):
            script = Scripted(np.full(g - 1, seed), np.full(g - 1, kept), draws)
            reports = mechanism.perturb(np.full(g - 1, value), script)
            assert set(reports["seed"].tolist()) == {math.floor(seed * 2**32)}
            probability += share / (g - 1) * np.bincount(reports["hash"], minlength=g)
        others = np.delete(probability, hashed)
        assert probability.sum() == pytest.approx(1.0, abs=1e-12)
        np.testing.assert_allclose(probability[hashed] / others, math.exp(epsilon), rtol=1e-9)


def test_any_seed_is_any_32_bits_and_a_family_its_own() -> None:
    ends = [0.0, 0.25, 1.0 - 2.0**-53]
    for seeds, expected in (("any", [0, 2**30, 2**32 - 1]), (64, [0, 16, 63]), (4, [0, 1, 3])):
        mechanism = LocalHashing(1.0, size=5, seeds=seeds)  # type: ignore[arg-type]
        found = mechanism.perturb([0, 1, 2], Scripted(ends, [0.0] * 3, [0.0] * 3))
        assert found["seed"].tolist() == expected
        assert found["hash"].tolist() == [
            xxhash.xxh32_intdigest(value.to_bytes(4, "little"), seed) % mechanism.hashes
            for value, seed in enumerate(expected)
        ]


def check_products(channel: Channel) -> None:
    rng, matrix = np.random.default_rng(3), channel.dense()
    for _ in range(3):
        weights, ratios = rng.dirichlet(np.ones(channel.shape[1])), rng.random(channel.shape[0])
        np.testing.assert_allclose(channel.matvec(weights), matrix @ weights, atol=1e-12)
        np.testing.assert_allclose(channel.rmatvec(ratios), ratios @ matrix, atol=1e-12)


def test_the_matrix_of_hashes_says_what_every_seed_does() -> None:
    mechanism = LocalHashing(1.0, size=6, seeds=9)
    matrix = mechanism.channel(6, 0).dense()
    p, q = math.e / (math.e + 3), 1 / (math.e + 3)
    for seed, value, sent in itertools.product(range(9), range(6), range(4)):
        hashed = xxhash.xxh32_intdigest(value.to_bytes(4, "little"), seed) % 4
        assert matrix[4 * seed + sent, value] == pytest.approx((p if hashed == sent else q) / 9, rel=1e-12)


@pytest.mark.parametrize("name", ["oue", "sue"])
def test_bits_of_long_vectors_are_drawn_and_counted_in_blocks_as_at_once(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mechanism, values = make(name, 1.0, 20), np.arange(500) % 20
    whole = mechanism.perturb(values, np.random.default_rng(6))
    counts = mechanism.histogram(whole, 0)
    monkeypatch.setattr(unary_encoding, "BLOCK_BITS", 20 * 99)  # the last of six blocks is short
    assert mechanism.perturb(values, np.random.default_rng(6)).tobytes() == whole.tobytes()
    assert mechanism.histogram(whole, 0).tolist() == counts.tolist()


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


def test_variances_are_those_of_the_papers() -> None:
    for epsilon in (0.3, 1.0, 3.0):
        E = math.exp(epsilon)
        s = math.exp(epsilon / 2)
        assert make("oue", epsilon, 9).frequency_variance == pytest.approx(4 * E / (E - 1) ** 2)
        assert make("sue", epsilon, 9).frequency_variance == pytest.approx(s / (s - 1) ** 2)
        # Row 0 of the 16 says nothing, and has no noise.
        hadamard = 15 / 16 * ((E + 1) / (E - 1)) ** 2 - 1 / 16**2
        assert make("hadamard", epsilon, 9).frequency_variance == pytest.approx(hadamard)
    # Where g is E + 1 exactly, OLH's is OUE's.
    assert make("olh any", math.log(3), 9).frequency_variance == pytest.approx(4 * 3 / 2**2)


@pytest.mark.parametrize("name", ["oue", "sue", "hadamard"])
def test_the_variance_of_a_rare_category_is_that_of_one_reports_share(name: str) -> None:
    """Exactly, over every report that there is: its share of a category that its sender has not."""
    for size in (2, 3, 9):
        mechanism = make(name, 0.8, size)
        payloads = np.arange(mechanism.cells(0))
        if isinstance(mechanism, UnaryEncoding):
            width = mechanism.payload_dtype.itemsize
            packed = [number.to_bytes(width, "little") for number in payloads.tolist()]
            payloads = np.array(packed, f"V{width}")
        histograms = [mechanism.histogram(payloads[i : i + 1], 0) for i in range(len(payloads))]
        shares = np.array([mechanism.unbiased_frequencies(histogram, 1) for histogram in histograms])
        column = mechanism.channel(size, 0).dense()[:, 0]
        np.testing.assert_allclose(column @ shares, [1.0, *[0.0] * (size - 1)], atol=1e-12)
        np.testing.assert_allclose(column @ shares[:, 1:] ** 2, mechanism.frequency_variance, rtol=1e-12)


def test_a_family_of_hashes_has_nearly_the_variance_of_independent_hashes() -> None:
    """Over every report of a family: what is stated is of hashes that are drawn at random."""
    size = 9
    mechanism = make("olh", 0.5, size, seeds=32)
    one = np.array([mechanism.unbiased_frequencies(row, 1) for row in np.eye(mechanism.cells(0), dtype=int)])
    column = mechanism.channel(size, 0).dense()
    np.testing.assert_allclose(column.T @ one, np.eye(size), atol=1e-9)
    rare = (column.T @ one**2)[~np.eye(size, dtype=bool)].mean()
    # Where the shares of all categories sum to one, that takes one part in so many off; a family is off by
    # its own collisions, here by 3.2%.
    assert rare == pytest.approx(mechanism.frequency_variance * (1 - 1 / size), rel=0.05)


class Undeclared(HadamardRandomisedResponse):
    """HRR that does not say what a report supports, as a plug-in may: its variances come from reports."""

    support_probabilities = None  # type: ignore[assignment]
    share_variances = CategoricalMechanism.share_variances  # type: ignore[assignment]


@pytest.mark.parametrize(
    "kind", [RandomisedResponse, HadamardRandomisedResponse, BlockHadamardResponse, Undeclared]
)
@pytest.mark.parametrize("noise", [0.0, 2.0])
def test_the_variance_of_a_share_is_that_of_its_reports_whatever_the_other_shares_are_taken_for(
    kind: type[CategoricalMechanism], noise: float
) -> None:
    """Shares that are mostly noise sum to more than one, and change no variance but by their own."""
    mechanism = kind(1.5, size=20)
    truth = 1.0 / np.arange(1, 21)
    truth /= truth.sum()
    channel = mechanism.channel(20, 0).dense()
    # So many reports that counts are as expected.
    histogram = np.rint(1e12 * channel @ truth).astype(np.int64)
    said = np.stack(
        [mechanism.unbiased_frequencies(one, 1) for one in np.eye(len(histogram), dtype=np.int64)]
    )
    exact = (channel.T @ said**2 - (channel.T @ said) ** 2).T @ truth
    taken = np.where(np.arange(20) == 3, truth, np.minimum(truth * (1.0 + noise), 1.0))
    found = mechanism.share_variances(taken, histogram)
    assert found[3] == pytest.approx(exact[3], rel=1e-9)
    if not noise:
        np.testing.assert_allclose(found, exact, rtol=1e-9)


@pytest.mark.parametrize("name", ["oue", "sue", "olh any"])
def test_the_channel_of_single_bits_is_what_a_report_says_bit_by_bit(name: str) -> None:
    for size in (2, 3, 9):
        mechanism = make(name, 1.3, size)
        channel = mechanism.histogram_channel(size, 0)
        check_products(channel)
        if name == "olh any":
            growth = math.exp(1.3)
            g = round(growth) + 1
            present = np.full((size, size), 1 / g)
            np.fill_diagonal(present, growth / (growth + g - 1))
        else:
            bits = np.arange(2**size)[:, None] >> np.arange(size) & 1
            present = bits.T @ mechanism.channel(size, 0).dense()
        np.testing.assert_allclose(size * channel.dense()[1::2], present, rtol=1e-12)
        np.testing.assert_allclose(size * channel.dense()[::2], 1 - present, rtol=1e-12)


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


@pytest.mark.parametrize("size", [2, 3, 8, 9, 16, 17])
def test_category_k_is_bit_k_mod_8_of_byte_k_over_8(size: int) -> None:
    mechanism = OptimisedUnaryEncoding(1.0, size=size)
    width = -(-size // 8)
    assert mechanism.payload_dtype.itemsize == width
    # Draws of one: no bit is set; of zero: it is.
    draws = np.ones((size, size)) - 1e-9
    np.fill_diagonal(draws, 0.0)
    reports = mechanism.perturb(np.roll(np.arange(size), 1), Scripted(draws.ravel()))
    assert [bytes(r) for r in reports] == [(1 << k).to_bytes(width, "little") for k in range(size)]
    everything = mechanism.perturb([0], Scripted(np.zeros(size)))
    assert bytes(everything[0]) == (2**size - 1).to_bytes(width, "little")
    if size <= 16:
        assert mechanism.bucketise(reports, 0).tolist() == [1 << k for k in range(size)]
        assert mechanism.bucketise(everything, 0).tolist() == [2**size - 1]
    for column, report in zip(np.eye(size, dtype=int).tolist(), reports, strict=True):
        pairs = [count for bit in column for count in (1 - bit, bit)]
        assert mechanism.histogram(np.array([report]), 0).tolist() == pairs


def test_bits_after_the_last_category_are_refused() -> None:
    for size in (2, 3, 7, 8, 9, 15, 16):
        mechanism = SymmetricUnaryEncoding(1.0, size=size)
        width = -(-size // 8)
        numbers = range(2 ** (8 * width)) if width == 1 else [*range(2**size - 5, 2 ** (8 * width), 97)]
        payloads = np.array([number.to_bytes(width, "little") for number in numbers], dtype=f"V{width}")
        assert mechanism.is_report(payloads).tolist() == [number < 2**size for number in numbers]


def test_own_bits_are_set_with_p_and_others_with_q_at_the_very_limit() -> None:
    for name in ("oue", "sue"):
        mechanism = make(name, 1.0, 3)
        assert isinstance(mechanism, UnaryEncoding)
        p, q = mechanism.support_probabilities
        draws = [p - 1e-9, q - 1e-9, q + 1e-9, p + 1e-9, q + 1e-9, q - 1e-9]
        assert [bytes(r) for r in mechanism.perturb([0, 0], Scripted(draws))] == [b"\3", b"\4"]


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


def test_rows_and_signs_of_hadamard_response_end_with_its_matrix() -> None:
    mechanism = HadamardRandomisedResponse(1.0, size=5)
    assert (mechanism.order, mechanism.cells(0)) == (8, 16)
    assert [HadamardRandomisedResponse(1.0, size=size).order for size in (2, 4, 8, 9)] == [2, 4, 8, 16]
    payloads = np.array([0, 15, 16, -1, 0.5, np.nan, np.inf])
    assert mechanism.is_report(payloads).tolist() == [True, True, False, False, False, False, False]
    # Sylvester's matrix, by doubling; the report of a kept sign is 2 row + (entry is +1).
    matrix = np.ones((1, 1))
    for _ in range(3):
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    rows = (np.arange(8) + 0.5) / 8
    for category, kept in itertools.product(range(5), (True, False)):
        draws = Scripted(rows, np.full(8, mechanism.keep + (-1e-9 if kept else 1e-9)))
        entries = matrix[:, category] > 0
        expected = 2 * np.arange(8) + (entries if kept else ~entries)
        assert mechanism.perturb(np.full(8, category), draws).tolist() == expected.tolist()


def test_a_third_of_a_million_reports_of_olh_are_estimated_in_little_memory() -> None:
    size, users = 222, 333_000
    mechanism = LocalHashing(1.0, size=size)
    names = Categories(tuple(map(str, range(size))))
    attribute = Attribute("colour", names, 0, (ServiceVersion("s", "", mechanism),))
    rng = np.random.default_rng(10)
    values = np.minimum(rng.geometric(0.1, users) - 1, size - 1)
    reports = mechanism.perturb(values, rng)
    tracemalloc.start()
    try:
        statistic = tally(attribute, users, [Answers(0, np.arange(users), reports)])
        found = estimate("em", attribute, statistic, options={"max_iterations": 40, "accelerated": True})
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 200e6
    assert found.distribution is not None
    # EM is on its way to the truth already: nearer than the uniform guess.
    truth = np.bincount(values, minlength=size) / users
    assert np.abs(found.distribution - truth).sum() < 0.5 * np.abs(1 / size - truth).sum()


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
        found = mechanism.unbiased_frequencies(expected, 1)  # type: ignore[arg-type]
        np.testing.assert_allclose(found, truth, atol=1e-7)


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


@reproducibly
@given(epsilon=st.floats(0.05, 5.0), size=st.integers(2, 500))
def test_auto_is_grr_where_there_are_few_categories_for_the_epsilon(epsilon: float, size: int) -> None:
    found = build_mechanism("auto", Categories(tuple(map(str, range(size)))), epsilon)
    assert found.name == ("grr" if size - 2 < 3 * math.exp(epsilon) else "olh")
    assert found.epsilon == epsilon


def of_vector(name: str, epsilon: float, size: int) -> SampledCoordinate:
    names = tuple(f"c{i}" for i in range(size))
    found = build_mechanism(name, Vector(names, Numeric(0.0, 1.0)), epsilon)
    assert isinstance(found, SampledCoordinate)
    return found


def test_which_coordinate_is_drawn_does_not_depend_on_the_values() -> None:
    mechanism = of_vector("piecewise", 1.0, 7)
    one, other = np.zeros((1000, 7)), np.random.default_rng(12).random((1000, 7))
    drawn = [mechanism.perturb(v, np.random.default_rng(13))["coordinate"] for v in (one, other, 1 - one)]
    assert len(set(drawn[0].tolist())) == 7
    assert np.array_equal(drawn[0], drawn[1])
    assert np.array_equal(drawn[0], drawn[2])
    # With a coordinate's value alone the reports of the others stay: no report tells of two values.
    moved = one.copy()
    moved[:, 2] = 1.0
    still, changed = (mechanism.perturb(v, np.random.default_rng(13)) for v in (one, moved))
    differ = still["report"] != changed["report"]
    assert set(drawn[0][differ].tolist()) == {2}


def test_reports_of_unknown_coordinates_or_of_no_inner_report_are_refused() -> None:
    mechanism = SampledCoordinate(1.0, size=3, inner=Piecewise(1.0))
    payloads = np.zeros(6, dtype=mechanism.payload_dtype)
    payloads["coordinate"] = [0, 2, 3, 2**32 - 1, 0, 0]
    payloads["report"] = [4.08, -4.08, 0.0, 0.0, 4.09, np.nan]
    assert mechanism.is_report(payloads).tolist() == [True, True, False, False, False, False]
    assert mechanism.payload_dtype.itemsize == 12
    assert np.frombuffer(b"\1\0\0\0" + np.float64(0.5).tobytes(), mechanism.payload_dtype)[0].tolist() == (
        1,
        0.5,
    )
    with pytest.raises(ValueError, match="one coordinate at a time"):
        mechanism.channel(4, 4)
