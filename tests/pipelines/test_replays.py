"""Which run of a stream goes on after a kill, from which offsets, and what retention took from it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ldpbeam.errors import UserError
from ldpbeam.inputs.kafka import KafkaRequest, Reached
from ldpbeam.pipelines.graphs.stream import StreamJob
from ldpbeam.pipelines.runs.replays import begin, beginning, continued, forget, lost_to
from ldpbeam.pipelines.runs.stream_runs import incomplete_windows, owned_by_stream
from ldpbeam.pipelines.sources import kafka
from ldpbeam.pipelines.sources.kafka import check_topic
from ldpbeam.pipelines.sources.opening import Run
from ldpbeam.schemas.reports.columns import Columns
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.transforms.offsets import Checksum, Offsets
from ldpbeam.transforms.reports.counts import IN, USED, accounting, of_window, with_origin
from ldpbeam.transforms.sources.kafka import KafkaFeed
from ldpbeam.transforms.sources.kafka_client import KafkaTopic
from ldpbeam.transforms.sources.reading import ReadingOptions
from ldpbeam.transforms.sources.replay import Arrivals
from ldpbeam.transforms.state.counted import RunningAccounting
from ldpbeam.transforms.state.files import ACCOUNTING, COUNTED, run_folder
from ldpbeam.transforms.state.journal import Journal, checksums_before, positions_before
from ldpbeam.transforms.state.records import Incomplete, OpenWindow, Step
from ldpbeam.windows import FAR

STUDY = parse_study(
    "study: s\nattributes:\n  x:\n    domain: {numeric: [0, 1]}\n    buckets: 4\n"
    "    services: {a: {mechanism: square_wave, epsilon: 1.0}}\nwindows: {size: 1m}\n"
)
MINUTE, RUN = 60_000, "20260101T000000Z-1"
TOPIC = KafkaTopic("h:1", "reports")


def window(number: int) -> OpenWindow:
    return OpenWindow("x", number * MINUTE, (number + 1) * MINUTE)


def killed(output: Path, settled: int | None = None) -> Journal:
    """A run of which two batches were committed, in windows 1 and 2, and one of them is counted."""
    assert STUDY.windows is not None
    journal = Journal(str(output), RUN, 0, 10**9)
    read = [(Offsets(0, 10, 20), {window(1)}), (Offsets(0, 20, 30), {window(1), window(2)})]
    journal.record(0, [Step(10, None, 5)])
    journal.name({window(1), window(2)}, 70_000, [offsets for offsets, _ in read], read)
    running = RunningAccounting(positions={0: 20, 1: 4})
    running.add({with_origin(USED, of_window((MINUTE, 2 * MINUTE))): 7})
    if settled is not None:
        running.settle(STUDY.windows, settled)
    COUNTED.write(journal.folder, running)
    return journal


def test_it_is_read_again_from_the_lowest_offset_that_an_open_window_needs(tmp_path: Path) -> None:
    killed(tmp_path)
    run = continued(STUDY, str(tmp_path))
    assert run is not None
    assert run.run == RUN
    assert run.positions == {0: 10, 1: 4}
    assert run.replay.counted == {0: 20, 1: 4}
    assert run.replay.taken == {0: 30, 1: 4}
    assert run.replay.steps == {0: (Step(10, None, 5),)}
    assert run.replay.watermark == 70_000


def test_counts_that_are_written_before_the_journal_hide_no_report(tmp_path: Path) -> None:
    killed(tmp_path)
    folder = run_folder(str(tmp_path), RUN)
    # The process was killed between the two: windows of the messages from 30 to 50 are in no file.
    COUNTED.write(folder, RunningAccounting(positions={0: 50, 1: 4}, settled=4 * MINUTE))
    run = continued(STUDY, str(tmp_path))
    assert run is not None
    assert run.positions == {0: 30, 1: 4}
    assert lost_to(run, STUDY, {0: (30, 40)}, now=10 * MINUTE).before == 10 * MINUTE
    # What is read again makes its windows, and its batches are not counted twice.
    assert STUDY.windows is not None
    again = Arrivals(beginning(run, ((0, 30), (1, 4))), STUDY.windows)
    assert again.reads_again({0: 40})
    assert again.of(Offsets(0, 30, 50), 4 * MINUTE, 10**12)[1].counted
    assert not again.of(Offsets(0, 50, 60), 4 * MINUTE, 10**12)[1].counted


def test_a_partition_of_which_nothing_is_committed_is_read_from_where_it_began(tmp_path: Path) -> None:
    journal = killed(tmp_path)
    folder = run_folder(str(tmp_path), RUN)
    # Partition 1 began at 4. Its batches were counted, and the process was killed before one was committed.
    journal.record(0, [Step(10, None, 5)])
    journal.record(1, [Step(4, None, 5)])
    COUNTED.write(folder, RunningAccounting(positions={0: 20, 1: 9}))
    run = continued(STUDY, str(tmp_path))
    assert run is not None
    assert run.positions == {0: 10, 1: 4}
    # Nor does the run itself forget by which watermark they were judged.
    assert journal.forget(lambda _: False, {0: 20, 1: 9}) == {0: 10, 1: 4}
    assert (run.replay.counted, run.replay.taken) == ({0: 20, 1: 9}, {0: 30, 1: 9})


def test_a_batch_that_is_committed_before_an_earlier_one_hides_none_of_its_reports(tmp_path: Path) -> None:
    journal = killed(tmp_path)
    # The engine commits the second batch of partition 1, and not yet the first.
    taken = [(Offsets(1, 4, 6), {window(3)}), (Offsets(1, 6, 9), {window(4)})]
    journal.name({window(4)}, 70_000, [Offsets(1, 6, 9)], taken)
    folder = run_folder(str(tmp_path), RUN)
    COUNTED.write(folder, RunningAccounting(positions={0: 20, 1: 9}))
    run = continued(STUDY, str(tmp_path))
    assert run is not None
    assert run.positions == {0: 10, 1: 4}


def test_windows_that_have_settled_need_no_offset(tmp_path: Path) -> None:
    killed(tmp_path, settled=2 * MINUTE + 2)
    run = continued(STUDY, str(tmp_path))
    assert run is not None
    assert run.positions == {0: 20, 1: 4}
    replay = beginning(run, ((0, 20), (1, 4)))
    folder = run_folder(str(tmp_path), RUN)
    begin(folder, replay)
    left = COUNTED.read(folder)
    assert left is not None
    assert dict(left.counts()) == {USED: 7}


def test_the_accounting_begins_with_what_is_final_whatever_the_earlier_process_wrote(tmp_path: Path) -> None:
    killed(tmp_path, settled=2 * MINUTE + 2)
    run, folder = continued(STUDY, str(tmp_path)), run_folder(str(tmp_path), RUN)
    assert run is not None
    # It is written after the counts that are final, so a kill between the two leaves it behind them.
    ACCOUNTING.write(folder, accounting([(IN, 3)]))
    begin(folder, beginning(run, ((0, 20), (1, 4))))
    counts = ACCOUNTING.read(folder)
    assert counts is not None
    assert (counts[IN], counts[USED]) == (0, 7)


def test_a_run_goes_on_until_it_has_published_its_last_windows_and_after_a_stop(tmp_path: Path) -> None:
    journal = killed(tmp_path)
    # The reader has finished, and the engine has not fired the windows that were open.
    journal.end(10**12)
    run = continued(STUDY, str(tmp_path))
    assert run is not None
    assert run.positions == {0: 10, 1: 4}
    folder = run_folder(str(tmp_path), RUN)
    COUNTED.write(folder, RunningAccounting(positions={0: 30, 1: 4}, ended=True))
    assert continued(STUDY, str(tmp_path)) is None
    journal.stop(70_000)
    run = continued(STUDY, str(tmp_path))
    assert run is not None
    # The process that goes on has not ended.
    begin(folder, run.replay)
    counted = COUNTED.read(folder)
    assert counted is not None
    assert not counted.ended


def test_a_run_does_not_go_on_when_another_one_has_read_what_it_would(tmp_path: Path) -> None:
    killed(tmp_path)
    # Runs on Flink have no counts that a restart continues. This one began where the other had ended.
    flink = Journal(str(tmp_path), "20260102T000000Z-2", 0, 10**9)
    flink.name((), 70_000, [Offsets(0, 25, 30)])
    assert continued(STUDY, str(tmp_path)) is not None
    flink.name({window(3)}, 80_000, [Offsets(0, 30, 50)])
    assert continued(STUDY, str(tmp_path)) is None
    assert {window(1), window(2)} <= incomplete_windows(STUDY, str(tmp_path))


def test_another_topic_needs_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    others = KafkaTopic("h:1", "others")
    check_topic(str(tmp_path), others, "id")
    # Runs on Flink have no counts that a restart continues; their journals have offsets all the same.
    reads = {"reads": "reports at h:1", "topic": "reports", "topic_identity": "id"}
    for run, about in (("1", {"reads": "in/*"}), ("2", reads)):
        (tmp_path / "runs" / run).mkdir(parents=True)
        (tmp_path / "runs" / run / "run.json").write_text(json.dumps({"run": run, **about}))
    check_topic(str(tmp_path), TOPIC, "id")
    with pytest.raises(UserError, match=r"--topic others: run 2 into .* reads reports at h:1, and"):
        check_topic(str(tmp_path), others, "id")
    monkeypatch.setattr(kafka, "reach", lambda *_: Reached({}, {}, {}, None, "another id"))
    with (
        pytest.raises(UserError, match=r"--topic reports: run 2 into .* has read another topic of this name"),
        kafka.open_topic(KafkaRequest(TOPIC), Run(Columns(), str(tmp_path), RUN)),
    ):
        pass


@pytest.mark.parametrize(("ends", "last"), [({0: 29, 1: 4}, 29), ({1: 4}, 0)])
def test_a_log_that_ends_before_what_was_read_has_lost_its_end(
    ends: dict[int, int], last: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed(tmp_path)
    run = continued(STUDY, str(tmp_path))
    monkeypatch.setattr(kafka, "reach", lambda *_: Reached({0: 10, 1: 4}, {}, ends, None, "id"))
    asked = KafkaRequest(KafkaTopic("localhost:1", "reports"))
    for continues in (run, None):
        with kafka.open_topic(asked, Run(Columns(), str(tmp_path), RUN, continues)) as opened:
            assert opened.new == {0: last}
    assert run is not None
    lost = lost_to(run, STUDY, {0: (last, FAR)}, 99)
    assert (lost.windows, lost.before, lost.lost) == ({window(1), window(2)}, 99, True)
    goes_on = run.without({0: last})
    assert goes_on.replay.taken == {0: last, 1: 4}
    assert goes_on.replay.counted == {0: min(20, last), 1: 4}


def test_what_runs_have_read_of_a_lost_end_is_in_no_file_any_more(tmp_path: Path) -> None:
    journal = killed(tmp_path)
    known = [Checksum(19, 1), Checksum(29, 2)]
    journal.name((), 70_000, [Offsets(0, 20, 30)], (), [(0, known)])
    assert checksums_before(str(tmp_path)) == {0: known}
    forget(str(tmp_path), {0: 15})
    run = continued(STUDY, str(tmp_path))
    assert run is not None
    assert run.replay.taken == run.replay.counted == {0: 15, 1: 4}
    assert (positions_before(str(tmp_path)), checksums_before(str(tmp_path))) == ({0: 15}, {0: []})


def test_windows_that_lack_what_retention_removed_are_known(tmp_path: Path) -> None:
    killed(tmp_path)
    run = continued(STUDY, str(tmp_path))
    assert run is not None
    assert lost_to(run, STUDY, {}, 99) == Incomplete()
    # What is gone was counted; the window that needs it is not whole.
    lost = lost_to(run, STUDY, {0: (10, 15)}, 99)
    assert (lost.windows, lost.before) == ({window(1)}, None)
    # What is gone was never counted: nobody knows the windows of its reports.
    lost = lost_to(run, STUDY, {0: (10, 25)}, 99)
    assert (lost.windows, lost.before) == ({window(1), window(2)}, 99)
    assert beginning(run, ((0, 25), (1, 4))).counted == {0: 25, 1: 4}


def test_what_is_lost_stays_lost_when_the_run_is_killed_again(tmp_path: Path) -> None:
    journal = killed(tmp_path)
    run = continued(STUDY, str(tmp_path))
    lost = lost_to(run, STUDY, {0: (10, 25)}, 99)
    feed = KafkaFeed(TOPIC, "id", Columns(), "", ())
    job = StreamJob(
        STUDY, str(tmp_path), run=RUN, feed=feed, reading=ReadingOptions(0), shards=1, incomplete=lost
    )
    with owned_by_stream(job):
        # The file of what it lacks makes it no other run.
        assert continued(STUDY, str(tmp_path)) == run
        # It reads on from offset 25, and the windows that needed what is gone have settled.
        journal.name((), 90_000, [Offsets(0, 25, 40)])
        settled = RunningAccounting(positions={0: 40, 1: 4}, settled=4 * MINUTE)
        COUNTED.write(journal.folder, settled)
    run = continued(STUDY, str(tmp_path))
    assert run is not None
    assert lost_to(run, STUDY, {}, 10**9) == Incomplete(before=99, lost=True)


def test_two_streams_of_a_topic_do_not_write_to_a_folder_at_once(tmp_path: Path) -> None:
    feed = KafkaFeed(TOPIC, "id", Columns(), "", ())
    # The second is of another name, as runs on Flink are, which are not continued.
    first, second = (
        StreamJob(STUDY, str(tmp_path), run=f"{RUN}{number}", feed=feed, reading=ReadingOptions(0), shards=1)
        for number in range(2)
    )
    with (
        owned_by_stream(first, at_once=False),
        pytest.raises(UserError, match="another run is writing there now"),
        owned_by_stream(second, at_once=False),
    ):
        pass
    with owned_by_stream(second, at_once=False):
        pass


def test_a_new_run_whose_messages_retention_removed_knows_no_window_that_is_whole() -> None:
    # Earlier runs ended at offset 10, and messages up to 15 were never read.
    assert lost_to(None, STUDY, {0: (10, 15)}, 99).before == 99
    assert lost_to(None, STUDY, {}, 99).before is None
