"""Intervals where some people answered one service and others two."""

from __future__ import annotations

import numpy as np
import pytest

import ldpbeam as ldp
from ldpbeam.certainty import IF_SMOOTH
from ldpbeam.intervals.if_smooth import WIDER

USERS, BOTH = 400, 200


def test_intervals_have_the_sampling_error_of_people_who_count_twice() -> None:
    """With epsilon 20 there is hardly any noise: what remains is that some people count twice."""
    rng = np.random.default_rng(1)
    high = rng.permutation(USERS) % 2
    domains = {
        "drink": ({"categories": ["tea", "coffee"]}, "grr", [("tea", "coffee")[k] for k in high]),
        "minutes": ({"numeric": [0, 1]}, "piecewise", high.astype(float)),
        "films": ({"keys": ["drama", "comedy"], "values": [0, 1]}, "pckv_grr", [
            {("drama", "comedy")[k]: 1.0} for k in high
        ]),
    }  # fmt: skip
    study = ldp.Study.from_dict(
        study="s",
        attributes={
            name: {
                "domain": domain,
                "services": {service: {"mechanism": mechanism, "epsilon": 20} for service in ("a", "b")},
                # Of numbers, `auto` would join the reports by user.
                "estimates": {"all": {"estimator": "em" if name == "minutes" else "auto"}},
                **({"ranges": [[0, 0.5]]} if name == "minutes" else {}),
            }
            for name, (domain, mechanism, _) in domains.items()
        },
    )
    ids = [f"u{number}" for number in range(USERS)]
    tables = [
        ldp.Client(study, name, service, rng=rng).reports(values[:many], ids[:many])
        for name, (_, _, values) in domains.items()
        for service, many in (("a", USERS), ("b", BOTH))
    ]
    # The weights of users are 2/600 and 1/600, and 1/400 on average.
    uneven = BOTH * (2 / 600 - 1 / 400) ** 2 + (USERS - BOTH) * (1 / 600 - 1 / 400) ** 2
    wide = 2 * 1.959964 * np.sqrt(0.25 * uneven)
    for record in ldp.estimate(study, tables):
        assert record.intervals is not None
        ends = record.intervals.of("frequencies")
        if record.attribute == "minutes":
            ends, ranges = record.intervals.of("mean"), record.intervals.of("ranges", IF_SMOOTH)
            assert ranges is not None
            # The standard error of the distance between these ends of 240 normal draws is 6.2% of it.
            assert np.ptp(ranges[0]) > WIDER * wide * (1.0 - 3 * 0.062)
        assert ends is not None
        assert np.diff(ends)[:, 0] == pytest.approx(wide, rel=0.05)
