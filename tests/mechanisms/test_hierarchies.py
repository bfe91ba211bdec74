"""Mechanisms of equal bins and trees of them: CFO with binning, HH and HaarHRR."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.linalg import hadamard
from support.asked import leaves_below

from ldpbeam import Attribute, Numeric, ServiceVersion, build_mechanism
from ldpbeam.mechanisms import RandomisedResponse
from ldpbeam.mechanisms.ranges.binned import BinMechanism
from ldpbeam.mechanisms.ranges.haar import Haar
from ldpbeam.mechanisms.ranges.hierarchy import Hierarchy, constrained_inference, node_variance

Floats = NDArray[np.float64]
DOMAIN = Numeric(-3.0, 7.0)
reproducibly = settings(derandomize=True, deadline=None, max_examples=40)


def hierarchy(epsilon: float = 1.0, **options: Any) -> Hierarchy:
    return build_mechanism("hierarchy", DOMAIN, epsilon, **options)


def test_the_channel_of_a_tree_is_the_one_its_words_say() -> None:
    E, expected = math.exp(1.0), []
    for size in (3, 9):  # a level is drawn evenly of two, then GRR over its nodes
        for report in range(size):
            own = [leaf * size // 9 == report for leaf in range(9)]
            expected.append([(E if match else 1.0) / (E + size - 1) / 2 for match in own])
    matrix = hierarchy(1.0, branching=3, leaves=9, oracle="grr").channel(9, 1).dense()
    np.testing.assert_allclose(matrix, expected, atol=1e-15)


def test_the_channel_of_haar_is_the_one_its_words_say() -> None:
    E, expected = math.exp(1.0), []
    for level in range(3):  # of 8 leaves
        order, width = 2**level, 8 // 2**level
        for row in range(order):
            for sign in (-1, 1):
                kept = []
                for leaf in range(8):
                    half = 1 if leaf % width < width // 2 else -1
                    entry = hadamard(order)[row, leaf // width] * half
                    kept.append((E if entry == sign else 1.0) / (E + 1) / order / 3)
                expected.append(kept)
    np.testing.assert_allclose(Haar(1.0, 8).channel(8, 1).dense(), expected, atol=1e-15)


def expected_histogram(mechanism: BinMechanism, truth: Floats, reports: int) -> NDArray[np.int64]:
    """What so many reports give on average, rounded."""
    channel = mechanism.channel(mechanism.bins, 1).dense()
    return np.rint(reports * (channel @ truth)).astype(np.int64)


@pytest.mark.parametrize(
    ("name", "options", "epsilon", "repetitions"),
    [
        ("haar", {"leaves": 32}, 0.5, 1000),
        ("hierarchy", {"branching": 2, "leaves": 32, "oracle": "hadamard"}, 0.5, 1000),
        ("hierarchy", {"branching": 3, "leaves": 27, "oracle": "hadamard"}, 1.5, 1000),
        ("hierarchy", {"branching": 4, "leaves": 16, "oracle": "auto"}, 1.5, 300),
    ],
)
def test_the_variance_of_a_leaf_is_the_stated_one(
    name: str, options: dict[str, Any], epsilon: float, repetitions: int
) -> None:
    mechanism = build_mechanism(name, DOMAIN, epsilon, **options)
    truth = np.full(mechanism.bins, 1.0 / mechanism.bins)
    column = mechanism.channel(mechanism.bins, 1).matvec(truth)
    reports = 100_000
    rng = np.random.default_rng(6)
    squares, errors = [], []
    for histogram in (rng.multinomial(reports, column) for _ in range(repetitions)):
        found = mechanism.unbiased_frequencies(histogram, reports)
        assert found.sum() == pytest.approx(1.0, abs=1e-9)
        errors.append(found - truth)
        squares.append(reports * np.square(found - truth).mean())
    # The mean of the squares has their deviation over the root of the repetitions as standard error.
    squares_error = np.std(squares) / math.sqrt(repetitions)
    stated = mechanism.frequency_variance
    assert squares_error < 0.025 * stated
    assert abs(np.mean(squares) - stated) < 4 * squares_error
    worst = np.abs(np.mean(errors, axis=0)).max()
    assert worst < 4.5 * math.sqrt(stated / reports / repetitions)


@reproducibly
@given(
    tree=st.sampled_from([(2, 2), (2, 16), (3, 27), (4, 16), (5, 5)]),
    seed=st.integers(0, 2**32 - 1),
    skipped=st.integers(0, 3),
)
def test_constrained_inference_is_least_squares(tree: tuple[int, int], seed: int, skipped: int) -> None:
    branching, leaves = tree
    rng = np.random.default_rng(seed)
    levels = leaves_below(branching, leaves)
    weights = rng.uniform(0.01, 10.0, len(levels))
    if skipped < len(levels) - 1:  # a level that says nothing, above the leaves
        weights[skipped] = 0.0
    shares = [rng.normal(size=len(level)) for level in levels]
    quadratic = sum(w * A.T @ A for w, A in zip(weights, levels, strict=True))
    linear = sum(w * A.T @ f for w, A, f in zip(weights, levels, shares, strict=True))
    ones = np.ones((1, leaves))
    kkt = np.block([[quadratic, ones.T], [ones, np.zeros((1, 1))]])
    exact = np.linalg.solve(kkt, np.append(linear, 1.0))[:leaves]
    np.testing.assert_allclose(constrained_inference(shares, weights, branching), exact, atol=1e-9)


def test_levels_without_reports_have_no_weight() -> None:
    mechanism = hierarchy(1.0, branching=2, leaves=8, oracle="grr")
    truth = np.random.default_rng(7).dirichlet(np.ones(8))
    histogram = expected_histogram(mechanism, truth, 3 * 10**12)
    histogram[2:6] = 0  # level 2
    assert mechanism.level_reports(histogram).tolist() == pytest.approx([10**12, 0, 10**12])
    assert mechanism.level_shares(histogram)[1].tolist() == [0.0] * 4
    np.testing.assert_allclose(mechanism.unbiased_frequencies(histogram, 1), truth, atol=1e-9)
    histogram[6:] = 0  # level 3 too: only halves are known
    halves = np.repeat(truth.reshape(2, 4).sum(axis=1) / 4, 4)
    np.testing.assert_allclose(mechanism.unbiased_frequencies(histogram, 1), halves, atol=1e-9)
    haar = Haar(1.0, 8)
    reports = expected_histogram(haar, truth, 3 * 10**12)
    reports[6:] = 0  # the lowest level
    pairs = np.repeat(truth.reshape(4, 2).sum(axis=1) / 2, 2)
    np.testing.assert_allclose(haar.unbiased_frequencies(reports, 1), pairs, atol=1e-9)


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0])
def test_olh_nodes_vary_as_their_supports_do(epsilon: float) -> None:
    # Half the variance of the difference of two nodes' shares, from the probabilities that a report of
    # another node, or of one of the two, supports them: independent hashes.
    size = 16
    family = hierarchy(epsilon, branching=size, leaves=size, oracle="olh").reporters[0]
    oracle = dataclasses.replace(family, seeds="any")
    E, g = math.exp(epsilon), round(math.exp(epsilon)) + 1
    p = E / (E + g - 1)
    of_one, of_other = p * (1 - 1 / g) + (1 - p) / g, 2 / g * (1 - 1 / g)
    second = (2 * of_one + (size - 2) * of_other) / size / (p - 1 / g) ** 2
    assert node_variance(oracle) == pytest.approx(second / 2, rel=1e-12)


def test_a_tree_of_olh_whose_hashes_are_too_many_for_a_family_is_refused() -> None:
    for leaves in (8, 64):
        with pytest.raises(ValueError, match="olh at epsilon 20 over 2 nodes keeps no counts by seed"):
            hierarchy(20.0, branching=2, leaves=leaves, oracle="olh")


def accepted(mechanism: Hierarchy, *reports: tuple[int, int, int]) -> list[bool]:
    return [bool(found) for found in mechanism.is_report(np.array(list(reports), mechanism.payload_dtype))]


def test_reports_that_no_client_of_a_tree_can_send_are_refused() -> None:
    top = 2**32 - 1
    grr = hierarchy(1.0, branching=4, leaves=16, oracle="grr")
    assert grr.payload_dtype.itemsize == 9
    assert accepted(grr, (1, 0, 0), (1, 0, 3), (2, 0, 15)) == [True] * 3
    assert accepted(grr, (0, 0, 0), (3, 0, 0), (255, 0, 0)) == [False] * 3
    assert accepted(grr, (1, 0, 4), (2, 0, 16), (1, 0, top), (2, 1, 0), (1, top, 0)) == [False] * 5
    rows = hierarchy(1.0, branching=3, leaves=9, oracle="hadamard")
    assert accepted(rows, (1, 0, 7), (2, 0, 31)) == [True] * 2
    assert accepted(rows, (1, 0, 8), (2, 0, 32), (2, 5, 0)) == [False] * 3
    olh = hierarchy(1.0, branching=4, leaves=16, oracle="olh")
    assert accepted(olh, (1, 1, 0), (2, 1023, 3)) == [True] * 2
    assert accepted(olh, (1, 0, 4), (2, top, 0), (0, 0, 0), (3, 0, 0)) == [False] * 4
    # At epsilon 1 GRR is better for 4 nodes, OLH for 16: only level 2 has a seed.
    auto = hierarchy(1.0, branching=4, leaves=16)
    assert [oracle.name for oracle in auto.reporters] == ["grr", "olh"]
    assert accepted(auto, (1, 0, 1), (1, 7, 1), (2, 7, 1), (2, 7, 5)) == [True, False, True, False]


@pytest.mark.parametrize("name", ["binned", "hierarchy", "haar"])
def test_buckets_that_are_no_multiple_are_refused(name: str) -> None:
    option = {"bins": 16} if name == "binned" else {"leaves": 16}
    mechanism = build_mechanism(name, DOMAIN, 1.0, **option)
    for buckets in (40, 8):
        for channel in (mechanism.channel, mechanism.histogram_channel):
            with pytest.raises(ValueError, match=f"value buckets, found {buckets}"):
                channel(buckets, 64)
    assert mechanism.histogram_channel(48, 64).shape[1] == 48


def test_a_fingerprint_is_of_the_oracles_that_were_chosen() -> None:
    def fingerprint(name: str, **options: Any) -> str:
        mechanism = build_mechanism(name, DOMAIN, 1.0, **options)
        return Attribute("x", DOMAIN, 256, (ServiceVersion("s", "", mechanism),)).fingerprint

    assert fingerprint("binned", bins=8) == fingerprint("binned", bins=8, oracle="grr")
    assert fingerprint("binned", bins=32) == fingerprint("binned", bins=32, oracle="olh")
    flat = {"branching": 4, "leaves": 4}
    assert fingerprint("hierarchy", **flat) == fingerprint("hierarchy", **flat, oracle="grr")
    different = [
        fingerprint("binned", bins=32, oracle="grr"), fingerprint("binned", bins=32),
        fingerprint("binned", bins=64), fingerprint("hierarchy", branching=2),
        fingerprint("hierarchy", branching=4), fingerprint("hierarchy", branching=4, oracle="grr"),
        fingerprint("haar", leaves=256), fingerprint("haar", leaves=16),
    ]  # fmt: skip
    assert len(set(different)) == len(different)


def test_auto_takes_the_oracle_of_lower_variance_level_by_level() -> None:
    names = [oracle.name for oracle in hierarchy(2.0, branching=2, leaves=64).reporters]
    # size - 2 < 3 exp(2) = 22.2 up to 16 nodes.
    assert names == ["grr"] * 4 + ["olh"] * 2
    assert isinstance(hierarchy(2.0, branching=4, leaves=4).reporters[0], RandomisedResponse)
    assert [oracle.size for oracle in hierarchy(1.0).reporters] == [4, 16, 64, 256]
