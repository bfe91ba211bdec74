"""What a run leaves: whole files or none, under names that the contents fix, readable again."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import apache_beam as beam
import fastavro
import numpy as np
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing import test_pipeline

from ldpbeam.schemas.outputs.snapshots import Snapshot, read_snapshots
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.statistics import Answers, tally
from ldpbeam.study import Publish
from ldpbeam.transforms import storage
from ldpbeam.transforms.outputs.letter_files import DEAD_LETTER_SHARDS
from ldpbeam.transforms.outputs.names import snapshot_name, window_in
from ldpbeam.transforms.outputs.on_engines import WriteDeadLetters, WriteSnapshots
from ldpbeam.transforms.outputs.snapshots import SHARED_FILES
from ldpbeam.transforms.reports.dead_letters import DeadLetter, Disclosure, in_columns
from ldpbeam.transforms.reports.emitted import emit
from ldpbeam.windows import Windows

STUDY = parse_study(
    """
study: writing
attributes:
  x:
    domain: {numeric: [0, 1]}
    buckets: 8
    services: {maps: {mechanism: piecewise, epsilon: 1.0}}
    estimates: {all: {estimator: ule}}
"""
)
X = STUDY.attribute("x")


def snapshot(window: tuple[int, int] | None, group: str | None, reports: int) -> Snapshot:
    answer = Answers(0, np.arange(reports), np.linspace(-1, 1, reports))
    return Snapshot("x", window, group, 0, tally(X, reports, [answer]))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_appears_whole_and_alone(tmp_path: Path) -> None:
    with storage.replacing(str(tmp_path / "f")) as stream:
        stream.write(b"new")
        assert "f" not in names(tmp_path), "not under its name before it is whole"
    assert names(tmp_path) == ["f"]
    assert (tmp_path / "f").read_bytes() == b"new"


def test_a_full_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def sync(_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(storage.disk, "sync", sync)
    path = str(tmp_path / "f")
    with pytest.raises(OSError, match=f"No space left on device: '{path}'"), storage.replacing(path):
        pass


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_leaves_nothing_and_what_was_there(tmp_path: Path, error: type[BaseException]) -> None:
    def fail(name: str) -> None:
        with storage.replacing(str(tmp_path / name)) as stream:
            stream.write(b"half")
            raise error

    (tmp_path / "old").write_bytes(b"old")
    for name in ("old", "new"):
        with pytest.raises(error):
            fail(name)
    assert names(tmp_path) == ["old"]
    assert (tmp_path / "old").read_bytes() == b"old"


def test_a_file_is_replaced_and_its_name_says_nothing_of_compression(tmp_path: Path) -> None:
    path = str(tmp_path / "f.gz")
    storage.write_bytes(path, b"one")
    storage.write_bytes(path, b"two")
    assert names(tmp_path) == ["f.gz"]
    with storage.open_raw(path) as stream:
        assert stream.read() == b"two"
    assert Path(path).read_bytes() == b"two"


def test_the_disk_has_a_file_before_its_name_and_both_before_anybody_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "new" / "folder" / "file"
    synced: list[tuple[int, bool]] = []
    monkeypatch.setattr(
        storage.os, "fsync", lambda file: synced.append((os.fstat(file).st_ino, path.exists()))
    )
    storage.make_folder(str(path.parent))
    storage.write_bytes(str(path), b"here")
    outer, new, folder, file = (
        each.stat().st_ino for each in (tmp_path, tmp_path / "new", path.parent, path)
    )
    assert synced == [(outer, False), (new, False), (file, False), (folder, True)]
    with storage.replacing(str(path), durable=False) as stream:
        stream.write(b"again")
    assert len(synced) == 4


def test_a_folder_that_another_makes_at_the_same_moment_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exists = iter([False, True])
    (tmp_path / "a").mkdir()
    monkeypatch.setattr(storage, "exists", lambda path: next(exists))
    storage.make_folder(str(tmp_path / "a"))
    (tmp_path / "file").touch()
    monkeypatch.undo()
    with pytest.raises(OSError, match="file"):
        storage.make_folder(str(tmp_path / "file" / "b"))


@pytest.mark.parametrize(
    ("window", "name"),
    [
        (None, "s-x.y-all"),
        ((1795168800000, 1795172400000), "s-x.y-20261120T100000Z-20261120T110000Z"),
        ((-3600000, 0), "s-x.y-19691231T230000Z-19700101T000000Z"),
        ((-250, 1001), "s-x.y-19691231T235959.750Z-19700101T000001.001Z"),
    ],
)
def test_a_snapshots_name_is_its_study_attribute_and_window(
    window: tuple[int, int] | None, name: str
) -> None:
    assert snapshot_name("s", "x.y", window) == f"{name}.avro"
    assert snapshot_name("s", "x.y", window, "8c1f") == f"{name}.8c1f.avro"
    assert window_in(f"{name}.avro") == window_in(f"{name}.jsonl") == window
    assert window_in(f"{name}.8c1f.avro") is None


def test_a_long_name_leaves_room_for_a_temporary_one(tmp_path: Path) -> None:
    name = snapshot_name("s" * 64, f"{'a' * 64}.{'c' * 64}", (0, 3_600_000))
    storage.write_bytes(str(tmp_path / name), b"whole")
    assert names(tmp_path) == [name]


def test_windows_without_enough_users_share_files_and_are_all_there(tmp_path: Path) -> None:
    """However many there are; a window of which one group has enough has a file of its own."""
    study = replace(STUDY, publish=Publish(at_least=3), windows=Windows(1000, 1000))
    few = [("x", [snapshot((1000 * number, 1000 * number + 1000), None, 2)]) for number in range(5, 305)]
    enough = ("x", [snapshot((0, 1000), None, 2), snapshot((0, 1000), "north", 3)])
    with test_pipeline.TestPipeline(runner=FnApiRunner()) as pipeline:
        _ = pipeline | beam.Create([*few, enough]) | WriteSnapshots(study, str(tmp_path), "run-1")
    assert len(names(tmp_path)) == 1 + SHARED_FILES
    found = []
    for name in names(tmp_path):
        with (tmp_path / name).open("rb") as stream:
            snapshots = list(read_snapshots(stream))
        windows = [own.window for own in snapshots if own.window is not None]
        assert windows == sorted(windows)
        assert window_in(name) == (windows[0][0], windows[-1][1])
        found += snapshots
    found.sort(key=lambda own: (own.window or (), own.group or ""))
    assert found == [*enough[1], *(own for _, (own,) in few)]


def test_dead_letters_are_gathered_into_a_few_files_and_read_back(tmp_path: Path) -> None:
    letters = [
        DeadLetter(f"file {place % 20}", place, None, "no_payload", "détail", 2, f"{place}".encode())
        for place in range(100)
    ]
    batches = [
        next(iter(emit(in_columns([letter]), Disclosure(place % 2 == 0)))).value
        for place, letter in enumerate(letters)
    ]
    with test_pipeline.TestPipeline(runner=FnApiRunner()) as pipeline:
        parts = (
            pipeline | "Even" >> beam.Create(batches[::2]),
            pipeline | "Odd" >> beam.Create(batches[1::2]),
        )
        _ = parts | WriteDeadLetters(str(tmp_path / "dead"))
    assert 1 <= len(names(tmp_path / "dead")) <= DEAD_LETTER_SHARDS
    found: list[Any] = []
    for path in (tmp_path / "dead").iterdir():
        with path.open("rb") as stream:
            found += list(fastavro.reader(stream))
    found.sort(key=lambda record: record["position"])
    for letter, record, place in zip(letters, found, range(100), strict=True):
        kept = letter.record if place % 2 == 0 else None
        assert (record["file"], record["row"], record["reason"]) == (letter.file, None, "no_payload")
        assert (record["detail"], record["reports"], record["record"]) == ("détail", 2, kept)
    by_file = {record["file"] for record in found}
    assert len(by_file) == 20


def test_dead_letters_are_counted_by_their_reports() -> None:
    letters = [DeadLetter("f", 0, None, reason, "", n, b"") for reason, n in (("a", 3), ("b", 1), ("a", 5))]
    _, *counts = emit(in_columns(letters), Disclosure())
    assert [count.value for count in counts] == [
        ("dead_letters_by_reason/a", 8),
        ("dead_letters_by_reason/b", 1),
        ("dead_letters", 9),
    ]
    assert list(emit([], Disclosure(records=True))) == []
