"""The time model at random: hostile clocks and publishers, pauses, failing pulls; no punctual one is late."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from ldpbeam.transforms.sources.pulls import Pulls
from ldpbeam.transforms.sources.watermarks import Claim

HOUR, DAY, WEEK = 3_600_000, 86_400_000, 7 * 86_400_000
NOW = 1_750_000_000_000


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
        self.pulls, self.claim = Pulls(LEASE), Claim(DISORDERED, 0)
        self.pulled: list[tuple[Message, bool]] = []
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

    @precondition(lambda self: self.pulled)
    @rule(most=st.integers(1, 5))
    def take(self, most: int) -> None:
        part, self.pulled = self.pulled[:most], self.pulled[most:]
        before = self.claim.at
        for message, _ in part:
            assert not message.honest or before is None or message.event >= before, (
                "a punctual report is late"
            )
        events = np.array([message.event for message, _ in part], dtype=np.int64)
        published = [message.published for message, _ in part]
        oldest = min(published) if all(settled for _, settled in part) else None
        self.claim.take(self.elapsed, events, oldest, max(published))
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
        self.claim.fall_silent(self.pulls.empty)
        assert self.claim.idle <= max(0, self.empty_truly - self.active_truly)

    @invariant()
    def it_never_goes_back_nor_past_the_present(self) -> None:
        reached = self.claim.at
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
        for passed in (3 * WEEK, DAY):
            self.pass_time(passed, suspended=False)
            self.ask(1, newest=False, fails=False)
            self.look()
            before = self.said
            self.it_never_goes_back_nor_past_the_present()
            assert self.claim.idle >= passed
            assert self.said is not None or not self.published
        # Reports that lie by a week have been outwaited: from now on it keeps the pace of the clock.
        assert self.said is None or before is None or self.said == before + DAY


def examples(machine: type[RuleBasedStateMachine], *phases: Phase, most: int = 150) -> None:
    few = settings(
        max_examples=most, stateful_step_count=40, derandomize=True, deadline=None, database=None,
        phases=phases or tuple(Phase),
    )  # fmt: skip
    run_state_machine_as_test(machine, settings=few)  # type: ignore[no-untyped-call]


def test_whatever_happens_no_punctual_report_is_late() -> None:
    examples(Stream)
