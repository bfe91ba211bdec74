"""Damage that is found while files are read: the run stops, or says that its loss is not known.

Which damage is found in which kind of file: test_read_files.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ldpbeam.pipelines.commands import estimate
from ldpbeam.schemas.encodings import avro
from ldpbeam.transforms.sources import files

FILES, REPORTS, BLOCK = 7, 2_000, 10


def lines(count: int, user: str = "u") -> bytes:
    rows = [
        {"user_id": f"{user}{i}", "attribute": "x", "service": "a", "payload": (i % 101) / 100}
        for i in range(count)
    ]
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


@pytest.fixture
def seven(tmp_path: Path) -> list[Path]:
    """Seven Avro files of many small blocks, so that one lost block is few reports."""
    schema = avro.fixed_report_schema({"user_id": 16})
    folder = tmp_path / "in"
    folder.mkdir()
    paths = []
    for file in range(FILES):
        rows = np.zeros(REPORTS, avro.fixed_dtype(schema))
        rows["user_id"] = np.frombuffer(np.random.default_rng(file).bytes(16 * REPORTS), "V16")
        rows["payload"] = 0.5
        paths.append(folder / f"{file}.avro")
        with paths[-1].open("wb") as stream:
            metadata = {"ldpbeam.attribute": "x", "ldpbeam.service": "a"}
            avro.write_fixed(stream, rows, schema, metadata, bytes([file] * 15 + [255]), BLOCK)
    return paths


def nothing_is_left(found: Any) -> bool:
    """No file that could be taken for the outcome of a whole run."""
    left = {path.name for path in found.path.rglob("*") if path.is_file()}
    return not any(name.startswith(("estimates", ".estimates", "small-", "ledger")) for name in left)


def cut(path: Path, size: int) -> None:
    with path.open("r+b") as stream:
        stream.truncate(size)


def sync_places(data: bytes) -> list[int]:
    return [at for at in range(len(data)) if data.startswith(data[-16:], at)]


def check(found: Any, damaged: Path, problem: str) -> None:
    """A run that stopped, and said of which file and why."""
    assert found.code == 2, found.out + found.err
    (sentence,) = [line for line in found.err.splitlines() if str(damaged) in line]
    assert problem in sentence
    assert "--on-bad-file skip" in found.err
    assert nothing_is_left(found)
    assert found.accounting["damaged_files"] == 1


def check_skipped(found: Any) -> None:
    """A run that estimated from the rest, and said that it does not know what is missing."""
    assert found.code == 3
    assert found.accounting["damaged_files"] == 1
    for said in (found.out, found.err):
        assert "1 file is damaged: how many reports it lost is not known" in said
    assert [estimate["complete"] for estimate in found.estimates] == [False] * len(found.estimates)
    assert [snapshot.complete for snapshot in found.snapshots] == [False] * len(found.snapshots)


def test_a_file_that_is_deleted_after_it_was_found_ends_the_run(
    small_text: str, tmp_path: Path, run_estimate: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "gone.jsonl"
    path.write_bytes(lines(100))
    assemble = estimate.assemble

    def when_assembled(*arguments: Any) -> Any:
        path.unlink()
        return assemble(*arguments)

    monkeypatch.setattr(estimate, "assemble", when_assembled)
    check(run_estimate(tmp_path, small_text, [path]), path, "No such file or directory")


def test_a_file_that_many_workers_read_is_one_damaged_file(
    small_text: str, tmp_path: Path, run_estimate: Any, seven: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "RANGE_BYTES", 10_000)
    data = bytearray(seven[0].read_bytes())
    places = sync_places(bytes(data))
    for block in (20, 90, 160):
        data[places[block] + 3] ^= 16
    seven[0].write_bytes(data)
    found = run_estimate(tmp_path, small_text, [*seven])
    check(found, seven[0], f"byte {places[19] + 16:,}: not followed by the file's sync marker")
    found = run_estimate(tmp_path / "skip", small_text, [*seven], "--on-bad-file", "skip")
    check_skipped(found)
    assert (found.accounting["dead_letters"], found.accounting["used"]) == (30, FILES * REPORTS - 30)


def test_the_first_ten_damaged_files_are_named(small_text: str, tmp_path: Path, run_estimate: Any) -> None:
    paths = [tmp_path / "in" / f"{place:02}.jsonl" for place in range(13)]
    paths[0].parent.mkdir()
    for path in paths:
        path.write_bytes(lines(100, path.stem)[:-30])
    found = run_estimate(tmp_path, small_text, paths)
    assert [str(path) in found.err for path in paths] == [True] * 10 + [False] * 3
    assert "... and 3 more" in found.err


@pytest.mark.parametrize("on_bad_file", ["stop", "skip"])
def test_estimates_of_workers_do_not_survive_damage(
    on_bad_file: str, small_text: str, tmp_path: Path, run_estimate: Any, seven: list[Path]
) -> None:
    cut(seven[0], seven[0].stat().st_size - 9)
    options = ("--estimate-on", "worker", "--on-bad-file", on_bad_file)
    found = run_estimate(tmp_path, small_text, [*seven], *options)
    if on_bad_file == "stop":
        check(found, seven[0], "the file ends inside a block")
    else:
        check_skipped(found)
        assert len(found.estimates) == 2


def test_a_scheduled_run_that_stops_for_damage_leaves_what_was_there(
    small_text: str, tmp_path: Path, run_estimate: Any
) -> None:
    text = small_text + "windows: {size: 1h}\n"
    span = ("--from", "1970-01-01T00:00:00Z", "--to", "1970-01-01T01:00:00Z")
    path = tmp_path / "r.jsonl"
    data = lines(100).replace(b'"payload"', b'"event_time": 5, "payload"')
    path.write_bytes(data)
    first = run_estimate(tmp_path, text, [path], *span)
    assert first.code == 0
    before = {file: file.read_bytes() for file in first.path.rglob("*") if file.is_file()}
    path.write_bytes(data[:-30])
    stopped = run_estimate(tmp_path, text, [path], *span)
    assert (stopped.code, str(path) in stopped.err) == (2, True)
    assert {file: file.read_bytes() for file in first.path.rglob("*") if file.is_file()} == before
