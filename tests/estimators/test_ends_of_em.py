"""Where EM of each kind of likelihood ends, when it stops, and what it says of its end."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from support import asked

from ldpbeam import Numeric, build_mechanism
from ldpbeam.channels import DenseChannel
from ldpbeam.estimators import estimate
from ldpbeam.estimators.conjugate import most_likely
from ldpbeam.estimators.em import fit_channel
from ldpbeam.estimators.iteration import Trace
from ldpbeam.mechanisms import (
    FrequencyMechanism,
    LocalHashing,
    OptimisedUnaryEncoding,
    Piecewise,
    RandomisedResponse,
    SquareWave,
    SymmetricUnaryEncoding,
)
from ldpbeam.mechanisms.categories.unary_encoding import UnaryEncoding
from ldpbeam.mechanisms.numbers.discrete_square_wave import DiscreteSquareWave
from ldpbeam.mechanisms.numbers.general_wave import GeneralWave
from ldpbeam.mechanisms.numbers.hybrid import Hybrid
from ldpbeam.mechanisms.ranges.binned import Binned

Floats = NDArray[np.float64]
UNIT = Numeric(0.0, 1.0)


def of_set_bits(set_bits: Sequence[int], reports: int) -> list[int]:
    """The histogram of reports that have these bits set so often."""
    return [count for present in set_bits for count in (reports - present, present)]


@pytest.mark.parametrize("counts", [[900, 700, 400, 380, 365], [900, 500, 300, 100, 60]])
@pytest.mark.parametrize("name", ["oue", "sue"])
def test_the_closed_form_of_unary_encodings_is_where_em_of_their_set_bits_ends(
    name: str, counts: list[int]
) -> None:
    mechanism = build_mechanism(name, asked.categories(5), 1.0)
    closed = estimate(
        "mle",
        asked.of_categories(mechanism),
        asked.of_counts(asked.of_categories(mechanism), of_set_bits(counts, 1500), users=1500),
    )
    p, q = mechanism.support_probabilities  # type: ignore[attr-defined]
    matrix = np.where(np.eye(5, dtype=bool), p, q) / (p + 4 * q)
    fit = fit_channel(
        DenseChannel(matrix), counts, smoothing=False, tolerance=1e-12, trace=Trace(5000), accelerated=True
    )
    assert fit.converged
    ends = [float(np.array(counts) @ np.log(matrix @ w)) for w in (closed.distribution, fit.weights)]
    assert ends[0] >= ends[1] - 1e-9
    assert ends[0] == pytest.approx(ends[1], abs=1e-7)
    np.testing.assert_allclose(closed.distribution, fit.weights, atol=1e-5)
    assert closed.details["likelihood"] == "composite: the set bits of a report as independent"
    assert closed.warnings == ()


@pytest.mark.parametrize("counts", [[900, 700, 400, 380, 365], [900, 500, 300, 100, 60]])
@pytest.mark.parametrize("name", ["oue", "sue", "olh any"])
def test_em_of_unary_encodings_ends_at_the_maximum_of_its_own_likelihood(
    name: str, counts: list[int]
) -> None:
    """That of single bits, set and unset, by the slopes at its end."""
    if name == "olh any":
        mechanism: Any = LocalHashing(1.0, size=5, seeds="any")
        p, q = math.e / (math.e + 3), 1 / 4
    else:
        mechanism = build_mechanism(name, asked.categories(5), 1.0)
        p, q = mechanism.support_probabilities  # type: ignore[attr-defined]
    attribute = asked.of_categories(mechanism)
    statistic = asked.of_counts(attribute, of_set_bits(counts, 1500), users=1500)

    def slopes(weights: Floats) -> Floats:
        present = q + (p - q) * weights
        return -(p - q) * (np.array(counts) / present - (1500 - np.array(counts)) / (1 - present))

    answer = estimate("em", attribute, statistic, options={"tolerance": 1e-12})
    assert answer.converged
    assert answer.n_iterations < 2000
    # Of a concave likelihood: by the slopes at its end, no distribution is likelier by more than this.
    assert slopes(answer.distribution) @ answer.distribution - slopes(answer.distribution).min() < 1e-2
    assert answer.details["composite"] == "the counts of one report are taken as independent"
    assert "likelihood" not in answer.details
    plain = estimate("em", attribute, statistic, options={"accelerated": False, "tolerance": 1e-3})
    assert plain.n_iterations > answer.n_iterations


EMPTY = (
    OptimisedUnaryEncoding(1.0, size=5),
    SymmetricUnaryEncoding(1.0, size=5),
    LocalHashing(1.0, size=5, seeds="any"),
)


@pytest.mark.parametrize("mechanism", EMPTY, ids=lambda mechanism: mechanism.name)
def test_where_no_bit_is_set_everybody_may_have_anything(mechanism: FrequencyMechanism) -> None:
    attribute = asked.of_categories(mechanism)
    statistic = asked.of_counts(attribute, of_set_bits([0] * 5, 40), users=40)
    names = ["em", "mr", "inversion", "norm_sub", "norm_cut", "norm_mul", "base_cut", "threshold", "iiw"]
    unary = isinstance(mechanism, UnaryEncoding)
    answer = {name: estimate(name, attribute, statistic) for name in (*names, *(["mle"] if unary else []))}
    for name, one in answer.items():
        assert np.isfinite(one.distribution).all(), name
        assert one.converged
    for name in ("em", "mr", "norm_sub", "norm_mul", *(["mle"] if unary else [])):
        np.testing.assert_allclose(answer[name].distribution, 0.2, atol=1e-12)
    assert answer["em"].warnings[0].startswith("the estimate is nearly uniform, as it started")
    for name in ("norm_cut", "base_cut", "threshold"):
        np.testing.assert_array_equal(answer[name].distribution, np.zeros(5))
    if unary:
        sentence = "no report names a category: nothing is known, and all are taken to be alike"
        assert answer["mle"].warnings == (sentence,)
    else:
        with pytest.raises(ValueError, match="it is for one service with grr, oue, sue or subset_selection"):
            estimate("mle", attribute, statistic)


@pytest.mark.parametrize("accelerated", [None, True, False])
def test_only_composite_likelihoods_are_accelerated_unasked(accelerated: bool | None) -> None:
    rng = np.random.default_rng(6)
    values = rng.choice(5, 3000, p=[0.5, 0.3, 0.15, 0.05, 0.0])
    for mechanism, composite in (
        (RandomisedResponse(1.0, size=5), False),
        (LocalHashing(1.0, size=5), False),
        (LocalHashing(1.0, size=5, seeds="any"), True),
        (OptimisedUnaryEncoding(1.0, size=5), True),
    ):
        attribute = asked.of_categories(mechanism)
        statistic = asked.statistic_of(attribute, values, rng)
        answer = estimate("em", attribute, statistic, options={"accelerated": accelerated})
        channel, histogram = attribute.channel(0), statistic.histograms[0]
        fit = fit_channel(
            channel, histogram, smoothing=False, tolerance=1e-3,
            trace=Trace(10_000), accelerated=composite if accelerated is None else accelerated,
        )  # fmt: skip
        if accelerated and not composite:
            fit = most_likely(channel, histogram.astype(np.float64), tolerance=1e-3, trace=Trace(10_000))
        assert answer.n_iterations == len(fit.log_likelihoods)
        np.testing.assert_array_equal(answer.distribution, fit.weights)
        assert ("composite" in answer.details) == composite
        assert "likelihood" not in answer.details


def test_both_of_several_services_and_of_bits_are_called_composite() -> None:
    attribute = asked.of_categories(RandomisedResponse(8.0, size=10), OptimisedUnaryEncoding(4.0, size=10))
    statistic = asked.statistic_of(attribute, np.arange(1000) % 10, 3)
    answer = estimate("em", attribute, statistic)
    assert answer.details["likelihood"] == "composite: reports of one user to several services as independent"
    assert answer.details["composite"] == "the counts of one report are taken as independent"


WAVES = SquareWave(2.0), GeneralWave(1.5, top=0.4), DiscreteSquareWave(3.0, bins=16)


@pytest.mark.parametrize(
    ("mechanisms", "epsilon"),
    [
        *(([wave], wave.epsilon) for wave in WAVES),
        (WAVES, 1.5),
        ([*WAVES, Piecewise(1.0)], None),
        ([Hybrid(2.0)], None),
        ([Piecewise(2.0)], None),
        ([Binned(2.0, bins=16, oracle="grr")], None),
    ],
)
def test_only_em_of_waves_alone_is_stopped_as_published(mechanisms: Any, epsilon: float | None) -> None:
    attribute, rng = asked.attribute_of(UNIT, *mechanisms, buckets=32), np.random.default_rng(5)
    statistic = asked.statistic_of(attribute, rng.beta(2, 5, 2000), rng)
    tolerance = 1e-3 if epsilon is None else 1e-3 * math.exp(epsilon)
    answer = estimate("em", attribute, statistic)
    assert answer.details["tolerance"] == pytest.approx(tolerance, rel=1e-12)
    gains = np.diff(answer.log_likelihoods)
    assert gains[-1] < tolerance <= gains[:-1].min()
    assert estimate("ems", attribute, statistic).details["tolerance"] == 1e-3
    assert estimate("mr", attribute, statistic).details["tolerance"] == 1e-3


def test_an_end_that_is_nearly_the_start_is_said() -> None:
    mechanism = RandomisedResponse(1.0, size=4)
    attribute, (p, q) = asked.of_categories(mechanism), mechanism.support_probabilities
    sentence = "nearly uniform, as it started: if people's values are not, lower the tolerance (1e-09)"
    # Weights within 5% of a quarter, and just not.
    for off, near in ((0.048, True), (0.052, False), (0.0, True)):
        weights = 0.25 * np.array([1 + off, 1 - off, 1.0, 1.0])
        statistic = asked.of_counts(attribute, np.rint(1e8 * (q + (p - q) * weights)), users=10**8)
        answer = estimate("em", attribute, statistic, options={"tolerance": 1e-9})
        assert answer.converged
        np.testing.assert_allclose(answer.distribution, weights, atol=1e-5)
        assert len(answer.warnings) == near
        assert all(sentence in warning for warning in answer.warnings)
    # Where it has not converged, that is what is said.
    short = estimate("em", attribute, statistic, options={"tolerance": 1e-30, "max_iterations": 1})
    assert short.warnings[0].startswith("not converged after 1 iterations")
    assert len(short.warnings) == 1
