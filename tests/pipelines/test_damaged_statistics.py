"""Roll-ups of damaged statistics: refused in one line that names the file, and never a wrong number."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ldpbeam.schemas.study.yaml_file import parse_study

TEXT = """\
study: s
attributes:
  x:
    domain: {numeric: [0, 1]}
    buckets: 16
    services: {a: {mechanism: piecewise, epsilon: 1.0}, b: {mechanism: square_wave, epsilon: 1.0}}
    estimates: {mean: {estimator: ivw}}
"""


@pytest.fixture
def statistics(tmp_path: Path, run_estimate: Any, simulate: Any, write_reports: Any) -> Path:
    """A file of a run's statistics."""
    values = np.random.default_rng(0).beta(2, 5, 2000)
    inputs = write_reports(tmp_path / "reports", simulate(parse_study(TEXT), "x", values, seed=1))
    ran = run_estimate(tmp_path, TEXT, inputs)
    assert ran.code == 0, ran.err
    (path,) = (ran.path / "statistics").glob("*.avro")
    return Path(path)


@pytest.fixture
def rollup(tmp_path: Path, command: Callable[..., Any]) -> Callable[..., Any]:
    """Runs the command on a file's bytes: gives what it said, and its estimates."""

    def run(data: bytes) -> tuple[Any, str]:
        damaged = tmp_path / "given.avro"
        damaged.write_bytes(data)
        study, output = tmp_path / "study.yaml", tmp_path / "rolled"
        given = ("--study", study, "--statistics", damaged, "--output", output, "--overwrite")
        ran = command("rollup", *given)
        return ran, (output / "estimates.jsonl").read_text() if ran.code == 0 else ""

    return run


def test_of_forty_damaged_files_none_gives_another_number(
    statistics: Path, rollup: Callable[..., Any], tmp_path: Path
) -> None:
    data, source = statistics.read_bytes(), np.random.default_rng(7)
    _, whole = rollup(data)
    refused = 0
    for _ in range(40):
        damaged = bytearray(data)
        damaged[source.integers(len(data))] ^= 1 << source.integers(8)
        ran, found = rollup(bytes(damaged))
        assert (ran.code, found) == (0, whole) or ran.code == 2
        if ran.code == 2:
            refused += 1
            assert ran.err.startswith(f"ldpbeam: {tmp_path}/given.avro: ")
            assert ran.err.count("\n") == 1
    assert refused > 35
    for end in (len(data) // 3, len(data) - 1):
        ran, _ = rollup(data[:end])
        assert (ran.code, "damaged" in ran.err) == (2, True)
