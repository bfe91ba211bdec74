"""``ldpbeam show`` and ``dead-letters``: all that a finished run left, for people and as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.estimate_records import held, price

from ldpbeam.answers.tables import estimate_rows
from ldpbeam.folders.read import read_results
from ldpbeam.results import show
from ldpbeam.results.dead_letters import dead_letters_of

KINDS = ("batch", "scheduled", "rollup", "stream")


@pytest.mark.parametrize("kind", KINDS)
def test_json_has_every_estimate_and_what_became_of_the_reports(
    kind: str, folders: dict[str, Path], command: Any
) -> None:
    ran = command("show", folders[kind], "--json")
    assert (ran.code, ran.err) == (0, "")
    found, results = json.loads(ran.out), read_results(str(folders[kind]))
    assert (found["kind"], found["study"]) == (kind, results.about.study)
    assert [own["mean"] for own in found["estimates"]] == [own.mean for own in results.estimates]
    assert len(found["windows"]) == len(results.windows)
    for run, own in zip(found["runs"], results.runs, strict=True):
        assert (run["accounting"] or {}).get("in") == (own.accounting.in_ if own.accounting else None)
        assert len(run["ledger"]) == len(own.ledger)


@pytest.mark.parametrize(
    ("start", "edges", "mean", "interval"),
    [
        (0.0, (0.0, 100.0), "5.12346", "4.1236 to 6"),
        (0.0, None, "5.12346", "4.1236 to 6"),
        (1.7e9, (1.7e9, 1.7e9 + 86_400), "1700000005", "1700000004 to 1700000006"),
        (1.7e9, None, "1700000005.1", "1700000004.1 to 1700000006"),
    ],
)
def test_numbers_have_the_digits_that_tell_those_of_their_range_apart(
    start: float, edges: tuple[float, ...] | None, mean: str, interval: str
) -> None:
    ends = held(certain={"mean": (start + 4.12357, start + 6.0)})
    record = price(mean=start + 5.123457, bucket_edges=edges, quantiles=None, intervals=ends)
    (row,) = estimate_rows([record])[1]
    assert (row["mean"], row["certain mean"]) == (mean, interval)


def test_people_see_the_table_the_accounting_and_what_to_look_at(
    folders: dict[str, Path], command: Any
) -> None:
    ran = command("show", folders["batch"])
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("study everything, run ")
    for text in (
        "certain mean",
        "certain mean: a 95% interval that holds whatever people's values are",
        "1,201 reports in = 1,200 used + 0 duplicates + 0 late + 0 out of range + 1 dead letters",
        "no user id",
        "nobody spent more than epsilon 4",
        "tests of fit passed (fit.json)",
    ):
        assert text in ran.out
    stream = command("show", folders["stream"]).out
    assert "2 windows had not closed: the estimates are early" in stream
    assert "1 window may lack reports (complete: false)" in stream
    assert "tests of fit passed (fit/ of a run)" in stream


def test_the_table_fits_a_terminal(
    folders: dict[str, Path], command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rich.console import Console

    monkeypatch.setattr(show, "Console", lambda: Console(width=80, force_terminal=True, color_system=None))
    lines = command("show", folders["batch"]).out.replace("\x1b[1m", "").replace("\x1b[0m", "").splitlines()
    table = lines[1 : next(i for i, line in enumerate(lines) if line.startswith("certain mean: "))]
    assert len(table) > 20 and max(map(len, table)) <= 80


def test_dead_letters_are_counted_with_examples(folders: dict[str, Path], command: Any) -> None:
    for kind in ("batch", "scheduled"):
        found = json.loads(command("dead-letters", folders[kind], "--json").out)
        (reason,) = found["reasons"]
        assert (found["dead_letters"], reason["reason"], reason["reports"]) == (1, "no_user_id", 1)
        (example,) = reason["examples"]
        assert Path(example["file"]).name == "bad.jsonl"
        (letter,) = dead_letters_of(read_results(str(folders[kind])))
        assert (letter.sha256, letter.position) == (example["sha256"], example["position"])
    said = command("dead-letters", folders["batch"]).out
    assert said.startswith("1 no user id\n") and "bad.jsonl, position 0" in said
    assert command("dead-letters", folders["batch"], "--reason", "no user id").out == said
    assert "as in" not in command("dead-letters", folders["batch"], "--examples", 0).out
    wrong = command("dead-letters", folders["batch"], "--reason", "no_userid")
    assert (wrong.code, "did you mean 'no_user_id'?" in wrong.err) == (2, True)
    assert command("dead-letters", folders["rollup"]).out == "there are no dead letters\n"


def test_kept_records_are_not_printed(
    tmp_path: Path, command: Any, run_estimate: Any, write_lines: Any, small_text: str
) -> None:
    bad = [{"user_id": f"secret-{place}", "attribute": "x", "service": "c"} for place in range(5)]
    lines = write_lines(tmp_path / "bad.jsonl", bad)
    ran = run_estimate(tmp_path, small_text, [lines], "--keep-bad-records", "--max-bad-fraction", 1)
    letters = list(dead_letters_of(read_results(str(ran.path))))
    assert all(letter.record and b"secret-" in letter.record for letter in letters)
    for options in ([], ["--json"]):
        said = command("dead-letters", ran.path, *options).out
        assert "unknown" in said and "secret" not in said


@pytest.mark.parametrize("spoil", [lambda data: b"", lambda data: data[:-20], lambda data: b"{}\n"])
def test_a_damaged_file_of_dead_letters_is_one_sentence(
    spoil: Callable[[bytes], bytes], copied: Callable[[str], Path], command: Any
) -> None:
    (path,) = (copied("batch") / "dead_letters").glob("*.avro")
    path.write_bytes(spoil(path.read_bytes()))
    ran = command("dead-letters", path.parent.parent)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"ldpbeam: {path}: ")
