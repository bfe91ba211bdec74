"""Roll-ups of damaged statistics: refused in one line that names the file, and never a wrong number."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pytest

from ldpbeam.schemas.encodings.avro import schema
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


def test_a_file_of_an_earlier_version_is_read_with_a_warning(
    statistics: Path, rollup: Callable[..., Any], tmp_path: Path
) -> None:
    ran, whole = rollup(statistics.read_bytes())
    assert (ran.code, ran.err) == (0, "")
    earlier = schema("statistic")
    earlier["fields"] = [field for field in earlier["fields"] if field["name"] != "sha256"]
    with statistics.open("rb") as stream:
        records: list[Any] = list(fastavro.reader(stream))
    with (tmp_path / "earlier.avro").open("wb") as written:
        fastavro.writer(written, earlier, records, codec="deflate")
    ran, found = rollup((tmp_path / "earlier.avro").read_bytes())
    assert (ran.code, found) == (0, whole)
    assert ran.err == (
        f"ldpbeam: warning: {tmp_path}/given.avro: written by version 0.1.0 without hashes, so that some "
        "damage to it cannot be noticed\n"
    )


def test_a_statistic_of_other_cells_than_its_channels_is_refused(
    statistics: Path, rollup: Callable[..., Any], tmp_path: Path
) -> None:
    earlier = schema("statistic")
    earlier["fields"] = [field for field in earlier["fields"] if field["name"] != "sha256"]
    with statistics.open("rb") as stream:
        records: list[Any] = list(fastavro.reader(stream))
    records[0]["histograms"] = [own + bytes(8) for own in records[0]["histograms"]]
    with (tmp_path / "wider.avro").open("wb") as written:
        fastavro.writer(written, earlier, records, codec="deflate")
    ran, _ = rollup((tmp_path / "wider.avro").read_bytes())
    assert ran.code == 2
    assert "damaged: its histograms have [17, 17] cells, its channels [16, 16]" in ran.err
