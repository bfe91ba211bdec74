"""Scales of numbers: values to [0, 1] and back, and estimates in the unit of the values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ldpbeam as ldp
from ldpbeam.domains import Numeric
from ldpbeam.schemas.outputs.records import EstimateRecord

EDGES = (0.0, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
SCALED = [
    Numeric(1.0, 65_536.0, scale="log"),
    Numeric(0.0, 65_535.0, scale="log1p"),
    Numeric(0.0, 10.0, scale=EDGES),
]


@pytest.mark.parametrize("domain", SCALED, ids=str)
def test_values_go_to_the_unit_and_back(domain: Numeric) -> None:
    values = np.random.default_rng(1).uniform(domain.low, domain.high, 1_000)
    assert domain.from_unit(domain.to_unit(values)) == pytest.approx(values)
    ends = [domain.low, domain.high]
    assert domain.from_unit([0.0, 1.0]).tolist() == domain.edges(1).tolist() == ends
    assert domain.to_unit([domain.low - 1.0, domain.high + 1.0]).tolist() == [0.0, 1.0]
    assert np.isnan(domain.to_unit([np.nan]))


def test_buckets_end_at_the_edges_of_the_study() -> None:
    assert set(EDGES) <= set(SCALED[2].edges(11 * 24).tolist())
    assert SCALED[2].to_unit(EDGES) == pytest.approx(np.arange(12) / 11)


@pytest.mark.parametrize("domain", SCALED, ids=str)
def test_moments_of_buckets_are_those_of_values_that_are_even_on_the_scale(domain: Numeric) -> None:
    fine = (domain.from_unit((np.arange(440_000) + 0.5) / 440_000) - domain.low) / domain.width
    buckets = fine.reshape(44, -1)
    assert domain.middles(44) == pytest.approx(buckets.mean(axis=1), rel=1e-5)
    shares = np.arange(44.0) / np.arange(44).sum()
    assert domain.variance_within(shares) == pytest.approx(shares @ buckets.var(axis=1), rel=1e-5)


@pytest.mark.parametrize(
    ("domain", "said"),
    [
        ({"numeric": [0, 10], "scale": "log"}, "write scale: log1p"),
        ({"numeric": [-1, 10], "scale": "log1p"}, "a range from 0 on, found low -1"),
        ({"numeric": [0, 10], "scale": "log1p", "step": 1}, "not with step"),
        ({"categories": 3, "scale": "log"}, "scale goes with numeric"),
        ({"edges": [0, 2, 1, 3]}, "edges must ascend"),
        ({"edges": [0, 1, float("inf")]}, "finite"),
        ({"edges": [0, 1]}, "3 to 4,097 numbers"),
    ],
)
def test_scales_that_cannot_be(domain: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        _study(domain)


def test_buckets_are_a_multiple_of_those_between_edges() -> None:
    assert _study({"edges": list(EDGES)}).attribute("a").value_buckets == 264
    assert _study({"edges": list(EDGES)}, buckets=22).attribute("a").value_buckets == 22
    with pytest.raises(ValueError, match="a multiple of the 11 between edges"):
        _study({"edges": list(EDGES)}, buckets=256)


def _study(domain: dict[str, Any], estimator: str = "auto", **keys: Any) -> ldp.Study:
    services = {"s": {"mechanism": "piecewise", "epsilon": 2}}
    attribute = {"domain": domain, "services": services, "estimates": {"all": {"estimator": estimator}}}
    return ldp.Study.from_dict(study="s", attributes={"a": attribute | keys}, intervals={"level": 0.95})


def test_estimates_are_those_of_the_scale_in_the_unit_of_the_values() -> None:
    rng = np.random.default_rng(2)
    values = np.clip(rng.pareto(1.5, 20_000) * 2_000, 1.0, 65_536.0)
    ranges, quantiles = [[100.0, 1_000.0], [30_000.0, 65_536.0]], [0.1, 0.5, 0.9]
    asked = {"buckets": 16, "quantiles": quantiles}
    by_value = _study({"numeric": [1, 65_536], "scale": "log"}, ranges=ranges, **asked)
    by_log = _study({"numeric": [0, np.log(65_536)]}, ranges=np.log(ranges).tolist(), **asked)
    reports = ldp.Client(by_value, "a", "s", rng=rng).reports(values)
    of_values, of_logs = (ldp.estimate(study, reports).estimates[0] for study in (by_value, by_log))
    assert of_values.distribution == pytest.approx(of_logs.distribution)
    assert of_values.bucket_edges == pytest.approx(np.exp(of_logs.bucket_edges))

    def numbers(record: EstimateRecord) -> list[np.ndarray]:
        assert record.quantiles and record.intervals
        held = record.intervals.ends
        both = [held[condition]["quantiles"].columns for condition in ("if_smooth", "certain")]
        return [np.array([*record.quantiles.values()]), *both]

    # Beside the certain interval of a mean, others allow for more noise, and smooth ones follow them.
    for of_value, of_log, near in zip(numbers(of_values), numbers(of_logs), (1e-6, 0.1, 0.25), strict=True):
        assert of_value == pytest.approx(np.exp(of_log), rel=near)
    assert of_values.ranges and of_logs.ranges and of_values.intervals and of_logs.intervals
    assert [r.share for r in of_values.ranges] == pytest.approx([r.share for r in of_logs.ranges])
    of_value, of_log = (own.intervals.of("ranges", "if_smooth") for own in (of_values, of_logs))
    assert of_value == pytest.approx(of_log, abs=0.01)
    ((low, high),) = of_values.intervals.ends["if_smooth"]["mean"].columns
    assert low < values.mean() < high


def test_the_mean_has_in_its_interval_where_in_a_bucket_people_may_be() -> None:
    rng = np.random.default_rng(3)
    study = _study({"edges": [0, 1, 100, 10_000]}, buckets=3)
    reports = ldp.Client(study, "a", "s", rng=rng).reports(rng.uniform(100, 10_000, 50_000))
    ((low, high),) = ldp.estimate(study, reports).estimates[0].intervals.of("mean", "if_smooth")
    fine = ldp.estimate(_study({"edges": [0, 1, 100, 10_000]}, buckets=3_000), reports)
    assert low < 5_050 < high
    assert np.ptp(fine.estimates[0].intervals.of("mean", "if_smooth")) < high - low


def test_the_mean_of_reports_is_refused_on_a_scale() -> None:
    with pytest.raises(ValueError, match="the mean of reports is that of values on their scale"):
        _study({"numeric": [1, 10], "scale": "log"}, "ivw")


@pytest.mark.parametrize("scale", ["log1p", "edges"])
def test_certain_means_hold(scale: str) -> None:
    """Also of people with few values, for whom no smooth density stands."""
    domain: dict[str, Any] = {"numeric": [0, 65_535], "scale": "log1p"}
    if scale == "edges":
        domain = {"edges": [0, 50, 200, 2_000, 20_000, 65_535]}
    study = _study(domain)
    for seed in range(4):
        rng = np.random.default_rng(seed)
        values = rng.choice([10.0, 100.0, 1_000.0, 30_000.0], 5_000, p=[0.4, 0.3, 0.2, 0.1])
        found = ldp.estimate(study, ldp.Client(study, "a", "s", rng=rng).reports(values)).estimates[0]
        assert found.intervals
        ((low, high),) = found.intervals.ends["certain"]["mean"].columns
        assert found.intervals.methods["mean"].startswith("bounds that hold together, whatever")
        assert low <= values.mean() <= high
