"""Files as a feed: each is read once, by this run and those after it."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from support.encoded import avro_file, parquet_file

from ldpbeam.schemas.reports.columns import Columns
from ldpbeam.transforms.sources import files, folder
from ldpbeam.transforms.sources.feeds import FeedBatch, OpenFeed
from ldpbeam.transforms.sources.folder import FolderFeed, merged

SCHEMA: Any = {
    "type": "record",
    "name": "Report",
    "fields": [{"name": "user_id", "type": "string"}, {"name": "payload", "type": "double"}],
}


def records(users: Sequence[str]) -> list[dict[str, Any]]:
    return [{"user_id": user, "payload": 0.5} for user in users]


def lines(users: Sequence[str]) -> bytes:
    return "".join(json.dumps(record) + "\n" for record in records(users)).encode()


def parquet(users: Sequence[str]) -> bytes:
    return parquet_file(pa.Table.from_pylist(records(users)), row_group_size=70)


def avro(users: Sequence[str]) -> bytes:
    return avro_file(SCHEMA, records(users), sync_interval=200)


#: How a file is written, and whether it has parts.
KINDS: dict[str, tuple[Callable[[Sequence[str]], bytes], bool]] = {
    "jsonl": (lines, True),
    "jsonl.gz": (lambda users: gzip.compress(lines(users)), False),
    "parquet": (parquet, True),
    "avro": (avro, True),
}
MANY = [f"user {number}" for number in range(300)]


class Watching:
    """A folder of files that one process after another reads; every look is a new one."""

    def __init__(self, path: Path) -> None:
        self.path = path / "in"
        self.path.mkdir()

    def write(self, name: str, *users: str) -> None:
        (self.path / name).write_bytes(lines(users))

    def open(self, before: OpenFeed | None = None, patterns: Sequence[str] = ()) -> OpenFeed:
        """The feed of a process, which goes on where another one is, as the manifest of a run has it."""
        given = tuple(patterns) or (str(self.path / "*"),)
        position = None if before is None else json.loads(json.dumps(before.position()))
        return FolderFeed(given, Columns()).open_at(position)


@pytest.fixture
def watching(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Watching:
    monkeypatch.setattr(folder, "LOOKING_SECONDS", 0.0)
    return Watching(tmp_path)


def everything(opened: OpenFeed) -> list[FeedBatch]:
    """What has arrived by now."""
    feed_batches = []
    while (feed_batch := opened.take()) is not None:
        feed_batches.append(feed_batch)
    return feed_batches


def users(feed_batches: Sequence[FeedBatch]) -> list[str]:
    columns = [batch.column("user_id") for feed_batch in feed_batches for batch in feed_batch.batches]
    return [user.decode() for column in columns for user in column.to_pylist()]


def test_new_files_are_read_by_name_and_never_twice(watching: Watching) -> None:
    opened = watching.open()
    assert opened.take() is None
    for name, user in (("b", "bob"), ("a", "ann"), ("c", "cho")):
        watching.write(name, user)
    first = everything(opened)
    assert [users([feed_batch]) for feed_batch in first] == [["ann"], ["bob"], ["cho"]]
    assert [batch.schema.metadata[b"file"].decode() for own in first for batch in own.batches] == [
        str(watching.path / name) for name in "abc"
    ]
    watching.write("0", "zoe")
    watching.write("a", "ann, who is not read again")
    assert users(everything(opened)) == ["zoe"]
    assert everything(opened) == []


def test_files_that_are_being_written_are_not_read(watching: Watching) -> None:
    opened = watching.open()
    watching.write(".a", "ann")
    watching.write("b.tmp", "bob")
    assert users(everything(opened)) == ["bob"]
    (watching.path / ".a").rename(watching.path / "a")
    assert users(everything(opened)) == ["ann"]


def test_a_file_that_is_found_empty_is_read_when_it_is_written(watching: Watching) -> None:
    opened = watching.open()
    (watching.path / "a.jsonl").touch()
    assert opened.take() is None
    watching.write("a.jsonl", "ann")
    assert users(everything(opened)) == ["ann"]


def test_it_looks_for_files_now_and_then(watching: Watching, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = 5_000
    monkeypatch.setattr(folder, "LOOKING_SECONDS", 2.0)
    monkeypatch.setattr(folder, "elapsed", lambda: clock)
    opened = watching.open()
    watching.write("a", "ann")
    assert users(everything(opened)) == ["ann"]
    watching.write("b", "bob")
    clock = 6_999
    assert everything(opened) == []
    clock = 7_000
    assert users(everything(opened)) == ["bob"]


def test_it_is_silent_since_the_last_look_that_brought_no_file(
    watching: Watching, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = 10
    monkeypatch.setattr(folder, "elapsed", lambda: clock)
    watching.write("a", "ann")
    watching.write("b", "bob")
    opened = watching.open()
    for _ in range(2):
        assert opened.take() is not None
        assert opened.state.silences[0] is None
    for clock in (20, 30):
        assert opened.take() is None
        assert opened.state.silences[0] == clock


def test_the_oldest_file_that_waits_is_known(watching: Watching) -> None:
    for name, written in (("a", 3_000), ("b", 1_000), ("c", 2_000)):
        watching.write(name, "ann")
        os.utime(watching.path / name, (written, written))
    parcels = everything(watching.open())
    assert [one.published for one in parcels] == [3_000_000, 1_000_000, 2_000_000]
    assert [one.oldest for one in parcels] == [1_000_000, 1_000_000, 2_000_000]


def test_a_file_that_the_next_run_spells_differently_is_not_read_again(
    watching: Watching, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(watching.path)
    watching.write("a", "ann")
    first = watching.open(None, ["*"])
    everything(first)
    assert everything(watching.open(first)) == []


def test_every_name_is_read_or_named_and_a_linked_file_once(watching: Watching) -> None:
    for name, user in (("week\\tue.jsonl", "ann"), ("a#0-9", "bob"), ("line\nend", "cho")):
        watching.write(name, user)
    (watching.path / "link").symlink_to(watching.path / "a#0-9")
    watching.write(os.fsdecode(b"in\xff"), "dan")
    opened = watching.open()
    feed_batches = everything(opened)
    assert sorted(users(feed_batches)) == ["ann", "bob", "cho"]
    (letter,) = (letter for feed_batch in feed_batches for letter in feed_batch.letters)
    assert letter.file.endswith("/in\\udcff")
    assert letter.detail == "its name is not UTF-8; rename it"
    assert everything(watching.open(opened)) == []


@pytest.mark.parametrize("size", [1, 2_000, 10**9], ids=["small batches", "batches", "whole parts"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_process_may_end_between_any_two_batches_and_each_report_is_read_once(
    kind: str, size: int, watching: Watching, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, parted = KINDS[kind]
    monkeypatch.setattr(folder, "RANGE_BYTES", 1500)
    monkeypatch.setattr(folder, "DECODED_BYTES", size)
    monkeypatch.setattr(files, "RANGE_ROWS", 100)
    monkeypatch.setattr("ldpbeam.schemas.encodings.avro.BATCH_REPORTS", 7)
    monkeypatch.setattr("ldpbeam.schemas.files.json_lines.CHUNK_BYTES", 500)
    (watching.path / f"b.{kind}").write_bytes(write(MANY[:200]))
    (watching.path / f"c.{kind}").write_bytes(write(MANY[200:]))
    opened, taken, ends = watching.open(), [], 0
    while (feed_batch := opened.take()) is not None:
        taken.append(feed_batch)
        opened.close()
        # A file that comes before the one that is being read does not disturb it.
        if ends < 3:
            watching.write(f"a{ends}", f"new {ends}")
        opened, ends = watching.open(opened), ends + 1
    old = [user for user in users(taken) if not user.startswith("new")]
    assert sorted(old) == sorted(MANY)
    assert len(set(users(taken))) == len(users(taken))
    if parted and size < 10**9:
        assert ends > 6


@pytest.mark.parametrize("is_left", [False, True])
def test_a_file_that_is_gone_or_empty_while_it_is_read_is_a_dead_letter(
    is_left: bool, watching: Watching, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder, "DECODED_BYTES", 1)
    monkeypatch.setattr("ldpbeam.schemas.encodings.avro.BATCH_REPORTS", 50)
    (watching.path / "a").write_bytes(avro(MANY))
    first = watching.open()
    assert first.take() is not None
    (watching.path / "a").unlink()
    if is_left:
        (watching.path / "a").touch()
    second = watching.open(first)
    (gone,) = everything(second)
    assert [(letter.reason, letter.detail) for letter in gone.letters] == [
        ("bad_file", "it is gone or empty, and was being read")
    ]
    assert gone.damaged == [str(watching.path / "a")]
    assert everything(watching.open(second)) == []


@pytest.mark.parametrize("left", [0.5, 1.0], ids=["before what was taken", "in the part"])
def test_of_a_file_that_is_cut_inside_the_part_that_is_read_nothing_is_read_twice(
    left: float, watching: Watching, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder, "DECODED_BYTES", 1)
    monkeypatch.setattr("ldpbeam.schemas.files.json_lines.CHUNK_BYTES", 500)
    path = watching.path / "a"
    path.write_bytes(lines(MANY))
    first = watching.open()
    taken = [first.take() for _ in range(2)]
    count = len(users([each for each in taken if each]))
    assert first.position()["part"] is not None
    path.write_bytes(lines(MANY[: int(left * count) + 5]))
    (cut,) = everything(watching.open(first))
    assert (users([cut]), [letter.reason for letter in cut.letters]) == ([], ["bad_file"])


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_of_a_file_that_is_cut_while_it_is_read_nothing_is_read_twice(
    kind: str, watching: Watching, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder, "RANGE_BYTES", 1500)
    monkeypatch.setattr(files, "RANGE_ROWS", 1)
    write, _ = KINDS[kind]
    path = watching.path / f"a.{kind}"
    path.write_bytes(write(MANY))
    first = watching.open()
    for _ in range(3):
        assert first.take() is not None
    path.write_bytes(write(MANY[:80]))
    (cut,) = everything(watching.open(first))
    assert users([cut]) == []
    assert [letter.reason for letter in cut.letters] == ["bad_file"]
    assert "rewritten since" in cut.letters[0].detail


def test_the_positions_of_runs_that_have_ended_are_merged(watching: Watching) -> None:
    for name in "ab":
        watching.write(name, name)
    (watching.path / "c.txt").write_text("these are no reports")
    patterns = [[str(watching.path / name)] for name in ("a", "b", "c.txt")]
    ended = [watching.open(None, pattern) for pattern in patterns]
    assert [len(everything(each)) for each in ended] == [1, 1, 1]
    watching.write("d", "dee")
    feed = FolderFeed((str(watching.path / "*"),), Columns())
    assert users(everything(feed.open_at(merged(each.position() for each in ended)))) == ["dee"]
    assert users(everything(feed.open_at(merged([])))) == ["a", "b", "dee"]


def append(path: Path, users: Sequence[str]) -> None:
    """Append reports to a file, which need not exist."""
    with path.open("a+b") as stream:
        if path.suffix == ".avro":
            fastavro.writer(stream, SCHEMA, records(users), sync_interval=200)
        else:
            stream.write(lines(users))


@pytest.mark.parametrize("kind", ["jsonl", "avro"])
@pytest.mark.parametrize("size", [1500, 10**9])
def test_of_a_file_that_grew_the_next_run_reads_what_was_appended(
    kind: str, size: int, watching: Watching, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder, "RANGE_BYTES", size)
    path = watching.path / f"reports.{kind}"
    opened = None
    for first, after in [(0, 100), (100, 110), (110, 300)]:
        append(path, MANY[first:after])
        opened = watching.open(opened)
        assert users(everything(opened)) == MANY[first:after]
    assert everything(watching.open(opened)) == []


def test_a_last_line_without_an_end_is_read_once_though_more_follows(watching: Watching) -> None:
    path = watching.path / "a"
    path.write_bytes(lines(["ann"])[:-1])
    first = watching.open()
    everything(first)
    path.write_bytes(lines(["ann", "bob"]))
    assert users(everything(watching.open(first))) == ["bob"]


@pytest.mark.parametrize("kind", ["jsonl", "jsonl.gz", "avro"])
@pytest.mark.parametrize("now", [MANY[:200], [f"another {user}" for user in MANY]])
def test_a_file_that_was_written_anew_after_a_run_read_it_is_a_dead_letter(
    kind: str, now: list[str], watching: Watching
) -> None:
    write, _ = KINDS[kind]
    path = watching.path / f"reports.{kind}"
    path.write_bytes(write(MANY[:250]))
    first = watching.open()
    everything(first)
    path.write_bytes(write(now))
    second = watching.open(first)
    (feed_batch,) = everything(second)
    assert everything(watching.open(second)) == []
    assert users([feed_batch]) == []
    assert [letter.reason for letter in feed_batch.letters] == ["bad_file"]
    assert "rewritten since" in feed_batch.letters[0].detail
    assert feed_batch.damaged == [str(path)]


def test_the_position_is_by_whole_files_and_the_part_that_is_being_read(
    watching: Watching, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder, "DECODED_BYTES", 1)
    monkeypatch.setattr("ldpbeam.schemas.encodings.avro.BATCH_REPORTS", 50)
    watching.write("a", "ann")
    (watching.path / "b.avro").write_bytes(avro(MANY))
    (watching.path / "c.txt").write_text("these are no reports")
    a, b, c = (str(watching.path / name) for name in ("a", "b.avro", "c.txt"))
    opened = watching.open()
    opened.take()
    size = len(lines(["ann"]))
    assert opened.position() == {"read": {a: size}, "bad": [], "part": None}
    opened.take()
    opened.take()
    assert opened.position() == {"read": {a: size}, "bad": [], "part": [b, len(avro(MANY)), 2]}
    everything(opened)
    assert opened.position() == {"read": {a: size, b: len(avro(MANY))}, "bad": [c], "part": None}
