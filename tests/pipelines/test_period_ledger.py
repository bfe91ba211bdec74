"""The ledger over periods beside a dictionary: late reports, duplicates, reruns, groups, attributes, keys."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.ledger_model import HOUR, PRICES, START, STUDY, TEXT, Price, Run, lines, report, spent

import ldpbeam as ldp
from ldpbeam.answers.ledger_queries import reports_of_users
from ldpbeam.answers.periods import added_up
from ldpbeam.errors import UserError
from ldpbeam.folders.output import Output
from ldpbeam.library.tables import decoded_batches
from ldpbeam.pipelines.commands import ledger
from ldpbeam.pipelines.estimates import ledger_files
from ldpbeam.pipelines.estimates.ledger_files import totals_of, write_periods
from ldpbeam.pipelines.runs import ledger_folder as received
from ldpbeam.pipelines.runs.ledger_folder import (
    ReceivedFile,
    bring_streams_together,
    bring_together,
    files_of,
    keeping,
    ledger_key,
    write_sums,
)
from ldpbeam.pipelines.runs.locks import locked
from ldpbeam.schemas.outputs.checked import fields_of
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.spent import PeriodSpent
from ldpbeam.study import Study
from ldpbeam.times import rfc3339
from ldpbeam.transforms.outputs.ledger_parts import Keeping
from ldpbeam.transforms.outputs.on_engines import WriteReceived
from ldpbeam.transforms.reports.dead_letters import Disclosure
from ldpbeam.transforms.reports.ledger_rows import distinct
from ldpbeam.transforms.reports.validation import Validation, checked_columns
from ldpbeam.windows import EVERYTHING, Span

KEY, OTHER_KEY = b"k" * 32, b"o" * 32


@pytest.fixture(autouse=True, scope="module")
def few_rows_at_once() -> Iterator[None]:
    """Files of many batches, which are added up in many parts, and sums that each run changes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ldpbeam.pipelines.runs.ledger_folder.MOST_READ", math.inf)
        patch.setattr("ldpbeam.answers.ledger_queries.ANSWER_ROWS", 8)
        patch.setattr("ldpbeam.schemas.outputs.ledger_format.BATCH_ROWS", 4)
        yield


reports = st.lists(
    st.builds(
        report, st.sampled_from(sorted(PRICES)), st.integers(0, 5), st.integers(0, 4), st.integers(0, 4),
        st.sampled_from("ns"),
    ),
    max_size=60,
)  # fmt: skip
spans = st.tuples(st.integers(0, 3), st.integers(1, 3)).map(
    lambda ends: (START + ends[0] * HOUR, START + (ends[0] + ends[1]) * HOUR)
)


def write(kept: Keeping, run: Run, span: Span, bundles: int) -> None:
    validation = Validation(STUDY, span, Disclosure(user_id_key=kept.key), kept.key)
    for bundle in range(bundles):
        writer = WriteReceived(kept)
        writer.start_bundle()
        for batch in decoded_batches(run.reports[bundle::bundles], checked_columns(STUDY, None, None)):
            for rows in validation.validate(batch).received:
                writer.process(rows)
        writer.finish_bundle()


def keep(folder: Path, run: Run, key: bytes = KEY, bundles: int = 2) -> dict[int, dict[str, Any]]:
    """What a run of estimate does for the ledger, without an engine; the ledger of the folder after it."""
    span = EVERYTHING if run.span is None else Span(*run.span)
    shared, made = (Output(STUDY, str(path), "run") for path in (folder, folder / ".made"))
    before = files_of([str(folder)])
    kept = keeping(made, made.path(".ledger"), ledger_key(shared, key, shared=True), span)
    assert kept is not None
    write(kept, run, span, bundles)
    after = bring_together(made, kept, before)
    totals = write_sums(made, before, after)
    for file in before:
        if file.path not in {one.path for one in after}:
            Path(file.path).unlink()
    (folder / "ledger").mkdir(exist_ok=True)
    for path in (folder / ".made" / "ledger").iterdir():
        path.rename(folder / "ledger" / path.name)
    return as_lines(totals)


