"""Whole years, reported by clients that are written here from the formulas: intervals hold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

import ldpbeam as ldp
from ldpbeam.certainty import IF_SMOOTH
from ldpbeam.clients.values import scaled
from ldpbeam.domains import Floats
from ldpbeam.schemas.outputs.records import EstimateRecord

EPSILON, RANGES = 3.0, ((18, 30), (20, 60), (0, 17), (65, 100))
E = math.exp(EPSILON)


def study_of(
    services: Sequence[str], step: int | None = 1, level: float = 0.95, **remembered: Any
) -> ldp.Study:
    return ldp.Study.from_dict(
        study="s",
        intervals={"level": level},
        attributes={
            "age": {
                "domain": {"numeric": [0, 100]} | ({} if step is None else {"step": step}),
                "services": {name: {"mechanism": name, "epsilon": EPSILON} | remembered for name in services},
                "ranges": [[float(end) for end in ends] for ends in RANGES],
            }
        },
    )


def years(people: int, rng: np.random.Generator) -> Floats:
    return np.floor(rng.beta(2.0, 3.0, people) * 101.0)


def square_wave(x: Floats, rng: np.random.Generator) -> Floats:
    """Within b of x with probability 2bp, else anywhere else in [-b, 1 + b]."""
    b = (EPSILON * E - E + 1.0) / (2.0 * E * (E - 1.0 - EPSILON))
    near = rng.random(len(x)) < 2.0 * b * E / (2.0 * b * E + 1.0)
    elsewhere = rng.random(len(x))
    elsewhere = np.where(elsewhere < x, elsewhere - b, elsewhere + b)
    return np.where(near, x + b * rng.uniform(-1.0, 1.0, len(x)), elsewhere)


def piecewise(x: Floats, rng: np.random.Generator) -> Floats:
    """In [l, l + C - 1] with probability s/(s + 1), else anywhere else in [-C, C]."""
    s = math.exp(EPSILON / 2.0)
    c = (s + 1.0) / (s - 1.0)
    low = 0.5 * (c + 1.0) * (2.0 * x - 1.0) - 0.5 * (c - 1.0)
    elsewhere = (c + 1.0) * rng.random(len(x)) - c
    elsewhere = np.where(elsewhere < low, elsewhere, elsewhere + c - 1.0)
    near = rng.random(len(x)) < s / (s + 1.0)
    return np.where(near, low + (c - 1.0) * rng.random(len(x)), elsewhere)


def stochastic_rounding(x: Floats, rng: np.random.Generator) -> Floats:
    bound = (E + 1.0) / (E - 1.0)
    return np.where(rng.random(len(x)) < 0.5 + (2.0 * x - 1.0) / (2.0 * bound), bound, -bound)


CLIENTS = {"square_wave": square_wave, "piecewise": piecewise, "stochastic_rounding": stochastic_rounding}


def answered(study: ldp.Study, people: Floats, rng: np.random.Generator) -> EstimateRecord:
    users = [str(user) for user in range(len(people))]
    tables = [
        pa.table(
            {
                "user_id": users,
                "attribute": ["age"] * len(users),
                "service": [service] * len(users),
                "payload": CLIENTS[service](people / 100.0, rng),
            }
        )
        for service in study.attribute("age").services
    ]
    (record,) = ldp.estimate(study, tables)
    return record


def held(record: EstimateRecord, people: Floats) -> NDArray[np.bool_]:
    """Whether the interval of each range holds what people have, and then that of each quantile."""
    assert record.intervals is not None and record.quantiles is not None
    ranges, quantiles = (record.intervals.of(part, IF_SMOOTH) for part in ("ranges", "quantiles"))
    assert ranges is not None and quantiles is not None
    true = np.array([((people >= low) & (people <= high)).mean() for low, high in RANGES])
    of_ranges = (ranges[:, 0] <= true) & (true <= ranges[:, 1])
    values = np.quantile(people, [float(level) for level in record.quantiles], method="inverted_cdf")
    return np.append(of_ranges, (quantiles[:, 0] <= values) & (values <= quantiles[:, 1]))


def distance(record: EstimateRecord, people: Floats) -> float:
    """W1 on [0, 1] between the estimated shares of years and those of people."""
    apart = np.cumsum(
        np.asarray(record.distribution) - np.bincount(people.astype(int), minlength=101) / len(people)
    )
    return float(np.abs(apart).sum() / 100.0)


@pytest.mark.parametrize(
    ("services", "people", "most"),
    [
        (("square_wave",), 20_000, 0.0030),
        (("square_wave",), 100_000, 0.0015),
        (("piecewise",), 20_000, 0.0030),
        (("stochastic_rounding", "piecewise", "square_wave"), 5_000, 0.0040),
    ],
)
def test_intervals_of_whole_years_hold(services: Sequence[str], people: int, most: float) -> None:
    """Of 72 intervals of 95%, those of a sample go together: with eight samples the error is below 0.03."""
    study, holds, distances = study_of(services), [], []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        ages = years(people, rng)
        record = answered(study, ages, rng)
        assert record.intervals is not None and not record.intervals.flags
        holds.append(held(record, ages))
        distances.append(distance(record, ages))
    assert np.mean(holds) >= 0.88
    assert np.mean(distances) < most


def test_without_a_step_the_same_intervals_do_not_hold() -> None:
    holds = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        ages = years(100_000, rng)
        holds.append(held(answered(study_of(["square_wave"], None), ages, rng), ages)[: len(RANGES)])
    assert np.mean(holds) < 0.7


@pytest.mark.parametrize("service", ["square_wave", "piecewise", "stochastic_rounding"])
def test_clients_that_remember_one_answer_per_value_report_of_the_values(service: str) -> None:
    """Everybody is at one of both ends or at 31, of which no memo bucket has the middle."""
    study = study_of([service], level=0.999, lifetime_epsilon=6.0)
    attribute, rng = study.attribute("age"), np.random.default_rng(7)
    ages = rng.choice([0.0, 31.0, 100.0], 6_000, p=[0.3, 0.5, 0.2])
    client = ldp.Client(study, "age", service, rng=rng, device_key=bytes(16))
    keys = [f"device {user:09d}".encode() for user in range(len(ages))]
    (sent,) = client.payloads(np.asarray(scaled(attribute.domain, ages)), None, keys)
    users = pa.array([str(user) for user in range(len(ages))])
    table = pa.table({"user_id": users, "payload": sent.payloads})
    (record,) = ldp.estimate(study, table, attribute="age", service=service)
    assert record.intervals is not None
    ((low, high),) = record.intervals.ends["certain"]["mean"].columns
    assert low <= ages.mean() <= high
    if service != "stochastic_rounding":
        shares = np.asarray(record.distribution)
        assert [shares[:2].sum(), shares[30:33].sum(), shares[99:].sum()] == pytest.approx(
            [(ages == value).mean() for value in (0.0, 31.0, 100.0)], abs=0.05
        )
