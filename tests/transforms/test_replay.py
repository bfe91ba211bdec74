"""How batches came: what is read again is judged as it was, and what is counted is not counted again."""

from __future__ import annotations

from ldpbeam.transforms.offsets import Offsets
from ldpbeam.transforms.reports.batches import Arrival
from ldpbeam.transforms.reports.counts import of_batch
from ldpbeam.transforms.sources.replay import CLOCK, Arrivals, Replay
from ldpbeam.transforms.state.records import Step
from ldpbeam.windows import Windows

WINDOWS = Windows(10, 10, allowed_lateness=5)
NOW = 1_750_000_000_000


def again(arrivals: Arrivals, taken: int, counted: int, settled: int | None = None) -> Arrivals:
    """The arrivals of the process after one that was killed."""
    steps = {partition: tuple(of_partition) for partition, of_partition in arrivals.steps.items()}
    return Arrivals(Replay({0: 0}, {0: counted}, {0: taken}, steps, settled), WINDOWS)


def test_a_batch_that_is_read_again_has_the_watermark_and_the_clock_that_it_had() -> None:
    first = Arrivals(Replay(), WINDOWS)
    batches = [
        (Offsets(0, 0, 10), None, NOW),
        (Offsets(0, 10, 20), 6, NOW + 1),
        (Offsets(0, 20, 30), 14, NOW + 2),  # no window expired since
        (Offsets(0, 30, 40), 15, NOW + 3),  # the window that ends at 10 did
        (Offsets(0, 40, 50), 16, NOW + 3 + CLOCK),
    ]
    were = [first.of(*batch) for batch in batches]
    assert [watermark for watermark, _ in were] == [None, 6, 6, 15, 16]
    assert [step.offset for step in first.steps[0]] == [0, 10, 30, 40]
    second = again(first, 50, 0)
    for (offsets, _, _), (watermark, arrival) in zip(batches, were, strict=True):
        then, came = second.of(offsets, 999, NOW + 10**9)
        assert (then, came.clock, came.counted) == (watermark, arrival.clock, False)
    # It is new: the present decides.
    assert second.of(Offsets(0, 50, 60), 999, NOW + 10**9)[0] == 999


def test_what_was_counted_is_not_counted_again_and_settled_windows_take_nothing() -> None:
    first = Arrivals(Replay(), WINDOWS)
    for start in range(0, 50, 10):
        first.of(Offsets(0, start, start + 10), start, NOW)
    second = again(first, 40, 20, settled=17)
    came = [second.of(Offsets(0, start, start + 10), 99, NOW)[1] for start in range(0, 50, 10)]
    assert [arrival.counted for arrival in came] == [True, True, False, False, False]
    assert [arrival.settled for arrival in came] == [17, 17, 17, 17, None]


def test_batches_are_cut_where_their_judgement_changes() -> None:
    steps = {0: (Step(0, None, NOW), Step(30, 5, NOW)), 1: ()}
    replay = Replay({0: 0, 1: 7}, {0: 20, 1: 7}, {0: 50, 1: 7}, steps)
    assert replay.cuts == {0: (0, 20, 30, 50), 1: (7,)}


def test_it_reads_again_until_every_partition_is_where_it_was() -> None:
    replay = Replay(starts={0: 5, 1: 9}, counted={0: 9, 1: 9}, taken={0: 9, 1: 9})
    arrivals = Arrivals(replay, WINDOWS)
    assert arrivals.reads_again({})
    assert arrivals.reads_again({0: 8})
    assert not arrivals.reads_again({0: 9})
    assert not Arrivals(Replay(), WINDOWS).reads_again({})


def test_steps_are_forgotten_that_no_other_process_needs() -> None:
    arrivals = Arrivals(Replay(), WINDOWS)
    for start in range(0, 50, 10):
        arrivals.of(Offsets(0, start, start + 10), 10 * start, NOW)
    arrivals.forget({0: 25})
    assert [step.offset for step in arrivals.steps[0]] == [20, 30, 40]


def test_a_batch_after_offsets_without_messages_is_judged_by_its_messages() -> None:
    replay = Replay({0: 0}, {0: 14}, {0: 30}, {0: (Step(0, 5, NOW), Step(20, 9, NOW + 1))})
    arrivals = Arrivals(replay, WINDOWS)
    # What was compacted is gone: of the batches that ended at 14, 20 and 30, these are left.
    assert arrivals.of(Offsets(0, 0, 12), 99, NOW + 5) == (5, Arrival(of_batch(0, 0, 12), NOW, counted=True))
    # It begins before the offset up to which batches are counted, and all its messages come after.
    assert arrivals.of(Offsets(0, 12, 18), 99, NOW + 5) == (5, Arrival(of_batch(0, 14, 18), NOW))
    assert arrivals.of(Offsets(0, 18, 25), 99, NOW + 5) == (9, Arrival(of_batch(0, 18, 25), NOW + 1))
    # It is new.
    assert arrivals.of(Offsets(0, 25, 33), 99, NOW + 5) == (99, Arrival(of_batch(0, 25, 33), NOW + 5))
    assert arrivals.steps[0][-1] == Step(30, 99, NOW + 5)
