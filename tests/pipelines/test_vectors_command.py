"""``ldpbeam vectors``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ldpbeam.mechanisms import registered_mechanisms

FILE = Path(__file__).parents[2] / "schemas" / "test_vectors.json"


def test_the_command_prints_the_file(command: Any) -> None:
    assert command("vectors") == (0, FILE.read_text(encoding="utf-8"), "")


def test_the_vectors_of_clients_that_remember_are_printed_as_they_are(command: Any) -> None:
    assert command("vectors", "--memoised") == (
        0,
        FILE.with_name("memo_vectors.json").read_text(encoding="utf-8"),
        "",
    )


def test_every_mechanisms_vectors_can_be_selected(command: Any) -> None:
    every = json.loads(FILE.read_text(encoding="utf-8"))
    selected = []
    for name in registered_mechanisms():
        printed = json.loads(command("vectors", "--mechanism", name).out)
        assert {vector["mechanism"] for vector in printed} == {name}
        selected += printed
    assert sorted(map(json.dumps, selected)) == sorted(map(json.dumps, every))
