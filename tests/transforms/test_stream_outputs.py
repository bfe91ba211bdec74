"""What a stream writes while it runs, on the engine of this process with a TestStream."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import apache_beam as beam
import fastavro
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.direct.direct_runner import BundleBasedDirectRunner
from apache_beam.testing import test_stream
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Timestamp
from support.keyed_state import Key

from ldpbeam.transforms.engine_times import LAST
from ldpbeam.transforms.outputs import accounting, dead_letters
from ldpbeam.transforms.outputs.accounting import WriteRunningAccounting
from ldpbeam.transforms.outputs.dead_letters import WriteStreamDeadLetters
from ldpbeam.transforms.reports.batch_coder import BatchCoder
from ldpbeam.transforms.reports.batches import ARRIVAL, Arrival
from ldpbeam.transforms.reports.counts import (
    LETTERS_WRITTEN,
    NOT_BEGUN,
    USED,
    of_batch,
    of_window,
    with_origin,
)
from ldpbeam.transforms.reports.dead_letters import DeadLetter, Disclosure, in_columns
from ldpbeam.transforms.reports.emitted import emit
from ldpbeam.transforms.state.counted import RunningAccounting
from ldpbeam.transforms.state.files import ACCOUNTING, COUNTED, Kind, run_folder
from ldpbeam.transforms.state.journal import Journal
from ldpbeam.windows import Windows

#: Counts as stages give them: a late report that takes another's place makes one used report a duplicate.
COUNTS = [
    [("in", 5), ("used", 3), ("dead_letters", 2), ("dead_letters_by_reason/not_json", 2)],
    [("in", 4), ("used", -2), ("duplicates", 6)],
    [("in", 1), ("late", 1), ("used", 7), ("used", -7), ("dead_letters_by_reason/no_payload", 0)],
]
ADDED_UP = {
    "in": 10,
    "used": 1,
    "duplicates": 6,
    "late": 1,
    "out_of_range": 0,
    "dead_letters": 2,
    "damaged_files": 0,
    "dead_letters_by_reason": {"no_payload": 0, "not_json": 2},
}


def run(source: test_stream.TestStream, transform: beam.PTransform) -> None:
    options = PipelineOptions(["--streaming"])
    with beam.Pipeline(runner=BundleBasedDirectRunner(), options=options) as pipeline:
        _ = pipeline | source | transform


def run_counts(folder: Path) -> None:
    source = test_stream.TestStream()
    for second, bundle in enumerate(COUNTS):
        source.advance_watermark_to(10 * second)
        source.add_elements([TimestampedValue(count, 10 * second + 5) for count in bundle])
    source.advance_watermark_to_infinity()
    run(source, WriteRunningAccounting(str(folder), "run"))


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What is written of the accounting, in order."""
    found: list[dict[str, Any]] = []

    def take_down(content: dict[str, Any]) -> dict[str, Any]:
        found.append(content)
        return content

    monkeypatch.setattr(accounting, "ACCOUNTING", replace(ACCOUNTING, to_json=take_down))
    return found


