"""Where several reports of a user count, so many do: the same ones in batch, stream and library."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.kept_one_by_one import cut
from support.keyed_state import Key, StreamByHand, main_and_counts
from support.pane_reports import NOT_TO_JOIN, Report, batches_of, study_text
from support.pane_scripts import Step
from support.tallied import tallied

from ldpbeam.schemas.outputs.snapshots import Snapshot
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.transforms.joining import kept as kept_module
from ldpbeam.transforms.reports.batches import tagged
from ldpbeam.transforms.reports.counts import BEYOND_MOST
from ldpbeam.transforms.windows import unbounded
from ldpbeam.transforms.windows.piece_keys import PieceKey
from ldpbeam.transforms.windows.unbounded import FoldStream
from ldpbeam.windows import Span

#: Two versions of one service, and another service.
SERVICES = (
    "{maps: {mechanism: square_wave, version_field: app,"
    " versions: {old: {epsilon: 1.0}, new: {epsilon: 1.0}}}, taxi: {mechanism: piecewise, epsilon: 2.0}}"
)
STEP = 10_000
REPORTS = st.builds(
    Report, user=st.sampled_from(["ann", "bob"]), time=st.sampled_from([0, 1_000, 9_999, 10_000, 12_000]),
    version=st.integers(0, 2), payload=st.sampled_from([0.1, 0.5]),
    report_id=st.none() | st.sampled_from(["r1", "r2", "r3", "r4", "r5"]), group=st.none() | st.just("north"),
)  # fmt: skip
ORDERS = st.randoms(use_true_random=False)


@pytest.fixture(scope="module", autouse=True)
def _every_batch_is_looked_through() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kept_module, "_FEW", 0)
        patch.setattr(unbounded, "HELD_REPORTS", 6)
        yield


WINDOWS = ("size: 10s, allowed_lateness: 100s", "size: 10s, period: 4s, allowed_lateness: 100s")
#: Without it, event times of 1970 are dead letters.
OLD_TIMES = Span(-(10**12))
Statistics = dict[tuple[str, Any], list[Snapshot]]


def text_of(windows: str, most: int = 2) -> str:
    return study_text(SERVICES, NOT_TO_JOIN, windows=windows, more=f"repeats: all\nmost_reports: {most}")


def in_library(text: str, reports: list[Report]) -> tuple[Statistics, Counter[str]]:
    """The statistics of each window, and what became of the reports."""
    columns = [{"service": "maps", "app": "old"}, {"service": "maps", "app": "new"}, {"service": "taxi"}]
    sent = [
        {"user_id": own.user, "event_time": own.time, "payload": own.payload, "report_id": own.report_id}
        | columns[own.version]
        for own in reports
    ]
    tally = tallied(text, sent, OLD_TIMES)
    found: defaultdict[tuple[str, Any], list[Snapshot]] = defaultdict(list)
    for snapshot in tally.snapshots:
        found[snapshot.attribute, snapshot.window].append(snapshot)
    return dict(found), what_became(tally.accounting)


def what_became(counts: Any) -> Counter[str]:
    names = ("used", "duplicates", BEYOND_MOST, "used_in_windows")
    return Counter({name: counts[name] for name in names if counts.get(name)})


def apart(text: str, reports: list[Report]) -> list[Report]:
    """The reports with ids that differ between steps: a stream compares the ids of a window alone."""
    windows = parse_study(text).windows
    assert windows is not None
    return [
        own._replace(
            group=None, report_id=own.report_id and f"{own.report_id}-{own.time // windows.steps.length}"
        )
        for own in reports
    ]


@pytest.mark.parametrize("windows", WINDOWS, ids=["apart", "sliding"])
@settings(max_examples=8, derandomize=True, deadline=None)
@given(st.lists(REPORTS, min_size=20, max_size=40), st.integers(1, 3), ORDERS)
def test_a_stream_counts_what_the_library_counts_whoever_came_first(
    windows: str, reports: list[Report], partitions: int, order: random.Random
) -> None:
    text = text_of(windows)
    reports = apart(text, reports)
    expected, counts = in_library(text, reports)
    # Windows fire on time, and then with what is late.
    batches = cut(reports, order, lambda some: batches_of(*some))
    script = [Step(1_000 * order.randint(0, 60), [batch]) for batch in batches]
    found = StreamByHand(parse_study(text), partitions, order).run(
        sorted(script, key=lambda step: step.watermark)
    )
    assert found.last == expected
    assert what_became(found.counts) == counts


@pytest.mark.parametrize("rest", ["", "repeats: all\nduplicates: keep"])
def test_a_bound_that_nothing_asks_for_is_refused(rest: str) -> None:
    with pytest.raises(ValueError, match="most_reports: it needs duplicates: drop and repeats: all"):
        parse_study(study_text(SERVICES, NOT_TO_JOIN, more=f"most_reports: 5\n{rest}"))


def test_the_default_does_not_change_the_fingerprint_and_another_number_does() -> None:
    texts = ("repeats: all", "repeats: all\nmost_reports: 999")
    default, other = (parse_study(study_text(SERVICES, NOT_TO_JOIN, more=text)) for text in texts)
    assert (default.most_reports, other.most_reports) == (1_000, 999)
    assert default != other


MOST = 50
STREAM = parse_study(text_of("size: 10s", MOST))


def piece(rng: np.random.Generator, rows: int, users: int = 1) -> pa.RecordBatch:
    columns = {
        "user": pa.array([b"u%d" % user for user in rng.integers(0, users, rows).tolist()], pa.binary()),
        "event_time": pa.array(rng.integers(0, STEP, rows)),
        "payload": pa.array(rng.random(rows)),
        "report_id": pa.array([rng.bytes(16) for _ in range(rows)], pa.binary()),
    }
    return tagged(pa.RecordBatch.from_pydict(columns), "x", 0)


def test_the_state_of_a_stream_does_not_grow_with_the_ids_of_a_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unbounded, "HELD_REPORTS", 1_000)
    rng = np.random.default_rng(1)
    key, given, most = Key(FoldStream(STREAM, 1).function, PieceKey("x", 0, (0, 0))), [], 0
    for _ in range(40):
        given += key.come(piece(rng, 250))
        most = max(most, sum(held.num_rows for held in key._cells["reports"].read()))
    assert most < 1_000
    _, counts = main_and_counts(given + key.advance(STEP))
    assert counts == {"used": MOST, "duplicates": 10_000 - MOST, BEYOND_MOST: 10_000 - MOST}
