"""No bytes crash a decoder, hang it, take its memory, or raise what the command would show as a traceback."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from fuzz import child, line_fates, run
from fuzz.targets import SEEDS, TARGETS, Target, UnboundedError
from ldpbeam.schemas.messages.binary import BadMessage

TESTS = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def done() -> dict[str, dict[str, Any]]:
    """What each target did with the inputs of one seed."""
    command = [sys.executable, "-m", "fuzz", "--seed", "1"]
    ran = subprocess.run(command, cwd=TESTS, capture_output=True, text=True)
    said = [json.loads(line) for line in ran.stdout.splitlines()]
    assert len(said) == len(TARGETS), ran.stderr
    return {own["target"]: own for own in said}


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_no_input_breaks_a_rule(target: Target, done: dict[str, dict[str, Any]]) -> None:
    did = done[target.name]
    assert not did["failures"], json.dumps(did["failures"], indent=1)
    assert did["inputs"] == target.inputs
    # Inputs that are all refused at their first byte would test nothing.
    assert did["taken"] > target.inputs / 20


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_valid_seeds_are_taken(target: Target) -> None:
    valid = sorted((SEEDS / target.name).glob("valid*"))
    assert valid
    for path in valid:
        assert target.decode(path.read_bytes()) > 0


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_an_input_can_be_made_again_from_its_number(target: Target) -> None:
    for number in range(len(target.seeds), len(target.seeds) + 20):
        assert target.input(3, number) == target.input(3, number)
    assert target.input(3, 10_000) != target.input(4, 10_000)


def test_a_week_has_an_hour_of_each_target_of_the_simulation_and_of_the_sweep() -> None:
    weekly = yaml.safe_load((TESTS.parent / ".github" / "workflows" / "weekly.yml").read_text())
    matrix = weekly["jobs"]["fuzz"]["strategy"]["matrix"]["target"]
    assert sorted(matrix) == sorted([*(target.name for target in TARGETS), "simulation", "sweep"])


def test_a_line_with_another_fate_by_another_way_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    (target,) = (target for target in TARGETS if target.name == "line_fates")
    (data,) = target.seeds
    assert target.decode(data) == 1
    # As if lines of a message were taken with what Python alone refuses.
    decode = line_fates.decode_messages
    monkeypatch.setattr(line_fates, "decode_messages", lambda given, wanted: (
        item for item in decode(given, wanted) if not isinstance(item, BadMessage)
    ))  # fmt: skip
    with pytest.raises(AssertionError, match="lines"):
        target.decode(data)


def broken(decode: Callable[[bytes], int]) -> Target:
    """A target whose inputs are one byte each, from 0 to 9."""
    return Target("broken", lambda rng: bytes([rng.randrange(10)]), decode, lambda: None, 100)


def at_seven(fault: Callable[[], object]) -> Callable[[bytes], int]:
    def decode(data: bytes) -> int:
        if data == b"\7":
            fault()
        return 1

    return decode


def spin() -> None:
    while True:
        pass


def swallow() -> None:
    try:
        bytearray(2**33)
    except MemoryError as error:
        raise UnboundedError("MemoryError") from error


def hold() -> None:
    bytearray(600 * 2**20)


def wrong() -> None:
    raise KeyError("seven")


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (wrong, "KeyError"),
        (swallow, "UnboundedError"),
        (hold, "more than 512 MB"),
        (lambda: os.kill(os.getpid(), signal.SIGSEGV), "ended by SIGSEGV"),
        (lambda: os._exit(5), "ended with code 5"),
        (spin, "more than 1 s of CPU"),
        (lambda: time.sleep(600), "waits"),
    ],
    ids=["exception", "swallowed", "memory", "crash", "exit", "hang", "wait"],
)
def test_what_breaks_a_rule_is_found_with_its_input(
    fault: Callable[[], object], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child, "MOST_CPU", 1)
    monkeypatch.setattr(child, "MOST_WAIT", 5 if kind == "waits" else 300)
    monkeypatch.setattr(run, "MOST_CPU", 1)
    monkeypatch.setattr(run, "MOST_DEATHS", 1)
    done = run.fuzz(broken(at_seven(fault)), 0, count=100)
    (failure,) = done.failures
    assert failure.kind.startswith(kind)
    assert failure.data == b"\7"


def test_a_run_goes_on_behind_an_input_that_ends_its_child() -> None:
    done = run.fuzz(broken(at_seven(lambda: os._exit(5))), 0, count=60)
    sevens = sum(broken(at_seven(wrong)).input(0, number) == b"\7" for number in range(60))
    assert sevens > 1
    assert done.inputs == 60
    # What a child took before its end counts.
    assert done.taken == 60 - sevens
