"""A message that ends the process ends it four times at most; and batches are of bounded size."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from support.bounded import FORKED

from ldpbeam.schemas.messages.decode import ARROW, JSON, LINES, Message
from ldpbeam.schemas.reports.columns import Columns
from ldpbeam.transforms.sources import message_batches
from ldpbeam.transforms.sources.feeds import DECODED_BYTES, FeedBatch
from ldpbeam.transforms.sources.message_batches import Received, next_batch
from ldpbeam.transforms.state.decoding import DEFEATED, Record, left_on_record
from ldpbeam.transforms.state.files import run_folder

FEED = "projects/p/subscriptions/s"
KILLER = b'{"user_id": "killer"}'


def own(output: Path) -> str:
    """The folder of a run in an output folder."""
    return run_folder(str(output), "run")


def report(user: str) -> bytes:
    record = {"user_id": user, "attribute": "x", "service": "a", "event_time": 5, "payload": 0.5}
    return json.dumps(record).encode()


def received(*contents: bytes, kind: str = JSON) -> list[Received]:
    return [Received(f"r{n}", Message(str(n), data, kind), n) for n, data in enumerate(contents)]


def users(feed_batch: FeedBatch) -> list[bytes]:
    return sorted(user for batch in feed_batch.batches for user in batch.column("user_id").to_pylist())


def _die_of_the_killer(messages: Sequence[Message], columns: Columns) -> Any:
    if any(message.data == KILLER for message in messages):
        os._exit(9)
    return _decode_messages(messages, columns)


_decode_messages = message_batches.decode_messages


def _run(output: str, run: str, queue: Any, contents: Sequence[bytes], checked: bool) -> None:
    """What a run does with what is delivered to it; in a process that a message may end."""
    if not checked:
        message_batches.decode_messages = _die_of_the_killer
    record = Record(run_folder(output, run), left_on_record(output))
    waiting, found = received(*contents), Found([], [], [])
    while waiting:
        feed_batch, waiting = next_batch(FEED, Columns(), waiting, record)
        if checked and b"killer" in users(feed_batch):
            os._exit(9)
        found.users.extend(users(feed_batch))
        found.letters.extend((letter.position, letter.reason) for letter in feed_batch.letters)
        found.receipts.extend(feed_batch.receipts)
    record.passed()
    queue.put(found)


class Found(NamedTuple):
    users: list[bytes]
    letters: list[tuple[int | None, str]]
    receipts: list[str]


def run_in_a_process(output: Path, run: str, contents: Sequence[bytes], checked: bool = False) -> Any:
    """What the run did; None if a message ended it: its decoding, or when it was decoded."""
    queue = FORKED.Queue()
    process = FORKED.Process(target=_run, args=(str(output), run, queue, contents, checked))
    process.start()
    process.join()
    assert process.exitcode in (0, 9)
    return queue.get() if process.exitcode == 0 else None


@pytest.mark.slow
@pytest.mark.parametrize("checked", [False, True])
def test_a_message_that_ends_the_process_becomes_a_dead_letter_and_the_others_count(
    tmp_path: Path, checked: bool
) -> None:
    contents = [report("a"), KILLER, report("b"), report("c")]
    assert run_in_a_process(tmp_path, "first", contents, checked) is None
    assert left_on_record(str(tmp_path)) == {str(n): 4 for n in range(4)}
    # Each is alone now, and one of them ends the process again; it may have been killed by somebody.
    assert run_in_a_process(tmp_path, "second", contents, checked) is None
    assert left_on_record(str(tmp_path))["1"] == 1
    assert run_in_a_process(tmp_path, "third", contents, checked) is None
    assert left_on_record(str(tmp_path))["1"] == 0
    found = run_in_a_process(tmp_path, "fourth", contents, checked)
    assert found == ([b"a", b"b", b"c"], [(1, DEFEATED)], ["r0", "r1", "r2", "r3"])
    # It stays one, should this run end before it was acknowledged.
    found = run_in_a_process(tmp_path, "fifth", [report("a"), KILLER], checked)
    assert found == ([b"a"], [(1, DEFEATED)], ["r0", "r1"])


@pytest.mark.slow
def test_a_message_that_is_decoded_alone_ends_the_process_twice(tmp_path: Path) -> None:
    assert run_in_a_process(tmp_path, "first", [KILLER]) is None
    assert run_in_a_process(tmp_path, "another", [KILLER]) is None
    found = run_in_a_process(tmp_path, "first", [KILLER, report("a")])
    assert found == ([b"a"], [(0, DEFEATED)], ["r0", "r1"])


def test_nothing_stays_on_record_when_all_has_passed_and_owners_alone_read_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []

    def look(messages: Sequence[Message], columns: Columns) -> Any:
        (file,) = Path(own(tmp_path)).glob("decoding-*.json")
        seen.append((left_on_record(str(tmp_path)), stat.S_IMODE(file.stat().st_mode)))
        return _decode_messages(messages, columns)

    monkeypatch.setattr(message_batches, "decode_messages", look)
    record = Record(own(tmp_path), {})
    feed_batch, rest = next_batch(FEED, Columns(), received(report("a"), report("b")), record)
    assert (users(feed_batch), rest) == ([b"a", b"b"], [])
    assert seen == [({"0": 2, "1": 2}, 0o600)]
    # It was decoded, and what checks it may still end the process.
    assert left_on_record(str(tmp_path)) == {"0": 2, "1": 2}
    record.passed()
    assert left_on_record(str(tmp_path)) == {}


def on_record(folder: Path, *ids: str) -> None:
    """The record of a process that ended while it decoded these messages."""
    folder.mkdir(parents=True, exist_ok=True)
    place = len(list(folder.glob("decoding-*.json")))
    (folder / f"decoding-{place}.json").write_text(json.dumps({"messages": ids}))


def test_many_messages_of_a_killed_process_are_decoded_in_groups_and_then_suspected_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(message_batches, "TOGETHER", 3)
    sizes: list[int] = []

    def look(messages: Sequence[Message], columns: Columns) -> Any:
        sizes.append(len(messages))
        return _decode_messages(messages, columns)

    monkeypatch.setattr(message_batches, "decode_messages", look)
    on_record(Path(own(tmp_path)), *map(str, range(8)))
    on_record(Path(own(tmp_path)), "6", "7")
    record = Record(own(tmp_path), {})
    contents = [report(f"u{n}") for n in range(10)]
    waiting, found = received(*contents), []
    while waiting:
        feed_batch, waiting = next_batch(FEED, Columns(), waiting, record)
        assert set(left_on_record(str(tmp_path))) >= {receipt[1:] for receipt in feed_batch.receipts}
        found += users(feed_batch)
    # Six that were among many; two that were among few, alone; two that are new. Each is a batch.
    assert sizes == [3, 3, 1, 1, 2]
    assert found == [f"u{n}".encode() for n in range(10)]
    record.passed()
    assert (record.suspects, list(Path(own(tmp_path)).iterdir())) == ({}, [])


def test_a_record_stays_as_long_as_one_of_its_messages_was_not_decoded(tmp_path: Path) -> None:
    on_record(Path(own(tmp_path)), "1", "2")
    record = Record(own(tmp_path), {"9": 5})
    record.clear(["1", "9"])
    assert (record.suspects, left_on_record(str(tmp_path))) == ({"2": 2}, {"1": 2, "2": 2})
    record.clear(["2"])
    assert left_on_record(str(tmp_path)) == {}


def test_an_error_of_decoding_takes_messages_off_the_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(messages: Sequence[Message], columns: Columns) -> Any:
        raise OSError("no registry")

    monkeypatch.setattr(message_batches, "decode_messages", fail)
    record = Record(own(tmp_path), {"0": 2})
    with pytest.raises(OSError, match="no registry"):
        next_batch(FEED, Columns(), received(report("a")), record)
    assert (left_on_record(str(tmp_path)), record.suspects) == ({}, {"0": 2})


def arrow(rows: int) -> bytes:
    """A message of so many reports, a hundredth of their size."""
    columns = {
        "user_id": pa.array([b"u" * 1000] * rows),
        "payload": pa.array(np.zeros(rows)),
        "event_time": pa.array(np.zeros(rows, dtype=np.int64)),
    }
    batch = pa.RecordBatch.from_pydict(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_batch(batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def test_messages_that_expand_are_taken_until_a_parcel_is_large_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(message_batches, "DECODED_BYTES", 2_000_000)
    waiting = [
        *received(*[arrow(1000)] * 5, kind=ARROW),
        Received("json", Message("9", report("a"), JSON), 7),
    ]
    record = Record(own(tmp_path), {})
    taken = []
    while waiting:
        feed_batch, waiting = next_batch(FEED, Columns(), waiting, record)
        taken.append(list(feed_batch.receipts))
        assert feed_batch.published == max(
            7 if receipt == "json" else int(receipt[1:]) for receipt in taken[-1]
        )
    # A megabyte each: two of them are a feed_batch. The order is kept, so that a position can be one number.
    assert taken == [["r0", "r1"], ["r2", "r3"], ["r4", "json"]]


def test_a_record_is_named_by_its_reader_and_no_reader_takes_those_of_another(tmp_path: Path) -> None:
    first, second = Record(own(tmp_path), {}), Record(own(tmp_path), {})
    first.hold(["1"])
    second.hold(["2"])
    assert left_on_record(str(tmp_path)) == {"1": 1, "2": 1}
    second.passed()
    assert left_on_record(str(tmp_path)) == {"1": 1}
    first.passed()
    assert left_on_record(str(tmp_path)) == {}


def test_messages_of_short_lines_fill_a_batch_with_few_bytes() -> None:
    lines = b"{}\n" * (message_batches.RUN_BYTES // 3 + 1)

    def size_of(feed_batch: FeedBatch) -> int:
        return sum(int(batch.nbytes) for batch in feed_batch.batches)

    one = size_of(next_batch(FEED, Columns(), received(lines, kind=LINES), None)[0])
    feed_batch, rest = next_batch(FEED, Columns(), received(*[lines] * 8, kind=LINES), None)
    assert DECODED_BYTES <= size_of(feed_batch) < DECODED_BYTES + one
    assert [*feed_batch.receipts, *(each.receipt for each in rest)] == [f"r{n}" for n in range(8)]
