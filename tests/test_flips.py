"""Flipped bits and cut inputs: nothing is lost without a word, and checksums let nothing changed in."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from support import inputs
from support.damage import (
    DEAD,
    FLAGGED,
    SAME,
    UNSEEN,
    Format,
    Found,
    damage,
    flipped,
    formats,
    outcome,
    truncated,
)

FORMATS = {own.name: own for own in formats()}
#: Formats with a checksum over all that enters a statistic.
CHECKED = ("Avro, snappy", "JSON lines, gzip", "snapshot", "Parquet, page checksums")
#: Formats that say where they end.
ENDED = (*CHECKED[1:], "Parquet")
FILES = [name for name, own in FORMATS.items() if own.suffix]


@pytest.mark.parametrize("name", FORMATS)
def test_damage_is_never_silent_loss(name: str) -> None:
    found = damage(FORMATS[name], 40, 10, seed=1)
    if name in CHECKED:
        assert not found["flips"][UNSEEN]
    if name in ENDED:
        assert found["truncations"] == {FLAGGED: 10}


@pytest.mark.parametrize("name", FILES)
def test_nothing_left_of_a_file_is_damage_unless_it_may_be_empty(name: str) -> None:
    own = FORMATS[name]
    assert own.read(b"").flag == ("" if name == "JSON lines" else FLAGGED)


def test_silent_loss_would_be_seen() -> None:
    rows = [(0, number) for number in range(9)]
    broken = Format("broken", b"", lambda data: Found(rows[: len(data)], len(data)))
    valid = broken.read(bytes(9))
    assert outcome(broken, valid, bytes(9)) == SAME
    with pytest.raises(AssertionError, match="2 reports are lost, and nothing says so"):
        outcome(broken, valid, bytes(7))


@pytest.mark.slow
def test_the_command_says_of_damage_what_the_reading_functions_say(
    tmp_path: Path, command: Callable[..., Any]
) -> None:
    """One input of each outcome that a few tries find goes through ``ldpbeam estimate``."""
    own, rng = FORMATS["Parquet"], Random(2)
    before = own.read(own.valid)
    tries = [change(rng, own.valid) for change in (*[flipped] * 30, truncated)]
    found = {outcome(own, before, damaged): damaged for damaged in tries}
    study = tmp_path / "study.yaml"
    study.write_text(inputs.STUDY_TEXT)

    def run(data: bytes, label: str) -> tuple[int, Path]:
        output, path = tmp_path / label, tmp_path / f"{label}.{own.suffix}"
        path.write_bytes(data)
        said = command(
            "estimate", "--study", study, "--input", path, "--output", output, "--max-bad-fraction", 1
        )
        assert "Traceback" not in said.err
        return said.code, output

    code, whole = run(own.valid, "whole")
    assert code == 0
    for kind, data in found.items():
        code, output = run(data, kind.replace(" ", "-"))
        if kind == FLAGGED:
            assert code == 2
            continue
        assert code == 0
        accounting = json.loads((output / "accounting.json").read_text())
        assert accounting["in"] == sum(accounting[n] for n in ("used", "duplicates", "dead_letters"))
        assert (accounting["dead_letters"] > 0) == (kind == DEAD)
        if kind == SAME:
            assert estimates(output) == estimates(whole)


def estimates(folder: Path) -> list[Any]:
    """The estimates of a run, without its name."""
    lines = (folder / "estimates.jsonl").read_text().splitlines()
    return [{name: value for name, value in json.loads(line).items() if name != "run"} for line in lines]
