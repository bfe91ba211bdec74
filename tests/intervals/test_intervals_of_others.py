"""The interval of all places without a name: it holds, and is no wider than that of what the names leave."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ldpbeam.answers.child import compute
from ldpbeam.domains import Candidates
from ldpbeam.intervals.computing import StatisticIntervals
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.statistics import Answers, tally

PLACES, PEOPLE, RUNS = 16, 2_000, 200
SHARES = np.zeros(PLACES)
SHARES[[0, 1, 5, 2, 3]] = (0.5, 0.2, 0.1, 0.15, 0.05)
NAMED = Candidates.named(PLACES, {0: "tea", 1: "rum", 5: "gin"})


@pytest.mark.parametrize("mechanism", ["grr", "oue", "sue", "hadamard", "olh", "block_hadamard"])
def test_the_interval_of_others_holds_and_does_not_add_up_needless_noise(mechanism: str) -> None:
    study = parse_study(
        f"study: s\nusers: none\nattributes: {{x: {{domain: {{categories: {PLACES}}}, services: "
        f"{{a: {{mechanism: {mechanism}, epsilon: 2}}}}, estimates: {{raw: {{estimator: inversion}}}}}}}}"
    )
    plain, wanted = study.attribute("x"), study.described("x").estimates["raw"]
    attribute, client = plain.with_domain(NAMED), plain.versions[0].mechanism
    held, widths = np.zeros(4), np.zeros(4)
    for seed in range(RUNS):
        rng = np.random.default_rng(seed)
        values = rng.choice(PLACES, PEOPLE, p=SHARES)
        statistic = tally(plain, PEOPLE, [Answers(0, np.arange(PEOPLE), client.perturb(values, rng))])
        statistic = replace(statistic, fingerprint=attribute.fingerprint)
        answer = compute(StatisticIntervals(attribute, statistic), wanted)
        truth = NAMED.of_names(np.bincount(values, minlength=PLACES) / PEOPLE)
        assert answer.intervals is not None and answer.intervals.distribution is not None
        low, high = answer.intervals.distribution.T
        held += (low <= truth) & (truth <= high)
        widths += (high - low) / RUNS
    # Four standard errors of a share of 200 runs at 95%.
    assert (held / RUNS > 0.95 - 4 * (0.95 * 0.05 / RUNS) ** 0.5).all()
    if mechanism in ("grr", "hadamard"):
        # Their shares sum to one, so others have no more noise than three names.
        assert widths[3] < 1.05 * np.sqrt((widths[:3] ** 2).sum())
