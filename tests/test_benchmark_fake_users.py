"""The false reports of the page on fake users are what the page says that they are."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.fake_users import alike, counted, estimators, seen, targets, told
from benchmarks.liars import ALIKE, ATTACKS, Crowd, unseen_cells
from ldpbeam.statistics import merge

USERS, SHARE = 200_000, 0.05
FAKE = round(SHARE * USERS)


@pytest.mark.parametrize("name", ["grr", "olh", "oue", "privkv", "pckv_ue", "pckv_pm", "piecewise", "haar"])
def test_every_attack_sends_reports_that_the_mechanism_can_send(name: str) -> None:
    target, rng = targets()[name], np.random.default_rng(1)
    honest = target.mechanism.perturb(target.people(1_000, rng), rng)
    for attack, make in ATTACKS.items():
        sent = make(Crowd(target, honest, 200, SHARE, rng))
        assert sent.shape == (200,)
        assert target.mechanism.is_report(sent).all(), attack
        assert (len(np.unique(sent)) == 1) == (attack in alike(name)), attack
    assert ALIKE in alike(name)


@pytest.mark.parametrize("name", ["olh", "hadamard", "oue", "privkv", "pckv_ue", "square_wave", "gaussian"])
def test_no_test_sees_what_is_unseen_and_one_report_is_seen(name: str) -> None:
    target, rng = targets()[name], np.random.default_rng(2)
    honest = target.mechanism.perturb(target.people(USERS - FAKE, rng), rng)
    rest = counted(target, honest)
    flags, shifts = {}, {}
    for attack in (ALIKE, "unseen"):
        after = merge([rest, counted(target, ATTACKS[attack](Crowd(target, honest, FAKE, SHARE, rng)))])
        flags[attack] = seen(target, after)
        shifts[attack] = told(target, estimators(target)[0], after) - told(
            target, estimators(target)[0], rest
        )
    assert flags == {ALIKE: True, "unseen": False}
    assert shifts["unseen"] > SHARE


@pytest.mark.parametrize("name", ["grr", "block_hadamard", "pckv_grr", "piecewise", "gaussian"])
def test_what_is_unseen_adds_up_to_other_honest_people(name: str) -> None:
    chances, _ = unseen_cells(targets()[name], SHARE)
    assert chances.min() >= 0.0
    assert chances.sum() == pytest.approx(1.0, abs=1e-6)
