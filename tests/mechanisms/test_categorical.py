"""Unary encodings, Hadamard response and sampled coordinates: probabilities, counts, variances."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.forced_responses import forced_responses

from ldpbeam import Categories, build_mechanism
from ldpbeam.mechanisms import (
    BlockHadamardResponse,
    CategoricalMechanism,
    HadamardRandomisedResponse,
    LocalHashing,
    OptimisedUnaryEncoding,
    Piecewise,
    RandomisedResponse,
    SampledCoordinate,
    SubsetSelection,
    SymmetricUnaryEncoding,
)
from ldpbeam.mechanisms.categories import unary_encoding
from ldpbeam.mechanisms.categories.unary_encoding import UnaryEncoding

reproducibly = settings(derandomize=True, deadline=None, max_examples=40)


def make(name: str, epsilon: float, size: int, seeds: int = 64) -> CategoricalMechanism:
    kinds = {
        "oue": OptimisedUnaryEncoding,
        "sue": SymmetricUnaryEncoding,
        "subset_selection": SubsetSelection,
        "hadamard": HadamardRandomisedResponse,
    }
    if name in kinds:
        return kinds[name](epsilon, size=size)
    return LocalHashing(epsilon, size=size, seeds="any" if name == "olh any" else seeds)


def test_a_bit_vectors_probability_is_the_product_over_its_bits() -> None:
    for name, (kept, other) in (
        ("oue", (0.5, 1 / (math.exp(1.2) + 1))),
        ("sue", (math.exp(0.6) / (math.exp(0.6) + 1), 1 / (math.exp(0.6) + 1))),
    ):
        matrix = make(name, 1.2, 4).channel(4, 0).dense()
        for bits in itertools.product((0, 1), repeat=4):
            row = sum(bit << at for at, bit in enumerate(bits))
            for category in range(4):
                p = [kept if at == category else other for at in range(4)]
                expected = math.prod(q if bit else 1 - q for bit, q in zip(bits, p, strict=True))
                assert matrix[row, category] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", ["oue", "sue", "subset_selection"])
def test_bits_of_long_vectors_are_drawn_and_counted_in_blocks_as_at_once(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mechanism, values = make(name, 1.0, 20), np.arange(500) % 20
    whole = mechanism.perturb(values, np.random.default_rng(6))
    counts = mechanism.histogram(whole, 0)
    assert counts[1::2].tolist() == mechanism.supported(whole).sum(axis=0).tolist()
    monkeypatch.setattr(unary_encoding, "BLOCK_BITS", 20 * 99)  # the last of six blocks is short
    assert mechanism.perturb(values, np.random.default_rng(6)).tobytes() == whole.tobytes()
    assert mechanism.histogram(whole, 0).tolist() == counts.tolist()


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


def of_a_table(epsilon: float, size: int) -> CategoricalMechanism:
    names = Categories(tuple(map(str, range(size))))
    return build_mechanism("matrix", names, epsilon, **forced_responses(size, epsilon))


class Undeclared(HadamardRandomisedResponse):
    """HRR that does not say what a report supports, as a plug-in may: its variances come from reports."""

    support_probabilities = None  # type: ignore[assignment]
    share_variances = CategoricalMechanism.share_variances  # type: ignore[assignment]


@pytest.mark.parametrize(
    "kind",
    [
        RandomisedResponse, HadamardRandomisedResponse, BlockHadamardResponse, Undeclared,
        functools.partial(LocalHashing, seeds=32), of_a_table,
    ],
)  # fmt: skip
@pytest.mark.parametrize("noise", [0.0, 2.0])
def test_the_variance_of_a_share_is_that_of_its_reports_whatever_the_other_shares_are_taken_for(
    kind: Callable[..., CategoricalMechanism], noise: float
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
    variances = mechanism.share_variances(taken, histogram)
    assert variances[3] == pytest.approx(exact[3], rel=1e-9)
    if not noise:
        np.testing.assert_allclose(variances, exact, rtol=1e-9)


@pytest.mark.parametrize("name", ["oue", "sue", "olh any"])
def test_the_channel_of_single_bits_is_what_a_report_says_bit_by_bit(name: str) -> None:
    for size in (2, 3, 9):
        mechanism = make(name, 1.3, size)
        channel = mechanism.histogram_channel(size, 0)
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


def test_bits_after_the_last_category_are_refused() -> None:
    for size in (2, 3, 7, 8, 9, 15, 16):
        mechanism = SymmetricUnaryEncoding(1.0, size=size)
        width = -(-size // 8)
        numbers = range(2 ** (8 * width)) if width == 1 else [*range(2**size - 5, 2 ** (8 * width), 97)]
        payloads = np.array([number.to_bytes(width, "little") for number in numbers], dtype=f"V{width}")
        assert mechanism.is_report(payloads).tolist() == [number < 2**size for number in numbers]


@reproducibly
@given(epsilon=st.floats(0.05, 5.0), size=st.integers(2, 500))
def test_auto_is_grr_where_there_are_few_categories_for_the_epsilon(epsilon: float, size: int) -> None:
    auto = build_mechanism("auto", Categories(tuple(map(str, range(size)))), epsilon)
    assert auto.name == ("grr" if size - 2 < 3 * math.exp(epsilon) else "olh")
    assert auto.epsilon == epsilon


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
