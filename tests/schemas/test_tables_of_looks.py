"""Tables have the ends that hold at any look, and the alarm of a window."""

from __future__ import annotations

from dataclasses import replace

from support.estimate_records import paid, price

from ldpbeam.schemas.outputs.records import AlarmRecord, AnyLookRecord, Ends, ManyEnds
from ldpbeam.schemas.outputs.tables import estimate_rows, share_rows


def test_an_estimate_has_its_alarm_and_the_mean_at_any_look() -> None:
    intervals = price().intervals
    assert intervals is not None
    looks = replace(intervals, any_look=AnyLookRecord(10_000, mean=Ends(3.0, 7.0)))
    alarm = AlarmRecord(True, "mean", 2.5, 40, 1.0, (0.0,) * 4)
    names = ("mean_any_look_low", "mean_any_look_high", "alarm", "alarm_number", "alarm_expected")
    rows = estimate_rows([price(intervals=looks, alarm=alarm), price()]).to_pylist()
    assert [[row[name] for name in names] for row in rows] == [[3.0, 7.0, True, "mean", 2.5], [None] * 5]


def test_a_share_has_its_ends_at_any_look() -> None:
    intervals = paid().intervals
    assert intervals is not None
    looks = replace(intervals, any_look=AnyLookRecord(10, frequencies=ManyEnds((0.0, 0.7), (0.3, 1.0))))
    rows = share_rows([paid(intervals=looks), paid()]).to_pylist()
    ends = [(row["share_any_look_low"], row["share_any_look_high"], row["share_low"]) for row in rows]
    assert ends == [(0.0, 0.3, 0.05), (0.7, 1.0, 0.8), (None, None, 0.05), (None, None, 0.8)]
    assert rows[0]["key_mean_low"] is None
