"""Clients that remember their noise have the same permanent answers in Python and in JavaScript."""

from __future__ import annotations

import json
import subprocess
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.memo_vectors import NAMES, sent, vectors

from ldpbeam.memoised.panels import Panel
from ldpbeam.schemas.reports.casts import cast_column

FILE = Path(__file__).parents[2] / "schemas" / "memo_vectors.json"


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


def test_five_hundred_turns_are_the_same(node: str) -> None:
    rng = np.random.default_rng(53)
    asked = []
    for number in range(500):
        panel = {
            "study": f"s{number % 7}",
            "attribute": "é",
            "size": 60_000,
            "windows": int(rng.integers(2, 2_000)),
        }
        user = str(uuid.UUID(int=number)) if number % 2 else f"user ü {number}"
        asked.append({"panel": panel, "user_id": user, "time": int(rng.integers(-(10**12), 2 * 10**12))})
    driver = Path(__file__).with_name("turns.mjs")
    ran = subprocess.run([node, driver], input=json.dumps(asked).encode(), capture_output=True)
    assert ran.returncode == 0, ran.stderr.decode()
    for one, turn in zip(asked, json.loads(ran.stdout), strict=True):
        panel = dict(one["panel"])
        (user,) = cast_column("user_id", pa.array([one["user_id"]])).to_pylist()
        attribute = panel.pop("attribute")
        begins = Panel(**panel).turns(attribute, [user], np.array([0]), np.array([one["time"]]))
        assert [begins[0], begins[0] + panel["size"]] == turn


def test_the_vectors_that_are_shipped_are_what_a_client_sends() -> None:
    shipped: list[dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8"))
    assert {vector["mechanism"] for vector in shipped} == set(NAMES)
    for vector in shipped:
        assert sent(vector) == vector["report"], vector
