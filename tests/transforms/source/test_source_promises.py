"""Whatever happens to the source of streams: its watermark never goes back nor past the clock, and nothing is
acknowledged that is not durable and named in the journal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.driven_source import DISORDER, SECOND, Driven, at, batch, set_clocks

from ldpbeam.transforms.sources.reader import progress
from ldpbeam.transforms.state.records import OpenWindow

#: What may happen to a source: a batch of some event times comes, the clock moves on, a mark is made, one of
#: those made is finalised, or all acknowledgements fail from now on, or work again.
HAPPENINGS = st.lists(
    st.tuples(st.just("come"), st.lists(st.integers(-120, 20), min_size=1, max_size=3))
    | st.tuples(st.just("wait"), st.integers(0, 30))
    | st.tuples(st.just("mark"), st.none())
    | st.tuples(st.just("finalise"), st.integers(0, 10))
    | st.tuples(st.just("fail"), st.booleans()),
    max_size=25,
)


@settings(max_examples=200, derandomize=True, deadline=None)
@given(HAPPENINGS)
def test_whatever_happens_the_source_keeps_its_promises(
    tmp_path_factory: pytest.TempPathFactory, happenings: list[tuple[str, Any]]
) -> None:
    driven = Driven(tmp_path_factory.mktemp("out"))
    with pytest.MonkeyPatch.context() as patch:
        set_clocks(patch, lambda: driven.now)
        _see_promises_kept(driven, happenings)


def _see_promises_kept(driven: Driven, happenings: list[tuple[str, Any]]) -> None:
    unsafe: dict[str, list[int]] = {}  # the event times of what was taken and not acknowledged, by receipt
    holding: dict[str, list[int]] = {}  # those that were in order when they came, but for the disorder
    latest, came = None, driven.now  # the latest event time, and when a batch last came
    marks: list[tuple[Any, set[str]]] = []
    durable: set[str] = set()
    fails, said = False, None

    def acknowledging(receipts: Sequence[str]) -> None:
        assert set(receipts) <= durable
        assert driven.named >= {
            OpenWindow("x", time // 10_000 * 10_000, time // 10_000 * 10_000 + 10_000)
            for receipt in receipts
            for time in unsafe.get(receipt, [])
        }
        if fails:
            raise OSError("refused")

    driven.feed.before_acknowledging = acknowledging
    for what, how in [*happenings, ("fail", False), ("mark", None), ("finalise", 10**6)]:
        if what == "come":
            times = [driven.now + second * SECOND for second in how]
            receipt = driven.put(batch(*times))
            in_order = -(2**62) if latest is None else latest + driven.now - came - DISORDER
            unsafe[receipt], holding[receipt] = times, [time for time in times if time >= in_order]
            latest, came = max(latest or 0, min(max(times), driven.now)), driven.now
            assert driven.take()
        elif what == "wait":
            driven.now += how * SECOND
            assert not driven.take()
        elif what == "mark":
            marks.append((driven.mark(), set(unsafe)))
        elif what == "fail":
            fails = how
        elif marks:
            mark, taken = marks[min(how, len(marks) - 1)]
            durable |= taken
            # What could not be acknowledged before is tried again with every mark.
            if fails and durable & set(unsafe):
                with pytest.raises(OSError, match="refused"):
                    mark.finalize_checkpoint()
            else:
                mark.finalize_checkpoint()
                unsafe = {receipt: times for receipt, times in unsafe.items() if receipt not in durable}
        assert set(driven.feed.acknowledged).isdisjoint(unsafe)
        reached = driven.watermark
        if reached is not None:
            assert said is None or reached >= said
            assert at(reached) <= driven.now - DISORDER
            oldest = min((time for receipt in unsafe for time in holding[receipt]), default=None)
            assert oldest is None or reached == said or at(reached) <= oldest - DISORDER
        said = reached
    assert unsafe == {}
    assert progress(driven.reading.run).pending == 0
