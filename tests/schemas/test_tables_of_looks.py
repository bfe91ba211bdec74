"""Tables have the ends that hold at any look, and the alarm of a window."""

from __future__ import annotations

from support.estimate_records import held, paid, price

from ldpbeam.schemas.outputs.records import AlarmRecord, Frequent
from ldpbeam.schemas.outputs.tables import estimate_rows, share_rows


def test_an_estimate_has_its_alarm_and_the_mean_at_any_look() -> None:
    looks = held(any_look={"mean": (3.0, 7.0)}, narrowest=10_000)
    alarm = AlarmRecord(True, "mean", 2.5, 40, 1.0, (0.0,) * 4)
    names = ("mean_any_look_low", "mean_any_look_high", "alarm", "alarm_number", "alarm_expected")
    rows = estimate_rows([price(intervals=looks, alarm=alarm), price()]).to_pylist()
    assert [[row[name] for name in names] for row in rows] == [[3.0, 7.0, True, "mean", 2.5], [None] * 5]


def test_a_share_has_its_ends_at_any_look() -> None:
    own, wide = [(0.05, 0.2), (0.8, 0.95)], [(0.0, 0.3), (0.7, 1.0)]
    looks = held(certain={"frequencies": own}, any_look={"frequencies": wide}, narrowest=10)
    rows = share_rows([paid(intervals=looks), paid()]).to_pylist()
    ends = [(row["share_any_look_low"], row["share_any_look_high"], row["share_certain_low"]) for row in rows]
    assert ends == [(0.0, 0.3, 0.05), (0.7, 1.0, 0.8), (None, None, 0.05), (None, None, 0.8)]
    assert rows[0]["key_mean_certain_low"] is None


def test_an_interval_that_needs_no_smoothness_is_in_the_columns_of_both() -> None:
    (row,) = estimate_rows([price()]).to_pylist()
    ends = ("certain_low", "certain_high", "if_smooth_low", "if_smooth_high")
    assert [row[f"mean_{end}"] for end in ends] == [4.0, 6.0, 4.0, 6.0]
    assert [row["quantiles"][0][end] for end in ends] == [1.5, 5.4, 2.0, 5.0]
    assert [row["ranges"][0][end] for end in ends] == [0.26, 0.55, 0.3, 0.5]


def test_the_most_frequent_names_have_the_interval_that_holds_for_the_largest() -> None:
    wide = [(0.7, 0.97), (0.02, 0.3)]
    given = held(certain={"frequencies": [(0.05, 0.2), (0.8, 0.95)]}, largest={"frequencies": wide})
    (row,) = estimate_rows([paid(intervals=given, top=(Frequent("card > 5", 0.9),))]).to_pylist()
    assert row["top"] == [{"name": "card > 5", "frequency": 0.9, "largest_low": 0.7, "largest_high": 0.97}]
