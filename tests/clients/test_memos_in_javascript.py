"""Clients that remember their noise have the same permanent answers in Python and in JavaScript."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from support.memo_vectors import NAMES, sent, vectors

FILE = Path(__file__).parents[2] / "schemas" / "memo_vectors.json"


@pytest.fixture(scope="module")
def node() -> str:
    """The program that runs JavaScript."""
    found = shutil.which("node")
    if found is None:
        sentence = "node is not here: install Node 20 or later to test the client in JavaScript"
        if os.environ.get("LDPBEAM_REQUIRE_INTEGRATION") == "1":
            pytest.fail(sentence)
        pytest.skip(sentence)
    return found


def test_a_thousand_memos_and_reports_are_the_same(node: str) -> None:
    asked = list(vectors(1_000, seed=53))
    driver = Path(__file__).with_name("memos.mjs")
    ran = subprocess.run([node, driver], input=json.dumps(asked).encode(), capture_output=True)
    assert ran.returncode == 0, ran.stderr.decode()
    found = json.loads(ran.stdout)
    assert len(found) == len(asked)
    for vector, report in zip(asked, found, strict=True):
        expected = sent(vector)
        same = (
            report == expected if isinstance(expected, str) else report == pytest.approx(expected, rel=1e-11)
        )
        assert same, (vector, report, expected)


def test_the_vectors_that_are_shipped_are_what_a_client_sends() -> None:
    shipped: list[dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8"))
    assert {vector["mechanism"] for vector in shipped} == set(NAMES)
    for vector in shipped:
        assert sent(vector) == vector["report"], vector