def stream(folder: Path, run: Run, name: str, key: bytes = KEY) -> Keeping:
    """What a stream does for the ledger, with each bundle repeated by the engine."""
    output = Output(STUDY, str(folder), name)
    kept = keeping(output, output.path("runs", name, "ledger"), ledger_key(output, key, shared=True))
    assert kept is not None
    for _ in range(2):
        write(kept, run, EVERYTHING, 3)
    return kept


def ledger_of(folder: Path) -> dict[int, dict[str, Any]]:
    return as_lines(totals_of(STUDY, files_of([str(folder)])))


def as_lines(totals: dict[int, PeriodSpent]) -> dict[int, dict[str, Any]]:
    return {
        start: {
            "users": int(period.about_values.users.sum()),
            "about_values": dict(zip(period.about_values.epsilons, period.about_values.users, strict=True)),
            "changes_included": dict(
                zip(period.changes_included.epsilons, period.changes_included.users, strict=True)
            ),
            "over": period.about_values.above(3.5),
        }
        for start, period in totals.items()
    }


def model(runs: list[Run]) -> dict[int, dict[str, Any]]:
    each = spent(runs, HOUR, 24 * HOUR, PRICES)
    return {start: lines(users, 3.5) for start, users in each.items()}


@given(reports)
@settings(max_examples=30)
def test_a_batch_run_spends_what_a_dictionary_says(
    tmp_path_factory: pytest.TempPathFactory, sent: list[dict[str, Any]]
) -> None:
    folder = tmp_path_factory.mktemp("batch")
    keep(folder, Run(sent))
    assert ledger_of(folder) == model([Run(sent)])


