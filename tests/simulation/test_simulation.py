"""Seeds of the simulation; ``make simulate SEEDS=10000`` runs more."""

from __future__ import annotations

from collections import Counter

import pytest

from simulation.day import simulate
from simulation.met import COMMON
from simulation.mutations import MUTATIONS, found_at

SEEDS, AT_ONCE = 60, 10
_met: Counter[str] = Counter()


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, SEEDS, AT_ONCE))
def test_a_stream_says_what_the_judge_says(first: int) -> None:
    for seed in range(first, first + AT_ONCE):
        simulate(seed, _met)


@pytest.mark.slow
def test_the_judge_tells_which_late_reports_were_taken_where_one_stands_for_another() -> None:
    simulate(82_133, Counter())


@pytest.mark.slow
def test_all_faults_and_states_were_met() -> None:
    """It runs after the seeds, in their process: a file of tests is one process's."""
    assert not COMMON.difference(_met)


@pytest.mark.slow
@pytest.mark.parametrize("mutation", MUTATIONS)
def test_a_fault_of_the_run_is_found_within_a_hundred_seeds(mutation: str) -> None:
    assert found_at(mutation, 100) is not None
