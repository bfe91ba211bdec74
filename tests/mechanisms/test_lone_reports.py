"""The statistics of reports that are alone in their windows are those that each has by itself."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from cases import CASES, Case, some_values

from ldpbeam import Attribute, ServiceVersion
from ldpbeam.domains import Vector
from ldpbeam.lone_reports import tally_each
from ldpbeam.mechanisms import Laplace, Piecewise, SquareWave
from ldpbeam.statistics import Answers, tally

REPORTS = 20
SEVERAL = (
    ServiceVersion("sw", "old", SquareWave(1.0)),
    ServiceVersion("sw", "new", SquareWave(0.5)),
    ServiceVersion("laplace", "", Laplace(0.7)),
    ServiceVersion("pm", "", Piecewise(2.0)),
)


def check(attribute: Attribute, index: int) -> None:
    """Compare the statistic of each of some reports with that of a user who sent it alone."""
    mechanism = attribute.versions[index].mechanism
    payloads = mechanism.perturb(some_values(mechanism, REPORTS), np.random.default_rng(5))
    users = 1 if attribute.group_users else 0
    expected = [
        tally(attribute, users, [Answers(index, np.zeros(1, np.int64), payloads[row : row + 1])])
        for row in range(REPORTS)
    ]
    found = list(tally_each(attribute, index, payloads))
    assert found == expected
    for one, other in zip(found, expected, strict=True):
        arrays = [[*each.histograms, each.joint_cells, each.joint_counts] for each in (one, other)]
        assert [array.dtype for array in arrays[0]] == [array.dtype for array in arrays[1]]


@pytest.mark.parametrize("case", [case for case in CASES if not isinstance(case.domain, Vector)], ids=str)
def test_reports_of_every_mechanism_are_counted_as_each_by_itself(case: Case) -> None:
    mechanism = case.at(1.0)
    buckets = mechanism.granularity * -(-32 // mechanism.granularity)
    check(Attribute("x", case.domain, buckets, (ServiceVersion("s", "", mechanism),)), 0)


@pytest.mark.parametrize("joined", [("sw", "laplace"), ("laplace", "sw", "pm"), ()], ids=len)
@pytest.mark.parametrize("index", range(len(SEVERAL)))
def test_so_are_those_of_one_of_several_channels(joined: tuple[str, ...], index: int) -> None:
    numbers = next(case.domain for case in CASES if case.name == "laplace")
    attribute = Attribute("x", numbers, 8, SEVERAL, joint_services=joined, joint_buckets=4)
    check(attribute, index)
    if not joined:
        check(dataclasses.replace(attribute, group_users=False), index)