def ledger_of_reports(study: Study, sent: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """The ledger of reports without any file."""
    assert study.ledger is not None
    validation = Validation(study, ledger_key=KEY)
    batches = decoded_batches(sent, checked_columns(study, None, None))
    rows = distinct([part for batch in batches for part in validation.validate(batch).received])
    return as_lines(added_up(study, reports_of_users(study, [rows.to_batches()])))


#: Studies in which a user may have several reports in a window: (text, window, prices).
FRESH = re.sub(r", lifetime_epsilon: [0-9.]+(, values_at_most: 2)?", "", TEXT)
FRESH_PRICES = {service: Price(price.epsilon) for service, price in PRICES.items()}
SEVERAL = {
    "repeats": (f"{FRESH}repeats: all\n", HOUR, FRESH_PRICES),
    "duplicates": (f"{FRESH}duplicates: keep\n", HOUR, FRESH_PRICES),
    "no windows": (TEXT.replace("windows: {size: 1h}\n", ""), 24 * HOUR, PRICES),
}


@pytest.mark.parametrize("kind", SEVERAL)
@given(sent=reports, ids=st.lists(st.sampled_from(["", "a", "b"]), min_size=60, max_size=60))
@settings(max_examples=30)
def test_equal_reports_of_a_user_who_may_send_several_cost_each_and_copies_nothing(
    kind: str, sent: list[dict[str, Any]], ids: list[str]
) -> None:
    text, window, prices = SEVERAL[kind]
    named = [one | ({"report_id": name} if name else {}) for one, name in zip(sent, ids, strict=False)]
    wanted = spent([Run(named)], window, 24 * HOUR, prices, several=True)
    found = ledger_of_reports(parse_study(text), [*named, *named[:9]])
    assert found == {start: lines(users, 3.5) for start, users in wanted.items()}


@given(st.lists(st.builds(Run, reports, spans), min_size=1, max_size=5))
@settings(max_examples=20)
def test_scheduled_runs_and_reruns_in_any_order_spend_what_a_dictionary_says(
    tmp_path_factory: pytest.TempPathFactory, runs: list[Run]
) -> None:
    folder = tmp_path_factory.mktemp("scheduled")
    for number, run in enumerate(runs, 1):
        # The sums of the runs before and what the run changes, and then all reports of the folder.
        assert keep(folder, run) == model(runs[:number])
    assert ledger_of(folder) == model(runs)
    (folder / "ledger" / "sums.arrow").unlink()
    assert ledger_of(folder) == model(runs)


@given(st.lists(st.builds(Run, reports), min_size=1, max_size=3))
@settings(max_examples=15)
def test_streams_and_what_they_bring_together_spend_what_a_dictionary_says(
    tmp_path_factory: pytest.TempPathFactory, runs: list[Run]
) -> None:
    folder = tmp_path_factory.mktemp("stream")
    kept = [stream(folder, run, f"run-{number}") for number, run in enumerate(runs)]
    assert ledger_of(folder) == model(runs)
    bring_streams_together(Output(STUDY, str(folder), ""))
    for one in kept:
        files = [file for file in files_of([str(folder)]) if file.run_folder == one.folder]
        rows = sorted(file.about.rows for file in files)
        assert all(sum(rows[:place]) < size for place, size in enumerate(rows))
    assert ledger_of(folder) == model(runs)


def test_another_key_is_refused_and_its_users_are_others(tmp_path: Path) -> None:
    run = Run([report(("x", "app"), user, 0, 0, "n") for user in range(3)], (START, START + HOUR))
    keep(tmp_path / "one", run)
    with pytest.raises(UserError, match="was written with another key"):
        keep(tmp_path / "one", run, OTHER_KEY)
    keep(tmp_path / "two", run, OTHER_KEY)
    with pytest.raises(UserError, match="with different keys"):
        totals_of(STUDY, files_of([str(tmp_path / "one"), str(tmp_path / "two")]))
    first, second = (ledger_of(tmp_path / name) for name in ("one", "two"))
    assert first == second == model([run])


def test_folders_of_one_key_are_added_up_and_of_another_study_refused(tmp_path: Path) -> None:
    sent = [report(("x", "web"), user, hour, 1, "n") for user in range(4) for hour in range(3)]
    keep(tmp_path / "one", Run(sent[:8], (START, START + 3 * HOUR)))
    keep(tmp_path / "two", Run(sent[4:], (START, START + 3 * HOUR)))
    totals = totals_of(STUDY, files_of([str(tmp_path / name) for name in ("one", "two")]))
    assert sum(period.reports for period in totals.values()) == len(sent)
    for services in (("epsilon: 0.1", "epsilon: 0.2"), ("web:", "net:"), ("1h", "2h"), ("1d", "2d")):
        with pytest.raises(UserError, match="another study"):
            totals_of(parse_study(TEXT.replace(*services)), files_of([str(tmp_path / "one")]))


def test_a_ledger_goes_on_after_an_edit_of_what_it_does_not_depend_on(tmp_path: Path) -> None:
    sent = [report(("x", "app"), user, hour, 1, "n") for user in range(4) for hour in range(9)]
    keep(tmp_path, Run(sent))
    edited = TEXT.replace("cap: 3.5", "cap: 2.5").replace("values_at_most: 2", "values_at_most: 3")
    study = parse_study(f"{edited}publish: {{at_least: 5}}\n")
    totals = totals_of(study, files_of([str(tmp_path)]))
    # Two hours lie in the first period and seven in the second, whose reports are about three values of 2.
    assert [tuple(each.about_values.epsilons) for _, each in sorted(totals.items())] == [(2.0,), (6.0,)]
    assert [each.about_values.above(2.5) for _, each in sorted(totals.items())] == [0, 4]


def test_the_files_of_a_ledger_are_read_while_no_scheduled_run_moves_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(tmp_path, Run([report(("x", "web"), 1, 0, 1, "n")], (START, START + HOUR)))
    others: list[str] = []

    def read(_: object) -> list[ReceivedFile]:
        with pytest.raises(UserError) as found, locked(str(tmp_path / "runs"), alone=True):
            pass
        others.append(str(found.value))
        return []

    for module in (ledger_files, received):
        monkeypatch.setattr(module, "files_of", read)
    assert write_periods(STUDY, [str(tmp_path)]) == []
    assert ledger_key(Output(STUDY, str(tmp_path), "r"), KEY, shared=True) == KEY
    assert ["another run is writing there now" in other for other in others] == [True, True]


@pytest.mark.parametrize("name", ["sums.arrow", "received-all.arrow"])
def test_a_damaged_file_is_named_with_what_to_do(tmp_path: Path, name: str) -> None:
    keep(tmp_path, Run([report(("x", "web"), user, 0, 1, "n") for user in range(30)]))
    path = tmp_path / "ledger" / name
    whole, wanted = path.read_bytes(), ledger_of(tmp_path)
    if name != "sums.arrow":
        (tmp_path / "ledger" / "sums.arrow").unlink()
    for data in (b"", b"ARROW1", whole[:-20], b"x" * 500, whole.replace(b'"format": 2', b'"format": 1')):
        path.write_bytes(data)
        with pytest.raises(UserError, match=f"{name}: damaged, or not what was written .*: .*delete it"):
            ledger_of(tmp_path)
    if name == "sums.arrow":
        path.unlink()
        assert ledger_of(tmp_path) == wanted


def test_batch_and_scheduled_runs_find_the_same_users_over_the_cap_and_name_none(
    tmp_path: Path, run_estimate: Any, command: Any, write_lines: Any
) -> None:
    sent = [
        report(kind, user, hour, (user + hour) % 3, "ns"[user % 2])
        for kind in PRICES
        for user in range(9)
        for hour in range(2 + user % 4)
    ]
    lines_ = write_lines(tmp_path / "reports.jsonl", [*sent, *sent[:5]])
    key = tmp_path / "key"
    key.write_bytes(KEY)
    key.chmod(0o600)
    hidden = ("--user-id-key-file", key)
    whole = run_estimate(tmp_path / "whole", TEXT, [lines_], *hidden)
    assert whole.code == 0, whole.err
    for hours in ((0, 2), (2, 5), (0, 2)):
        ends = (rfc3339(START + hour * HOUR) for hour in hours)
        span = ("--from", next(ends), "--to", next(ends))
        ran = run_estimate(tmp_path / "days", TEXT, [lines_], *span, *hidden)
        assert ran.code == 0, ran.err
    by_itself = json.loads((ran.path / "ledger_periods.json").read_text())
    kept = [command("ledger", folder, "--json") for folder in (whole.path, ran.path)]
    entries = [json.loads(one.out)["periods"] for one in kept]
    assert entries[0] == entries[1] == by_itself
    found = ldp.estimate(STUDY, [*sent, *sent[:5]])
    assert [fields_of(entry) for entry in found.periods] == by_itself
    wanted = model([Run(sent)])
    assert [entry["users_over_cap"] for entry in entries[0]] == [wanted[s]["over"] for s in sorted(wanted)]
    assert 0 < sum(entry["users_over_cap"] for entry in entries[0]) < 9
    shown = command("show", ran.path)
    assert "users spent more than epsilon 3.5 in the period from 2026-11-" in shown.out
    for folder in (whole.path, ran.path):
        ours = folder / "ledger"
        assert ours.stat().st_mode & 0o777 == 0o700
        assert {path.stat().st_mode & 0o777 for path in ours.iterdir()} == {0o600}
        assert not list(folder.rglob(".ledger"))
        assert not any(
            b"user-1" in path.read_bytes() for path in [*ours.iterdir(), folder / "ledger_periods.json"]
        )
    # The study asks for the key where runs share a folder, and not for a single run.
    again = run_estimate(tmp_path / "days", TEXT, [lines_], *span)
    assert (again.code, "--user-id-key-file is missing" in again.err) == (2, True)
    alone = run_estimate(tmp_path / "alone", TEXT, [lines_])
    assert json.loads((alone.path / "ledger_periods.json").read_text()) == entries[0]
    nowhere = command("ledger", whole.path, tmp_path / "nowhere")
    assert (nowhere.code, nowhere.out, "nowhere: there is no such folder" in nowhere.err) == (2, "", True)


def test_a_folder_that_is_given_twice_is_in_a_ledger_once(
    command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    added: list[list[str]] = []

    def write(_: Study, folders: list[str]) -> list[object]:
        added.append(folders)
        return []

    monkeypatch.setattr(ledger, "read_study", lambda _: STUDY)
    monkeypatch.setattr(ledger, "write_periods", write)
    command("ledger", "one/", "two", "./one")
    assert added == [["./one", "two"]]


def test_reports_out_of_turn_count(tmp_path: Path) -> None:
    text = TEXT.replace("groups: {field: region}", "panel: {windows: 24}")
    study = parse_study(text)
    sent = [report(("x", "web"), user, 0, 1, "n") for user in range(50)]
    validation = Validation(study, ledger_key=KEY)
    batches = decoded_batches(sent, checked_columns(study, None, None))
    results = [validation.validate(batch) for batch in batches]
    assert sum(len(rows) for result in results for rows in result.received) == 50
    assert sum(batch.num_rows for result in results for batch in result.reports) < 25
