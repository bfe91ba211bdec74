"""Channels at the values of a domain with a step: counted reports, formulas, and means over buckets."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from ldpbeam.attributes import Attribute, ServiceVersion
from ldpbeam.domains import Floats, Numeric
from ldpbeam.mechanisms import Gaussian, Mechanism, build_mechanism, registered_mechanisms

#: 0, 0.18, ..., 1.8.
PRICES = Numeric(0.0, 1.8, 0.18)
OPTIONS: dict[str, dict[str, Any]] = {
    "binned": {"bins": 7},
    "haar": {"leaves": 8},
    "hierarchy": {"branching": 3, "leaves": 9},
    "discrete_square_wave": {"bins": 11},
}
NUMERIC = [name for name, kind in registered_mechanisms().items() if kind.domain_type is Numeric]


def asked(name: str, epsilon: float = 2.0, **more: Any) -> Attribute:
    mechanism = build_mechanism(name, PRICES, epsilon, **OPTIONS.get(name, {}))
    return Attribute("price", PRICES, 32, (ServiceVersion("s", "", mechanism),), **more)


@pytest.mark.parametrize("name", NUMERIC)
def test_reports_of_each_value_follow_its_column(name: str) -> None:
    attribute, rng = asked(name), np.random.default_rng(44)
    mechanism: Mechanism = attribute.versions[0].mechanism
    columns = attribute.channel(0).dense()
    assert columns.shape == (mechanism.histogram_cells(32), 11)
    assert columns.sum(axis=0) == pytest.approx(np.ones(11), abs=1e-9)
    for index, value in enumerate(PRICES.values):
        reports = mechanism.perturb(PRICES.to_unit(np.full(20_000, value)), rng)
        counts, expected = mechanism.histogram(reports, 32), 20_000 * columns[:, index]
        often = expected >= 5.0
        observed = np.append(counts[often], counts[~often].sum())
        expected = np.append(expected[often], expected[~often].sum())
        expected *= observed.sum() / expected.sum()
        kept = expected > 0.0
        assert stats.chisquare(observed[kept], expected[kept]).pvalue > 1e-5


def test_columns_are_those_of_the_published_formulas() -> None:
    """At 0.54, where x is 0.3, and v on [-1, 1] is -0.4."""
    e, s = math.exp(2.0), math.exp(1.0)

    def band(low: float, high: float, centre: float, half: float, inside: float) -> Floats:
        """The densities inside the band, and exp(-2) times that outside."""
        edges = np.linspace(low, high, 33)
        near = np.diff(np.clip(edges, centre - half, centre + half))
        return inside / e * np.diff(edges) + (inside - inside / e) * near

    b = (2.0 * e - e + 1.0) / (2.0 * e * (e - 3.0))
    bound = (s + 1.0) / (s - 1.0)
    sigma = Gaussian(2.0).sigma
    ends = np.array([-np.inf]), np.array([np.inf])
    within = {"laplace": 1.0, "gaussian": 1.0 + 4.0 * sigma}
    cells = {name: np.concatenate((ends[0], np.linspace(-w, w, 33), ends[1])) for name, w in within.items()}
    expected = {
        "square_wave": band(-b, 1.0 + b, 0.3, b, e / (2.0 * b * e + 1.0)),
        "piecewise": band(
            -bound, bound, -0.4 * (bound + 1) / 2, (bound - 1) / 2, s * (s - 1) / (2 * (s + 1))
        ),
        "laplace": np.diff(stats.laplace(-0.4, 1.0).cdf(cells["laplace"])),
        "gaussian": np.diff(stats.norm(-0.4, sigma).cdf(cells["gaussian"])),
    }
    for name, column in expected.items():
        assert asked(name).channel(0).dense()[:, 3] == pytest.approx(column, abs=1e-13), name


@pytest.mark.parametrize("name", NUMERIC)
def test_a_value_bucket_has_the_mean_column_of_its_values(name: str) -> None:
    domain = Numeric(0.0, 11.0, 1.0)
    mechanism = build_mechanism(name, domain, 2.0, **OPTIONS.get(name, {}))
    attribute = Attribute("x", domain, 32, (ServiceVersion("s", "", mechanism),), stepped_buckets=4)
    values: Floats = attribute.channel(0, 12).dense()
    expected = values.reshape(len(values), 4, 3).mean(axis=2)
    assert attribute.channel(0).dense() == pytest.approx(expected, abs=1e-12)
    rng = np.random.default_rng(1)
    for matrix in (attribute.channel(0), attribute.channel(0, 12)):
        x, y = rng.random(matrix.shape[1]), rng.random(matrix.shape[0])
        assert matrix.matvec(x) == pytest.approx(matrix.dense() @ x, abs=1e-12)
        assert matrix.rmatvec(y) == pytest.approx(y @ matrix.dense(), abs=1e-12)


def test_more_bins_than_values_are_refused() -> None:
    with pytest.raises(ValueError, match="binned tells 12 bins apart, and this step makes 11 values"):
        mechanism = build_mechanism("binned", PRICES, 1.0, bins=12)
        Attribute("price", PRICES, 32, (ServiceVersion("s", "", mechanism),))


def test_buckets_that_would_cut_between_the_wrong_values_are_refused() -> None:
    with pytest.raises(ValueError, match="this step makes 11 values, and buckets must divide that, found 4"):
        asked("square_wave", stepped_buckets=4)


def test_statistics_tell_a_step_and_its_report_buckets_but_not_the_buckets_of_estimates() -> None:
    attribute = asked("square_wave")
    others = [
        replace(attribute, domain=Numeric(0.0, 1.8)),
        replace(attribute, domain=Numeric(0.0, 1.8, 0.36)),
        replace(attribute, buckets=64),
    ]
    assert len({one.fingerprint for one in (attribute, *others)}) == 4
    assert replace(attribute, stepped_buckets=1).fingerprint == attribute.fingerprint
