"""The library flags means that fake users move, as it has no tests of a whole run."""

from __future__ import annotations

import numpy as np

import ldpbeam as ldp
from ldpbeam.mechanisms import Laplace

STUDY = """\
study: fakes
attributes:
  minutes:
    domain: {numeric: [0, 180]}
    services: {maps: {mechanism: laplace, epsilon: 1.0}}
    estimates: {mean: {estimator: ivw}}
"""


def test_a_table_with_fake_users_gives_a_flagged_mean_inside_of_its_domain(tmp_path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "study.yaml").write_text(STUDY)
    study = ldp.Study.from_yaml(tmp_path / "study.yaml")
    mechanism, rng = Laplace(1.0), np.random.default_rng(0)
    payloads = mechanism.perturb(rng.beta(2.0, 5.0, 2_000), rng)
    users = [f"u{number}" for number in range(2_000)]

    def flags() -> dict[str, str]:
        table = {"user_id": users, "service": ["maps"] * 2_000, "payload": payloads.tolist()}
        (found,) = ldp.estimate(study, table).estimates
        assert 0.0 <= found.mean <= 180.0
        return dict(found.intervals.flags)

    assert flags() == {}
    payloads[:20] = mechanism.report_range[1]
    assert "some are false" in flags()["certain"]
