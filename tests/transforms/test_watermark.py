"""The time model: hostile clocks and publishers, pauses and failing pulls make no punctual report late."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from ldpbeam.transforms.sources.watermark import LIARS, Pulls, Watermark

SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000
WEEK = 7 * DAY
#: The server's clock when a test begins, and the disorder of most tests.
NOW, DISORDER = 1_750_000_000_000, MINUTE


class Read:
    """A watermark whose reader asked at the beginning, when nothing was there; our clock begins at 0."""

    def __init__(self, disorder: int = DISORDER) -> None:
        self.watermark = Watermark(disorder, 0)
        self.watermark.silent(0)

    def take(self, elapsed: int, *times: int, published: int | None = None) -> None:
        published = NOW + elapsed if published is None else published
        self.watermark.take(elapsed, np.array(times, dtype=np.int64), published, published)

    def at(self, uncommitted: int | None = None) -> int | None:
        return self.watermark.at(uncommitted, uncommitted is not None)

    def silent(self, elapsed: int) -> int | None:
        self.watermark.silent(elapsed)
        return self.at()


def test_before_anything_has_come_there_is_none() -> None:
    read = Read()
    assert read.silent(WEEK) is None
    read.take(WEEK)  # dead letters alone
    assert read.at() is None


@pytest.mark.parametrize("disorder", [0, 1, DISORDER])
def test_it_waits_for_the_oldest_report_that_is_not_committed(disorder: int) -> None:
    read = Read(disorder)
    read.take(0, NOW - 9_000, NOW - 5_000)
    assert read.at(NOW - 9_000) == NOW - 9_000 - disorder
    read.watermark.silent(WEEK)
    assert read.at(NOW - 9_000) == NOW - 9_000 - disorder
    assert read.at(NOW - 7_000) == NOW - 7_000 - disorder
    assert read.at() == NOW - 5_000 - disorder + WEEK


def test_it_never_goes_back() -> None:
    read = Read()
    read.take(0, NOW - 5_000)
    reached = read.at()
    read.take(1, NOW - WEEK)
    assert read.at(NOW - WEEK) == reached
    assert read.at() == reached


def test_the_clock_moves_it_only_by_the_silence_before_a_pull_that_was_answered_empty() -> None:
    read = Read()
    read.take(0, NOW - WEEK)
    for begun in (1, 999, HOUR):
        assert read.silent(begun) == NOW - WEEK + begun - DISORDER
    assert read.silent(500) == NOW - WEEK + HOUR - DISORDER
    read.take(2 * HOUR, NOW - WEEK + 1_000)
    # From the latest report, not from where it had got to: the pause says nothing of the backlog.
    assert read.silent(3 * HOUR - 1_000) == NOW - WEEK + HOUR - DISORDER
    assert read.silent(3 * HOUR) == NOW - WEEK + HOUR + 1_000 - DISORDER


def test_a_pull_that_was_begun_before_the_last_batch_was_taken_does_not_move_it() -> None:
    read = Read()
    read.take(5_000, NOW - WEEK)
    # What was published in the last millisecond may still come.
    assert read.silent(4_999) == NOW - WEEK - 1 - DISORDER
    assert read.watermark.idle == 0


def test_a_report_that_is_late_does_not_hold_it_up() -> None:
    read = Read()
    read.take(0, NOW - 5_000)
    read.take(1_000, NOW - WEEK)
    assert read.silent(11_000) == NOW + 5_000 - DISORDER


@pytest.mark.parametrize("ahead", [1, WEEK])
def test_an_event_after_its_publication_moves_it_there_and_no_further(ahead: int) -> None:
    read = Read()
    read.take(0, NOW + ahead)
    assert read.at() == NOW - DISORDER
    assert read.silent(500) == NOW + 500 - DISORDER


def test_idle_is_the_time_from_the_last_batch_to_the_last_pull_that_was_answered_empty() -> None:
    watermark = Watermark(DISORDER, 100)
    assert watermark.idle == 0
    watermark.silent(300)
    assert watermark.idle == 200
    watermark.take(400, np.array([], dtype=np.int64), None, NOW)
    assert watermark.idle == 0
    watermark.silent(1_000)
    assert watermark.idle == 600


def test_a_pull_that_failed_makes_empty_answers_doubtful_until_its_lease_ends() -> None:
    pulls = Pulls(lease=10)
    assert pulls.empty is None
    for begun, ended, empty in (
        (0, "answer", 0),
        (3, "fail", None),
        (17, "answer", None),
        (18, "answer", 18),
    ):
        pulls.begin(begun)
        if ended == "fail":
            pulls.fail(8)
        else:
            pulls.answer(0)
        assert pulls.empty == empty
    pulls.begin(20)
    pulls.answer(1)
    assert pulls.empty is None


# A backlog of an hour, and those who lie.


class Sent(NamedTuple):
    """A report: when its event was, as it says, when it was published, and whether it is true."""

    event: int
    published: int
    true: bool


HONEST = 6_000


def backlog(share: float, lie: int, liars_publish: str, honest_publish: str, where: str) -> list[Sent]:
    """An hour of reports in the order of delivery, a share of which lie that their event is at ``lie``."""
    sent = []
    for place in range(HONEST):
        event = NOW - HOUR + place * HOUR // HONEST
        sent.append(Sent(event, event if honest_publish == "then" else NOW, true=True))
    generator = random.Random(1)
    for _ in range(round(share * HONEST)):
        place = generator.randrange(len(sent)) if where == "spread" else HONEST // 3
        published = sent[place].published if liars_publish == "then" else NOW
        sent.insert(place, Sent(lie, published, true=False))
    return sent


def late(sent: list[Sent], size: int) -> float:
    """The share of true reports that come after the watermark, read in batches that are committed at once."""
    watermark, late = Watermark(DISORDER, 0), 0
    for start in range(0, len(sent), size):
        part = sent[start : start + size]
        reached = watermark.at(None, False)
        late += sum(one.true and reached is not None and one.event < reached for one in part)
        published = [one.published for one in part]
        times = np.array([one.event for one in part], dtype=np.int64)
        watermark.take(start, times, min(published), max(published))
    return late / HONEST


@pytest.mark.parametrize("where", ["spread", "together"])
@pytest.mark.parametrize("liars_publish", ["then", "now"])
@pytest.mark.parametrize("lie", [NOW, NOW + DAY], ids=["now", "tomorrow"])
@pytest.mark.parametrize("size", [50, 2_000])
def test_one_in_a_hundred_reports_that_lie_makes_one_in_a_hundred_late_at_most(
    size: int, lie: int, liars_publish: str, where: str
) -> None:
    for honest_publish in ("then", "now"):
        sent = backlog(0.01, lie, liars_publish, honest_publish, where)
        assert late(sent, size) <= 0.01


@pytest.mark.parametrize("lie", [NOW, NOW + DAY], ids=["now", "tomorrow"])
def test_what_remains_is_one_in_twenty_where_publish_times_say_nothing(lie: int) -> None:
    """As files that are copied, or a backlog that is published anew: the docs say this number."""
    assert LIARS == 20
    assert late(backlog(0.03, lie, "now", "now", "spread"), 50) <= 0.01
    assert late(backlog(0.1, lie, "now", "now", "spread"), 50) > 0.5
    # With the server's publish times the liars need not be few.
    assert late(backlog(1.0, lie, "then", "then", "spread"), 50) == 0


def test_without_the_frontier_what_is_published_now_would_overtake_the_backlog(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Watermark, "_raise_frontier", lambda self, _: setattr(self, "_frontier", 2**62))
    assert late(backlog(0.01, NOW, "now", "then", "spread"), 50) > 0.5


# The state machine.


class Message(NamedTuple):
    """A message at the server, when it was published, its event time, and whether its publisher is honest."""

    number: int
    published: int
    event: int
    honest: bool


class Sending(NamedTuple):
    """A pull that was begun: on which clocks, and what the server answered; None while it has not."""

    begun: int
    begun_truly: int
    sent: list[Message] | None


LEASE, DISORDERED = 10_000, 1_000


class Stream(RuleBasedStateMachine):
    """A server, honest and hostile publishers, and a reader that may stand still at any moment.

    ``truly`` is the time of the server and of honest publishers; ``elapsed`` is the reader's clock, which
    stops while its machine is suspended.
    """

    def __init__(self) -> None:
        super().__init__()
        self.truly, self.elapsed = NOW, 0
        self.waiting: list[Message] = []  # at the server
        self.leased: list[tuple[int, Message]] = []  # sent to pulls that failed, until a time
        self.pull: Sending | None = None
        self.pulls, self.watermark = Pulls(LEASE), Watermark(DISORDERED, 0)
        self.pulled: list[tuple[Message, bool]] = []
        self.uncommitted: list[int] = []
        self.published = 0
        self.said: int | None = None
        self.empty_truly = NOW
        self.active_truly = NOW

    def _publish(self, event: int, honest: bool) -> None:
        self.published += 1
        self.waiting.append(Message(self.published, self.truly, event, honest))

    @rule(behind=st.integers(0, DISORDERED), more=st.integers(1, 4), every=st.sampled_from([0, 1_500]))
    def publish_punctually(self, behind: int, more: int, every: int) -> None:
        for _ in range(more):
            self._publish(self.truly - behind, honest=True)
            self.pass_time(every, suspended=False)

    @rule(event=st.sampled_from([-WEEK, -HOUR, 0, HOUR, WEEK]), more=st.integers(1, 3))
    def publish_lies(self, event: int, more: int) -> None:
        for _ in range(more):
            self._publish(self.truly + event, honest=False)

    @rule(time=st.sampled_from([1, 100, 2_000, 15_000, HOUR]), suspended=st.booleans())
    def pass_time(self, time: int, suspended: bool) -> None:
        """With the reader at work or stopped (its clock runs), or suspended (it does not)."""
        self.truly += time
        self.elapsed += 0 if suspended else time

    @precondition(lambda self: self.pull is None)
    @rule()
    def begin(self) -> None:
        self.pulls.begin(self.elapsed)
        self.pull = Sending(self.elapsed, self.truly, None)

    @precondition(lambda self: self.pull is not None and self.pull.sent is None)
    @rule(most=st.integers(1, 4), newest=st.booleans())
    def serve(self, most: int, newest: bool) -> None:
        """The server answers in its own time: with the oldest, and perhaps the newest out of its turn."""
        assert self.pull is not None
        self.waiting += [message for until, message in self.leased if until <= self.truly]
        self.leased = [(until, message) for until, message in self.leased if until > self.truly]
        self.waiting.sort()
        sent, self.waiting = self.waiting[:most], self.waiting[most:]
        if newest and self.waiting:
            sent.append(self.waiting.pop())
        self.pull = self.pull._replace(sent=sent)
        self.sent_until = self.truly + LEASE

    @precondition(lambda self: self.pull is not None and self.pull.sent is not None)
    @rule()
    def answer(self) -> None:
        assert self.pull is not None and self.pull.sent is not None
        self.pulls.answer(len(self.pull.sent))
        settled = not self.pulls.doubtful
        self.pulled += [(message, settled) for message in self.pull.sent]
        if self.pulls.empty == self.pull.begun:
            self.empty_truly = self.pull.begun_truly
        self.pull = None

    @precondition(lambda self: self.pull is not None)
    @rule()
    def fail(self) -> None:
        """The answer never comes, though the server may have sent it."""
        assert self.pull is not None
        self.leased += [(self.sent_until, message) for message in self.pull.sent or ()]
        self.pulls.fail(self.elapsed)
        self.pull = None

    @precondition(lambda self: self.pull is None)
    @rule(most=st.integers(1, 4), newest=st.booleans(), fails=st.booleans())
    def ask(self, most: int, newest: bool, fails: bool) -> None:
        """A whole pull at once."""
        self.begin()
        self.serve(most, newest)
        if fails:
            self.fail()
        else:
            self.answer()

    @precondition(lambda self: self.pull is None and not self.pulled)
    @rule(most=st.integers(1, 4), newest=st.booleans())
    def read(self, most: int, newest: bool) -> None:
        """What a reader does all the time."""
        self.ask(most, newest, fails=False)
        if self.pulled:
            self.take(5)
        else:
            self.look()
        self.commit()

    @precondition(lambda self: self.pulled)
    @rule(most=st.integers(1, 5))
    def take(self, most: int) -> None:
        part, self.pulled = self.pulled[:most], self.pulled[most:]
        before = self.watermark.at(min(self.uncommitted, default=None), bool(self.uncommitted))
        for message, _ in part:
            assert not message.honest or before is None or message.event >= before, (
                "a punctual report is late"
            )
        events = np.array([message.event for message, _ in part], dtype=np.int64)
        published = [message.published for message, _ in part]
        oldest = min(published) if all(settled for _, settled in part) else None
        self.watermark.take(self.elapsed, events, oldest, max(published))
        self.uncommitted.append(int(events.min()))
        self.active_truly = self.truly

    @precondition(lambda self: not self.pulled)
    @rule()
    def look(self) -> None:
        if self.pulls.empty is None:
            return
        somewhere = [*self.waiting, *(message for _, message in self.leased)]
        somewhere += (self.pull.sent or []) if self.pull else []
        assert all(message.published >= self.empty_truly for message in somewhere), (
            "silent, and something waits"
        )
        self.watermark.silent(self.pulls.empty)
        assert self.watermark.idle <= max(0, self.empty_truly - self.active_truly)

    @rule()
    def commit(self) -> None:
        self.uncommitted.clear()

    @invariant()
    def it_never_goes_back_nor_past_the_present(self) -> None:
        reached = self.watermark.at(min(self.uncommitted, default=None), bool(self.uncommitted))
        assert self.said is None or (reached is not None and reached >= self.said)
        assert reached is None or reached <= self.truly - DISORDERED
        self.said = reached

    def teardown(self) -> None:
        """Where nothing more is published, the watermark and idleness move on."""
        if self.pull is not None:
            self.fail()
        self.pass_time(2 * LEASE, suspended=False)
        left = len(self.waiting) + len(self.leased)
        for _ in range(left + 1):
            self.ask(1, newest=False, fails=False)
            while self.pulled:
                self.take(5)
        self.commit()
        for passed in (3 * WEEK, DAY):
            self.pass_time(passed, suspended=False)
            self.ask(1, newest=False, fails=False)
            self.look()
            before = self.said
            self.it_never_goes_back_nor_past_the_present()
            assert self.watermark.idle >= passed
            assert self.said is not None or not self.published
        # Reports that lie by a week have been outwaited: from now on it keeps the pace of the clock.
        assert self.said is None or before is None or self.said == before + DAY


def examples(machine: type[RuleBasedStateMachine], *phases: Phase) -> None:
    few = settings(
        max_examples=150,
        stateful_step_count=40,
        derandomize=True,
        deadline=None,
        database=None,
        phases=phases or tuple(Phase),
    )
    run_state_machine_as_test(machine, settings=few)  # type: ignore[no-untyped-call]


def test_whatever_happens_no_punctual_report_is_late() -> None:
    examples(Stream)


def _any_empty_answer_counts(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Pulls, "doubtful", False)


def _a_failed_pull_counts_as_empty(patch: pytest.MonkeyPatch) -> None:
    def fail(self: Pulls, elapsed: int) -> None:
        self.empty = self._begun

    patch.setattr(Pulls, "fail", fail)


def _the_end_of_a_pull_counts(patch: pytest.MonkeyPatch) -> None:
    silent = Watermark.silent
    patch.setattr(Watermark, "silent", lambda self, elapsed: silent(self, elapsed + 15_000))


def _lies_move_the_frontier(patch: pytest.MonkeyPatch) -> None:
    take = Watermark.take

    def forward(self: Watermark, elapsed: int, times: np.ndarray, oldest: int | None, newest: int) -> None:
        take(self, elapsed, times, int(times.max()), int(times.max()))

    patch.setattr(Watermark, "take", forward)


BROKEN = [
    _any_empty_answer_counts,
    _a_failed_pull_counts_as_empty,
    _the_end_of_a_pull_counts,
    _lies_move_the_frontier,
]


@pytest.mark.parametrize("broken", BROKEN)
def test_the_state_machine_finds_what_is_broken(
    broken: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    broken(monkeypatch)
    with pytest.raises(AssertionError):
        examples(Stream, Phase.generate)
