"""``ldpbeam check`` and ``show --csv``: thresholds on estimates, and tables for spreadsheets."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from support.estimate_records import held, paid, price, results

from ldpbeam import Numeric
from ldpbeam.answers.named_numbers import numbers_of
from ldpbeam.errors import UserError
from ldpbeam.results import check, diff
from ldpbeam.results.check import checked
from ldpbeam.results.show import csv_of, harmless
from ldpbeam.schemas.outputs.records import RangeShare


def hour(start: int) -> dict[str, str]:
    return {
        "window_start": f"2026-11-20T{start:02}:00:00Z", "window_end": f"2026-11-20T{start + 1:02}:00:00Z",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("condition", "verdict"),
    [
        ("mean > 3.9", "certainly"),
        ("mean > 4", "possibly"),  # the end of the interval is not beyond
        ("mean > 6", "no"),
        ("mean < 6.1", "certainly"),
        ("mean<4.1", "possibly"),
        ("price: mean > 3.9", "certainly"),
        ("quantile 0.5 < 5.5", "certainly"),
        # As people write them.
        ("mean >= 3.9", "certainly"),
        ("Average > 3.9", "certainly"),
        ("price: median < 5.5", "certainly"),
        ("p50 < 5.5", "certainly"),
        ("Share of CASH < 21%", "certainly"),
        # Beyond it if the density is smooth.
        ("quantile 0.5 < 5.2", "if smooth"),
        ("share from 0 to 2 > 28%", "if smooth"),
        ("share from 0 to 2 > 25%", "certainly"),
        ("share of cash < 21%", "certainly"),
        ("share of card > 5 > 8e-1", "possibly"),
        ("share of card > 5 > 79%", "certainly"),
    ],
)
def test_a_number_is_certainly_beyond_if_its_whole_interval_is(condition: str, verdict: str) -> None:
    (row,) = checked(results(price(), paid()), [condition])
    assert row.verdict == verdict


def test_without_an_interval_or_with_a_flag_nothing_is_certain() -> None:
    bare = price(intervals=None)
    assert [row.verdict for row in checked(results(bare), ["mean > 4", "mean > 5"])] == ["possibly", "no"]
    # The interval of a standard error: 5 +- 1.96 * 0.5.
    error = price(intervals=None, standard_error=0.5)
    rows = checked(results(error), ["mean > 4.01", "mean > 4.03"])
    assert [row.verdict for row in rows] == ["certainly", "possibly"]
    flagged = price(intervals=held({"certain": "false reports"}, certain={"mean": (4.0, 6.0)}))
    (row,) = checked(results(flagged), ["mean > 1"])
    assert (row.verdict, row.flag) == ("possibly", "false reports")


def test_what_is_certain_at_any_look_is_told_from_what_is_at_one() -> None:
    intervals = held(certain={"mean": (4.0, 6.0)}, any_look={"mean": (3.0, 7.0)}, narrowest=10_000)
    rows = checked(results(price(intervals=intervals)), ["mean > 2.9", "mean > 3", "mean > 4", "mean < 7.1"])
    at_any_look = "certainly, at any look"
    assert [row.verdict for row in rows] == [at_any_look, "certainly", "possibly", at_any_look]
    flagged = price(intervals=replace(intervals, flags={"certain": "false reports"}))
    assert checked(results(flagged), ["mean > 1"])[0].verdict == "possibly"
    wide = {"frequencies": [(0.01, 0.3), (0.7, 0.99)]}
    of_shares = held(certain={"frequencies": [(0.05, 0.2), (0.8, 0.95)]}, any_look=wide, narrowest=10_000)
    (row,) = checked(results(paid(intervals=of_shares)), ["share of card > 5 > 65%"])
    assert row.verdict == at_any_look


def test_an_exit_code_for_any_look_is_not_that_of_one(command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    found = results(
        price(intervals=held(certain={"mean": (4.0, 6.0)}, any_look={"mean": (3.0, 7.0)}, narrowest=10_000))
    )
    monkeypatch.setattr(check, "read_results", lambda folder: found)
    codes = [
        command("check", "out", condition, "--any-look").code for condition in ("mean > 3.5", "mean > 2")
    ]
    assert codes == [0, 1]
    said = command("check", "out", "mean > 2")
    assert "1 number: 1 certainly beyond the threshold (1 at any look), 0 possibly" in said.out
    (number,) = json.loads(command("check", "out", "mean > 2", "--json").out)["numbers"]
    assert (number["verdict"], number["at_any_look"]) == ("certainly", True)


def test_a_verdict_says_where_the_interval_of_smooth_people_differs(
    command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    wide, narrow = {"mean": (4.0, 6.0)}, {"mean": (4.8, 5.2)}
    found = results(price(intervals=held(certain=wide, if_smooth=narrow)))
    monkeypatch.setattr(check, "read_results", lambda folder: found)
    for condition, said, margin in (
        ("mean > 5.5", "possibly, not if smooth", "-1.5"),
        ("mean > 4.9", "possibly\n", "-0.9"),
        ("mean < 6.5", "certainly\n", "+0.5"),
    ):
        out = command("check", "out", condition).out
        assert said in out and f"  {margin}  " in out


def test_each_range_has_a_name_of_its_own_with_the_numbers_of_the_study() -> None:
    start = 1_700_000_000.0
    ranges = tuple(RangeShare(start, start + width, share) for width, share in ((100.0, 0.01), (3e3, 0.04)))
    record = price(ranges=ranges, intervals=None)
    (row,) = checked(results(record), ["share from 1700000000 to 1700003000 > 0.03"])
    assert (row.value, row.verdict) == (0.04, "possibly")
    with pytest.raises(UserError, match="no estimate has"):
        checked(results(record), ["share from 1.7e+09 to 1.7e+09 > 0.03"])


def test_of_several_numbers_with_one_name_all_are_checked() -> None:
    ranges = (RangeShare(0.0, 2.0, 0.01), RangeShare(0.0, 2.0, 0.04))
    rows = checked(results(price(ranges=ranges, intervals=None)), ["share from 0 to 2 > 0.03"])
    assert [row.value for row in rows] == [0.01, 0.04]


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (1.7e9, 1.7e9 + 86_400), (18.0, 99.0), (-1e-3, 0.0)])
def test_each_bucket_has_a_name_of_its_own(low: float, high: float) -> None:
    edges = tuple(Numeric(low, high).edges(16_384).tolist())
    record = price(bucket_edges=edges, distribution=(1 / 16_384,) * 16_384)
    (names,) = (part.names for part in numbers_of(record) if part.names[0].startswith("share in "))
    assert len(set(names)) == 16_384


def test_the_latest_window_is_the_last_that_has_closed() -> None:
    records = [price(**hour(8)), price(**hour(9), mean=7.0), price(**hour(10), pane_timing="early")]
    assert len(checked(results(*records), ["mean > 1"])) == 3
    (row,) = checked(results(*records), ["mean > 1"], latest=True)
    assert row.value == 7.0
    with pytest.raises(UserError, match="no estimate of a window that has closed"):
        checked(results(records[2]), ["mean > 1"], latest=True)
    other = price(name="other", mean=9.0)
    (row,) = checked(results(price(), other), ["mean > 1"], estimate="other")
    assert row.value == 9.0


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("mean", "is not a condition: write NUMBER > VALUE"),
        ("p25 > 4", "no estimate has 'p25'; there are: mean, median"),
        ("percentile 0.5 > 4", "no estimate has 'percentile 0.5'"),
        ("mean > 5%", "a number with % is for shares, and 'mean' has the unit of price"),
        ("mean > 1e999", "is not a condition"),
        ("maen > 4", "did you mean 'mean'?"),
        ("tax > 4", "there are: mean, median, share from 0 to 2, share of cash, share of card > 5"),
        ("paid: mean > 4", "there are: share of cash, share of card > 5"),
    ],
)
def test_a_condition_that_is_none_is_named_with_what_there_is(condition: str, said: str) -> None:
    with pytest.raises(UserError) as caught:
        checked(results(price(), paid()), [condition])
    assert said in str(caught.value)


def test_a_number_of_several_attributes_is_refused() -> None:
    with pytest.raises(UserError, match="price and cost have it: write 'price: mean > 4'"):
        checked(results(price(), price(attribute="cost")), ["mean > 4"])


@pytest.mark.parametrize(
    ("arguments", "code", "out"),
    [
        (["mean > 6"], 0, "1 number: 0 certainly beyond the threshold, 0 possibly\n"),
        (["mean > 4"], 0, "1 number: 0 certainly beyond the threshold, 1 possibly\n"),
        (["mean > 4", "--possibly"], 1, "1 number: 0 certainly beyond the threshold, 1 possibly\n"),
        (["mean > 3.9", "--estimate", "shape"], 1, "1 number: 1 certainly beyond the threshold, "),
        (["mean > 3.9", "--json"], 1, '"verdict": "certainly"'),
        (["mean > 6", "--json"], 0, '"beyond": false'),
    ],
)
def test_the_exit_code_says_whether_a_threshold_is_crossed(
    arguments: list[str], code: int, out: str, command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check, "read_results", lambda folder: results(price(), paid()))
    ran = command("check", "out", *arguments)
    assert (ran.code, ran.err) == (code, "")
    assert out in ran.out


def test_numbers_far_from_0_have_the_digits_that_their_interval_tells_apart(
    command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = 1.7e9
    ends = held(certain={"mean": (start + 400.0, start + 600.0)})
    found = results(price(mean=start + 500.0, intervals=ends, quantiles=None, ranges=None))
    monkeypatch.setattr(check, "read_results", lambda folder: found)
    monkeypatch.setattr(diff, "read_results", lambda folder: found)
    said = command("check", "out", f"mean > {start}").out
    assert "1700000500" in said and "1700000400 to 1700000600" in said
    assert command("diff", "out", "out").out.count("1700000500") == 2


def test_csv_has_the_columns_and_the_rows_of_the_tables(folders: dict[str, Path], command: Any) -> None:
    for name in ("estimates", "distribution"):
        ran = command("show", folders["batch"], "--csv", name)
        assert (ran.code, ran.err) == (0, "")
        table = pq.read_table(folders["batch"] / f"{name}.parquet")
        given = pa.csv.read_csv(io.BytesIO(ran.out.encode()))
        assert given.column_names == table.column_names
        assert given.num_rows == table.num_rows
        column = "mean" if name == "estimates" else "share"
        assert given[column].to_pylist() == table[column].to_pylist()
        assert [json.loads(text) for text in given["services"].to_pylist()] == table["services"].to_pylist()
    refused = command("show", folders["batch"], "--csv", "estimates", "--json")
    assert (refused.code, refused.out) == (2, "")


@pytest.mark.parametrize("first", ["=", "+", "-", "@", "'", "\uff1d", "\uff0b", "\uff0d", "\uff20"])
def test_no_text_of_a_csv_is_a_formula(first: str) -> None:
    text = f'{first}HYPERLINK("http://x";A1),b'
    assert harmless(text) == f"'{text}"
    record = price(group=text)
    header, row = csv.reader(io.StringIO("".join(csv_of("estimates", [record]))))
    cells = dict(zip(header, row, strict=True))
    assert cells["group"] == f"'{text}"
    # A number that is negative stays a number.
    (_, row) = csv.reader(io.StringIO("".join(csv_of("estimates", [price(mean=-5.0)]))))
    assert row[header.index("mean")] == "-5"


def test_a_csv_reaches_no_terminal_and_begins_no_line() -> None:
    assert harmless("\x1b[1m\r\n=1") == "\\x1b[1m\\r\\n=1"
    assert harmless("\t=1") == "\\t=1"
    assert harmless("plain = text") == "plain = text"


def test_a_csv_of_no_estimates_has_its_header_and_one_of_many_has_it_once() -> None:
    assert "".join(csv_of("distribution", [])).count("\n") == 1
    assert "".join(csv_of("estimates", [price()] * 1500)).count("schema_version") == 1