def test_the_accounting_adds_up_all_counts_while_they_grow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: list[dict[str, Any]]
) -> None:
    monkeypatch.setattr(accounting, "ACCOUNTING_SECONDS", 0.0)
    run_counts(tmp_path)
    assert json.loads((tmp_path / "runs" / "run" / "accounting.json").read_text()) == ADDED_UP
    assert [one["in"] for one in written] == sorted(one["in"] for one in written)
    assert {5, 9, 10} <= {one["in"] for one in written}
    assert written[0] == {
        **dict.fromkeys(ADDED_UP, 0),
        "in": 5,
        "used": 3,
        "dead_letters": 2,
        "damaged_files": 0,
        "dead_letters_by_reason": {"not_json": 2},
    }
    assert [path.name for path in (tmp_path / "runs" / "run").iterdir()] == ["accounting.json"]


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A clock of the accounting, whose ``now`` the test sets."""
    clock = SimpleNamespace(now=1000.0)
    monkeypatch.setattr(accounting, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


def test_the_accounting_is_written_now_and_then_and_at_the_end(
    tmp_path: Path, written: list[dict[str, Any]], seconds: SimpleNamespace
) -> None:
    # By hand: the engine of this process copies the function for each bundle, and others keep it.
    key = Key(accounting._AddUp(str(tmp_path), "run", None), "")
    for now, so_far in ((1000.0, [1]), (1000.999, [1]), (1001.0, [1, 3]), (1001.5, [1, 3])):
        key.timers.pop("soon", None)
        seconds.now = now
        key.come(json.dumps({"in": 1}).encode())
        assert [one["in"] for one in written] == so_far
        assert ("soon" in key.timers) == (now % 1 > 0)
    assert key.timers["end"] == LAST
    # Nothing follows the fourth count, and it is written all the same.
    key.fire("soon")
    assert [one["in"] for one in written] == [1, 3, 4]
    key.fire("end")
    assert [one["in"] for one in written] == [1, 3, 4, 4]
    # An engine may fire it when there is nothing to write.
    key.timers["soon"] = LAST
    key.fire("soon")
    assert [one["in"] for one in written] == [1, 3, 4, 4]


WINDOWS = Windows(10, 10)


def recounted(folder: Path) -> tuple[Key, Callable[[], RunningAccounting]]:
    """The accounting of a run that may be killed, and what its file holds."""
    own = run_folder(str(folder), "r")
    COUNTED.write(own, RunningAccounting(Counter(used=5), {0: 100}))

    def file() -> RunningAccounting:
        counted = COUNTED.read(own)
        assert counted is not None
        return counted

    return Key(accounting._AddUp(str(folder), "r", WINDOWS), ""), file


def used_in(*starts: int) -> bytes:
    """A used report in each of some windows."""
    return json.dumps({with_origin(USED, of_window((start, start + 10))): 1 for start in starts}).encode()


def test_counts_of_a_window_are_final_in_the_file_when_its_timer_has_fired(
    tmp_path: Path, written: list[dict[str, Any]], seconds: SimpleNamespace
) -> None:
    key, file = recounted(tmp_path)
    key.come(used_in(20, 10))
    assert (written[-1]["used"], file().final, file().open) == (7, {USED: 5}, {})
    assert key.next == WINDOWS.settles((10, 20))
    # It waits in the state, and is there when the timer fires.
    key.come(used_in(10))
    key.advance(23)
    assert (written[-1]["used"], file().final, file().settled) == (8, {USED: 7}, 22)
    assert not file().ended
    assert key.next == WINDOWS.settles((20, 30))
    key.fire("end")
    assert (file().final, file().settled, file().ended) == ({USED: 8}, 32, True)
    # An engine may fire the other timer after that of the end.
    key.timers["due"] = LAST
    key.fire("due")
    assert (file().final, file().settled, file().ended) == ({USED: 8}, 32, True)


def test_the_counts_that_are_final_are_in_their_file_before_the_accounting(
    tmp_path: Path, seconds: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, _ = recounted(tmp_path)
    order: list[str] = []
    write = Kind._write

    def note(kind: Kind[Any], path: str, value: Any) -> None:
        write(kind, path, value)
        order.append(kind.name)

    monkeypatch.setattr(Kind, "_write", note)
    key.come(used_in(10))
    assert order == ["counted.json", "accounting.json"]


def test_a_window_that_had_not_begun_at_the_end_is_not_settled(
    tmp_path: Path, written: list[dict[str, Any]], seconds: SimpleNamespace
) -> None:
    key, file = recounted(tmp_path)
    key.come(used_in(10, 1000))
    key.come(json.dumps({with_origin(NOT_BEGUN, of_window((1000, 1010))): 1}).encode())
    key.advance(5000)
    assert file().settled == 22
    key.fire("end")
    assert (file().settled, file().ended) == (22, True)
    assert written[-1]["used"] == 7


def test_a_window_whose_timer_only_a_stop_fires_is_counted_anew(
    tmp_path: Path, written: list[dict[str, Any]], seconds: SimpleNamespace
) -> None:
    key, file = recounted(tmp_path)
    key.come(used_in(10, 20))
    Journal(str(tmp_path), "r", 0, 0).stop(25)
    given = key.advance(LAST.micros // 1000)
    assert (given, key.timers) == ([], {})
    assert (file().final, file().settled) == ({USED: 6}, 22)
    assert written[-1]["used"] == 7


def letters(first: int, count: int, detail: str = "bad") -> Any:
    """A batch of dead letters, numbered by their positions."""
    found = [
        DeadLetter("feed", position, None, "not_json", detail, 2, f"{position}".encode())
        for position in range(first, first + count)
    ]
    return next(iter(emit(in_columns(found), Disclosure(records=True)))).value


class Wrote:
    """The dead letters of one stream, driven by hand, and the files that it wrote of them."""

    def __init__(self, folder: Path, continued: bool = False) -> None:
        self.folder = folder
        self.key = Key(dead_letters._WriteLetters(str(folder), continued), "")

    @property
    def files(self) -> list[Path]:
        """In the order in which they were written."""
        return sorted(self.folder.glob("*"))

    @property
    def positions(self) -> list[list[int]]:
        """Of the letters of each file."""
        found = []
        for path in self.files:
            with path.open("rb") as stream:
                records: list[Any] = list(fastavro.reader(stream))
            found.append([record["position"] for record in records])
        return found


def test_dead_letters_that_have_waited_are_one_file(tmp_path: Path) -> None:
    wrote = Wrote(tmp_path / "dead_letters")
    before = Timestamp.now()
    wrote.key.come(letters(0, 3))
    due = wrote.key.timers["due"]
    # By the clock of this machine, and not by the time of reports.
    assert before + dead_letters.LETTERS_SECONDS <= due <= Timestamp.now() + dead_letters.LETTERS_SECONDS
    wrote.key.come(letters(3, 2))
    assert (wrote.key.timers["due"], wrote.files) == (due, [])
    wrote.key.fire("due")
    assert wrote.positions == [[0, 1, 2, 3, 4]]
    wrote.key.come(letters(5, 1))
    # Nothing waits for the clock when the stream has finished.
    wrote.key.fire("end")
    assert wrote.positions == [[0, 1, 2, 3, 4], [5]]
    assert wrote.key.timers == {}
    with wrote.files[0].open("rb") as stream:
        record: Any = next(fastavro.reader(stream))
    assert (record["file"], record["reason"], record["reports"], record["record"]) == (
        "feed",
        "not_json",
        2,
        b"0",
    )


def test_many_dead_letters_do_not_wait_for_the_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_letters, "MOST_LETTERS", 10)
    wrote = Wrote(tmp_path / "dead_letters")
    for first, many in ((0, 9), (9, 1), (10, 25), (35, 1)):
        wrote.key.come(letters(first, many))
    wrote.key.fire("end")
    assert wrote.positions == [[*range(10)], [*range(10, 35)], [35]]


def test_the_batch_of_dead_letters_is_told_when_they_are_in_a_file(tmp_path: Path) -> None:
    wrote = Wrote(tmp_path / "dead_letters")
    arrival = Arrival(of_batch(3, 10, 20), 0)
    batch = letters(0, 2).replace_schema_metadata({ARRIVAL: arrival.encoded()})
    assert wrote.key.come(batch) == []
    assert wrote.key.fire("due") == [(with_origin(LETTERS_WRITTEN, arrival.origin), 4)]


@pytest.mark.parametrize("seed", range(5))
def test_every_dead_letter_is_there_once(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(seed)
    monkeypatch.setattr(dead_letters, "MOST_LETTERS", 12)
    wrote = Wrote(tmp_path / "dead_letters")
    first = 0
    for _ in range(40):
        size = draw.randint(1, 6)
        wrote.key.come(letters(first, size))
        first += size
        if draw.random() < 0.2 and "due" in wrote.key.timers:
            wrote.key.fire("due")
    wrote.key.fire("end")
    found = Counter(position for file in wrote.positions for position in file)
    assert found == Counter(range(first))


def test_files_are_numbered_so_that_a_bundle_done_twice_writes_one(tmp_path: Path) -> None:
    for continued, names in ((False, ["part-00000.avro"]), (False, ["part-00000.avro"]),
                             (True, ["part-00000.avro", "part-00001.avro"])):  # fmt: skip
        # An engine that does a bundle again has the state before it.
        wrote = Wrote(tmp_path, continued)
        wrote.key.come(letters(0, 2))
        wrote.key.fire("due")
        assert [path.name for path in wrote.files] == names


def test_an_engine_writes_the_dead_letters_of_a_stream_at_its_end(tmp_path: Path) -> None:
    source = test_stream.TestStream(coder=BatchCoder()).advance_watermark_to(5)
    many = dead_letters.FEW_LETTERS + 1
    source.add_elements([TimestampedValue(letters(0, 3), 5), TimestampedValue(letters(3, 2), 5)])
    source.advance_watermark_to(6).add_elements([TimestampedValue(letters(5, many), 7)])
    folder = tmp_path / "dead_letters"
    source.advance_watermark_to_infinity()
    run(source, OneOfSeveral(WriteStreamDeadLetters(str(folder))))
    # The few wait for the end; the many are in a file that has no number.
    assert Wrote(folder).positions == [[0, 1, 2, 3, 4], [*range(5, 5 + many)]]


class OneOfSeveral(beam.PTransform):
    """A transform of several collections, of which one is given."""

    def __init__(self, several: beam.PTransform) -> None:
        super().__init__()
        self.several = several

    def expand(self, given: Any) -> Any:
        """Give it."""
        return (given,) | self.several


def test_few_dead_letters_of_a_bundle_leave_the_stage_that_makes_them(tmp_path: Path) -> None:
    """An engine on one machine holds in memory what waits for the stage that writes."""
    few, most, folder = dead_letters.FEW_LETTERS, dead_letters.MOST_LETTERS, tmp_path / "dead_letters"
    arrival = Arrival(of_batch(0, 0, 9), 0)

    def bundle(*sizes: int, first: int = 0) -> tuple[int, int]:
        """How many letters a bundle passes on, and how many reports it says are in files."""
        passed = written = 0
        stage = dead_letters._WriteMany(str(folder))
        stage.start_bundle()
        outputs = []
        for size in sizes:
            batch = letters(first, size).replace_schema_metadata({ARRIVAL: arrival.encoded()})
            outputs += list(stage.process(batch, Timestamp(5)))
            assert sum(each.num_rows for each in stage.letters) <= most
            first += size
        for output in (*outputs, *(_plain(each) for each in stage.finish_bundle())):
            if isinstance(output, beam.pvalue.TaggedOutput):
                assert output.value[0] == with_origin(LETTERS_WRITTEN, arrival.origin)
                written += output.value[1]
            else:
                passed += output.num_rows
        return passed, written

    assert bundle(few // 2, few - few // 2) == (few, 0)
    assert not folder.exists()
    for _ in range(2):
        # An engine that does a bundle again writes the same files.
        assert bundle(few, 1) == (0, 2 * (few + 1))
        assert Wrote(folder).positions == [[*range(few + 1)]]
    many = 3 * most
    assert bundle(*[most // 4] * 12, first=2 * few) == (0, 2 * many)
    expected = Counter((*range(few + 1), *range(2 * few, 2 * few + many)))
    assert Counter(position for file in Wrote(folder).positions for position in file) == expected
    # The next process goes on with the numbers of the others.
    assert dead_letters._WriteLetters(str(folder), True)._first_number() == 0


def _plain(output: Any) -> Any:
    """What a bundle gives at its end, without its window."""
    if isinstance(output, beam.pvalue.TaggedOutput):
        return beam.pvalue.TaggedOutput(output.tag, output.value.value)
    return output.value
