"""The grid of benchmarks: its populations and its fixed methods."""

import json
from dataclasses import asdict

import numpy as np
import pytest

from benchmarks.grid import released
from benchmarks.grid.__main__ import left, read
from benchmarks.grid.cells import Cell, Result, cells, losses, methods, results
from benchmarks.grid.compare import compared
from benchmarks.grid.methods import AUTO, FIXED, MECHANISMS, OF_NUMBERS, Ours, asked
from benchmarks.grid.populations import NUMBERS, is_here
from benchmarks.grid.tables import tables
from ldpbeam import Answers, tally
from ldpbeam.estimators import check


def test_an_estimate_has_the_losses_of_numbers():
    cell = Cell("SW", "smooth: Beta(4, 3)", 1.0, 1_000)
    truth = np.full(1_024, 1 / 1_024)
    # Everybody is a quarter higher: the distribution function of 64 of 256 buckets has moved on.
    found = losses(cell, np.concatenate((np.zeros(64), np.full(192, 1 / 192))), truth)
    assert found["ks"] == pytest.approx(0.25, abs=1e-9)
    # The 5% quantile is 0.25 + 0.75 x 0.05, the 95% one 0.25 + 0.75 x 0.95.
    assert found["tails"] == pytest.approx((0.2375 + 0.0125) / 2, abs=1e-9)
    assert found["loss"] == pytest.approx(0.125, abs=1e-3)
    assert found["squares"] == pytest.approx((64 / 256**2 + 192 * (1 / 192 - 1 / 256) ** 2) / 256, rel=1e-9)


@pytest.mark.parametrize("population", [*filter(is_here, NUMBERS)], ids=lambda own: own.name)
def test_numbers_of_people_are_in_the_domain(population):
    values = population.draw(1_000, np.random.default_rng(3))
    assert values.min() >= 0.0 and values.max() <= 1.0


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_every_fixed_method_of_ours_fits_the_mechanism(mechanism):
    attribute = asked(mechanism, 1.0, 20)
    ours = [method for method in FIXED[mechanism] if isinstance(method, Ours)]
    for method in ours:
        check(method.estimator, attribute, attribute.services, method.options)
    names = [method.name for method in FIXED[mechanism]]
    assert len(set(names)) == len(names)
    assert not any(method.estimator == "auto" for method in ours)
    assert (attribute.value_buckets == 256) == (mechanism in OF_NUMBERS)


def dense_smoothing(buckets, kernel):
    matrix = np.zeros((buckets, buckets))
    a, b = kernel
    for i in range(1, buckets - 1):
        matrix[i, i - 1 : i + 2] = (a, b, a)
    matrix[0, :2] = (b, a)
    matrix[-1, -1] = 1.0
    return matrix / matrix.sum(axis=1, keepdims=True)


def dense_em(matrix, counts, kernel, tolerance, most=10_000, least_gain=None):
    """The table's rules, as plainly as they can be written: (weights, steps)."""
    n, buckets = counts.sum(), matrix.shape[1]
    smoothing = None if kernel is None else dense_smoothing(buckets, kernel)
    weights, likelihood, gain, steps = np.ones(buckets) / buckets, 0.0, 100.0, 0
    while True:
        old = weights
        weights = old * (matrix.T @ (counts / (matrix @ old)))
        weights = weights / weights.sum()
        if smoothing is not None and (least_gain is None or gain > least_gain):
            weights = smoothing @ weights
            weights = weights / weights.sum()
        now = counts @ np.log(matrix @ weights)
        gain, likelihood = now - likelihood, now
        steps += 1
        if (steps > 2 and abs(gain) < tolerance) or np.abs(weights - old).sum() <= 1 / n or steps == most:
            return weights, steps


def one_service(mechanism, epsilon, people, buckets=48):
    rng = np.random.default_rng(11)
    attribute = asked(mechanism, epsilon, 0, buckets)
    values = rng.beta(2.0, 4.0, people)
    answers = [
        Answers(place, np.arange(people), version.mechanism.perturb(values, rng))
        for place, version in enumerate(attribute.versions)
    ]
    return attribute, tally(attribute, people, answers)


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
@pytest.mark.parametrize(
    ("mechanism", "function", "rules"),
    [
        ("SW", released.sw_em, lambda growth: {"kernel": None, "tolerance": 1e-3}),
        ("SW", released.sw_ems, lambda growth: {"kernel": (1, 2), "tolerance": 1e-3}),
        (
            "SW",
            released.sw_ems_fading,
            lambda growth: {"kernel": (1, 4), "tolerance": 1e-3 * growth, "least_gain": 0.003},
        ),
        ("PM", released.pm_ems, lambda growth: {"kernel": (1, 2), "tolerance": 1e-3 * growth, "most": 5000}),
    ],
)
def test_released_numbers_are_those_of_dense_loops(mechanism, function, rules, epsilon):
    attribute, statistic = one_service(mechanism, epsilon, 3_000)
    matrix, counts = attribute.channel(0).dense(), statistic.histograms[0]
    expected, steps = dense_em(matrix[counts > 0], counts[counts > 0], **rules(np.exp(epsilon)))
    assert 3 < steps < 5000
    assert function(attribute, statistic) == pytest.approx(expected, rel=1e-6, abs=1e-12)


def result(cell, seed, method, loss):
    return Result(cell.mechanism, cell.population, cell.epsilon, cell.people, seed, method, "v", loss, 0.1)


def test_losses_are_relative_to_the_least_mean_of_a_fixed_method_on_common_seeds():
    cell = Cell("SW", NUMBERS[0].name, 1.0, 1_000)
    losses = {"auto": [1.0, 1.2, 7.0], "em": [1.0, 3.0, 0.1], "ems": [1.1, 0.9]}
    found = compared(
        [result(cell, seed, name, loss) for name, own in losses.items() for seed, loss in enumerate(own)],
        {cell: ("auto", "em", "ems")},
    )
    (one,) = found
    assert one.best == "ems"
    assert one.relative("auto") == pytest.approx(1.1)
    apart = np.array([1.0 - 1.1 * 1.1, 1.2 - 1.1 * 0.9])
    assert one.error("auto") == pytest.approx(apart.std(ddof=1) / np.sqrt(2))
    assert one.relative("ems") == 1.0


def test_one_seed_of_a_cell_has_results_of_every_method_and_is_resumed(tmp_path):
    cell = Cell("GRR", "skewed: Beta(7, 1.2), 60", 1.0, 1_000)
    assert cell in set(cells(["reporting"]))
    tasks = left([cell], 1, None, [])
    assert [(one, seed, chosen) for one, seed, chosen in tasks] == [(cell, 0, methods("GRR"))]
    fixed = tuple(method for method in methods("GRR") if method != AUTO)
    found = results(cell, 0, fixed)
    assert [one.method for one in found] == [method.name for method in fixed]
    again = {one.method: one.loss for one in results(cell, 0, fixed[:3])}
    assert all(again[one.method] == one.loss for one in found[:3])
    path = tmp_path / "grid.jsonl"
    path.write_text("".join(json.dumps(asdict(one)) + "\n" for one in found) + '{"mechanism": "GR')
    assert read(path) == found
    assert all(chosen == (AUTO,) for _, _, chosen in left([cell], 1, None, read(path)))
    found_tables = tables(compared(found, {cell: tuple(method.name for method in fixed)}), [])
    assert any("norm_sub" in table.text() for table in found_tables)
