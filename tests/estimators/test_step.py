"""Every estimator of numbers with a step: what it returns is of the values."""

from __future__ import annotations

import numpy as np
import pytest

import ldpbeam as ldp
from ldpbeam.mechanisms import registered_mechanisms

OPTIONS = {
    "binned": {"bins": 21},
    "haar": {"leaves": 16},
    "hierarchy": {"branching": 4, "leaves": 16},
    "discrete_square_wave": {"bins": 21},
}
NUMERIC = [name for name, kind in registered_mechanisms().items() if kind.domain_type is ldp.Numeric]
#: Mechanisms that tell neighbouring values apart at this epsilon.
SHARP = ("square_wave", "general_wave", "discrete_square_wave", "binned")
#: Estimators that do not smooth these three neighbours.
UNSMOOTHED = ("auto", "em", "inversion", "norm_sub", "norm_cut", "norm_mul", "base_cut", "threshold")
#: Half points from 0 to 10, most of them at 5: the mean is 5 too.
PEOPLE = np.repeat([0.0, 4.5, 5.0, 5.5, 10.0], [100, 500, 1_000, 500, 100])


def study_of(mechanisms: list[str], estimator: str, **more: object) -> ldp.Study:
    return ldp.Study.from_dict(
        study="s",
        attributes={
            "points": {
                "domain": {"numeric": [0, 10], "step": 0.5},
                "services": {
                    name: {"mechanism": name, "epsilon": 6.0, **OPTIONS.get(name, {})} for name in mechanisms
                },
                "estimates": {"it": {"estimator": estimator}},
                "ranges": [[4.5, 5.5]],
                **more,
            }
        },
    )


def answered(study: ldp.Study) -> ldp.Estimates:
    rng = np.random.default_rng(44)
    users = np.arange(len(PEOPLE))
    attribute = study.attribute("points")
    reports = [
        ldp.Client(study, "points", service, rng=rng).reports(PEOPLE, users) for service in attribute.services
    ]
    return ldp.estimate(study, reports)


@pytest.mark.parametrize("buckets", [21, 7])
@pytest.mark.parametrize("estimator", ldp.registered_estimators())
def test_every_estimator_is_of_the_values(estimator: str, buckets: int) -> None:
    taken = []
    for mechanism in NUMERIC:
        try:
            study = study_of([mechanism], estimator, buckets=buckets)
        except ldp.StudyError:
            continue
        taken.append(mechanism)
        (record,) = answered(study)
        assert record.mean == pytest.approx(5.0, abs=0.35), mechanism
        if record.distribution is not None:
            assert len(record.distribution) == buckets
            assert sum(record.distribution) == pytest.approx(1.0, abs=0.35), mechanism
            assert np.asarray(record.bucket_edges)[[0, 1, -1]].tolist() == [
                -0.25,
                10.5 / buckets - 0.25,
                10.25,
            ]
            assert set(record.quantiles.values()) <= set(np.arange(0.0, 10.5, 0.5))
            if mechanism in SHARP and estimator in UNSMOOTHED:
                assert record.ranges[0].share == pytest.approx(2_000 / 2_200, abs=0.06), mechanism
    assert taken or estimator in ("mle", "key_value") or estimator.startswith(("privkv", "pckv"))
