"""Command lines: ours with dashes or underscores, Beam's as Beam writes them; mistakes are one message."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from apache_beam.options.pipeline_options import GoogleCloudOptions, StandardOptions

from ldpbeam.domains import Numeric
from ldpbeam.pipelines.errors import UserError
from ldpbeam.pipelines.graphs import engines
from ldpbeam.pipelines.simulated.people import PeopleColumns, read_people

NOW = 1_795_168_800_000  # 2026-11-20T10:00:00Z


@pytest.fixture
def good(tmp_path: Path, write_lines: Callable[..., Path]) -> Path:
    record = {"attribute": "x", "service": "a", "event_time": NOW, "payload": 0.5}
    return write_lines(tmp_path / "in.jsonl", [{**record, "user_id": f"u{i}"} for i in range(5)])


@pytest.fixture
def people(tmp_path: Path, make_people: Callable[..., Path]) -> Path:
    return make_people(tmp_path / "people.csv", [0.1, 0.2, 0.3], n=[1, 2, 1.5], t=["now", "x", "y"])


@pytest.fixture
def study(tmp_path: Path, small_text: str) -> Path:
    (tmp_path / "study.yaml").write_text(small_text)
    return tmp_path / "study.yaml"


def test_our_options_take_dashes_and_underscores(
    good: Path, small_text: str, tmp_path: Path, run_estimate: Any
) -> None:
    (tmp_path / "key").write_bytes(b"k" * 16)
    options = (
        "--keep_bad_records",
        "--max_bad_fraction=0.5",
        "--on_bad_file",
        "skip",
        "--estimate-on=worker",
    )
    found = run_estimate(tmp_path / "a", small_text, [good], *options)
    assert found.code == 0, found.err
    assert found.accounting["used"] == 5
    found = run_estimate(tmp_path / "b", small_text, [good], "--user_id_key_file", tmp_path / "key")
    assert found.code == 0, found.err
    assert found.accounting["used"] == 5


def test_beams_options_reach_beam_as_beam_writes_them(
    good: Path, small_text: str, tmp_path: Path, run_estimate: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    real = engines.PipelineOptions
    monkeypatch.setattr(
        engines, "PipelineOptions", lambda arguments: seen.append(real(arguments)) or seen[-1]
    )
    options = ("--job_name", "november", "--temp_location=some/where", "--experiments=a", "--experiments=b")
    found = run_estimate(tmp_path / "a", small_text, [good], *options)
    assert found.code == 0, found.err
    (given,) = seen
    assert given.view_as(GoogleCloudOptions).job_name == "november"
    assert given.view_as(GoogleCloudOptions).temp_location == "some/where"
    assert {"a", "b"} <= set(given.get_all_options()["experiments"])
    assert not given.view_as(StandardOptions).streaming


@pytest.mark.parametrize(
    ("option", "nearest"),
    [
        ("--job_nme", "did you mean --job_name?"),
        ("--max-bad-fracton=0.1", "did you mean --max-bad-fraction?"),
        ("--keep-bad-record", "did you mean --keep-bad-records?"),  # no abbreviation is taken either
        ("--overwrit", "did you mean --overwrite?"),
        ("--zzzzzzz", "unknown option --zzzzzzz"),
        ("-x", "unknown option -x"),
    ],
)
def test_an_option_nobody_knows_is_refused_with_the_nearest_name(
    option: str, nearest: str, good: Path, small_text: str, tmp_path: Path, run_estimate: Any
) -> None:
    found = run_estimate(tmp_path / "a", small_text, [good], option)
    assert (found.code, found.out) == (2, "")
    assert found.err.startswith(f"ldpbeam: unknown option {option.partition('=')[0]}")
    assert nearest in found.err
    assert not found.path.exists()


def test_commands_without_beam_refuse_beams_options(command: Any, study: Path) -> None:
    found = command("explain", "--study", study, "--job_name", "x")
    assert (found.code, found.out) == (2, "")
    assert "unknown option --job_name" in found.err
    assert "unexpected argument 'extra'" in command("explain", "--study", study, "extra").err


def test_an_unknown_command_is_refused_with_the_nearest_one(command: Any) -> None:
    found = command("explian")
    assert (found.code, found.out) == (2, "")
    assert "unknown command 'explian'; did you mean 'explain'?" in found.err
    assert "there are: init, explain, plan, evaluate, " in command("frobnicate").err


def test_lists_say_what_there_is(command: Any) -> None:
    assert all(name in command("mechanisms").out for name in ("grr", "laplace", "square_wave"))
    assert all(name in command("estimators").out for name in ("ule", "ivw", "norm_sub"))
    assert {"study", "attributes"} <= set(json.loads(command("schema").out)["properties"])


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["explain", "--studdy", "x"], "unknown option --studdy; did you mean --study?"),
        (["explain", "--studdy=x"], "unknown option --studdy; did you mean --study?"),
        (["estimate", "--study", "x", "--input", "y", "--ouput", "z"], "--ouput; did you mean --output?"),
        (["estimate", "--study", "x", "--input", "y"], "required: --output"),
        (["estimate", "--study", "x", "--input", "y", "--job_name", "z"], "required: --output"),
    ],
)
def test_a_misspelt_option_is_named_before_the_one_that_is_missing(
    arguments: list[str], says: str, command: Any
) -> None:
    found = command(*arguments)
    assert (found.code, says in found.err) == (2, True), found.err


def given(part: object) -> str | None:
    """A test's name: the options."""
    return None if isinstance(part, str) else " ".join(map(str, part))  # type: ignore[call-overload]


ESTIMATE: list[tuple[tuple[object, ...], str]] = [
    (("--partitions", 0), "--partitions 0: from 1 to 65,536"),
    (("--processes", 2, "--estimate-on", "worker"), "--processes: it is for --estimate-on driver"),
    (("--partitions", "many"), "--partitions many: a whole number"),
    (("--max-bad-fraction", 2), "--max-bad-fraction 2.0: from 0 to 1"),
    (("--max-bad-fraction", "nan"), "--max-bad-fraction nan: from 0 to 1"),
    (("--estimate-on", "moon"), "invalid choice: 'moon'"),
    (("--from", "2026-11-20T10:00:00"), "--from 2026-11-20T10:00:00: write a time with its zone"),
    (("--attribute", "y"), "--attribute y: the study has x"),
    (("--truth", "people.csv"), "--value-column is missing"),
    (("--truth", "nothing.csv", "--value-column", "value"), "nothing.csv: "),
    (("--user-id-key-file", "nothing.key"), "--user-id-key-file nothing.key: No such file"),
    (
        ("--user-id-key-file", "short.key"),
        "--user-id-key-file short.key: a key has 16 bytes or more, found 15",
    ),
    (("--parallelism", "few"), "--parallelism few: a whole number"),
    (("--runner", "moon"), "moon"),
]


@pytest.mark.parametrize(("options", "message"), ESTIMATE, ids=given)
def test_a_mistake_in_estimates_options_is_one_message_and_nothing_starts(
    options: tuple[object, ...],
    message: str,
    good: Path,
    small_text: str,
    tmp_path: Path,
    run_estimate: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("short.key").write_bytes(b"k" * 15)
    found = run_estimate(tmp_path / "a", small_text, [good], *options)
    assert (found.code, found.out) == (2, "")
    assert found.err.startswith("ldpbeam: ")
    assert message in found.err
    assert not found.path.exists()


PERTURB: list[tuple[tuple[object, ...], str]] = [
    ((), "--value-column is missing"),
    (("--value-column", "value", "--time-column", "t"), "column 't' has times such as 'now'"),
    (("--value-column", "value", "--weight-column", "n", "--user-column", "t"), "leave out --user-column"),
    (("--value-column", "value", "--start", "now"), "--start now: write a time with its zone"),
    (("--value-column", "value", "--start", "1763628000"), "--start 1763628000: looks like seconds"),
    (("--value-column", "value", "--spread", "3"), "--spread 3: write a whole number and a unit"),
    (("--value-column", "value", "--seed", "-1"), "--seed"),
]


@pytest.mark.parametrize(("options", "message"), PERTURB, ids=given)
def test_a_mistake_in_perturbs_options_is_one_message(
    options: tuple[object, ...], message: str, people: Path, study: Path, tmp_path: Path, command: Any
) -> None:
    required = ("--study", study, "--attribute", "x", "--input", people, "--output", tmp_path / "out")
    found = command("perturb", *required, *options)
    assert found.code == 2
    assert found.err.startswith("ldpbeam: ")
    assert message in found.err


def test_a_study_with_windows_needs_times(study: Path, people: Path, tmp_path: Path, command: Any) -> None:
    study.write_text(study.read_text() + "windows: {size: 1h}\n")
    required = ("--study", study, "--attribute", "x", "--input", people, "--output", tmp_path / "out")
    found = command("perturb", *required, "--value-column", "value")
    assert found.code == 2
    assert "give --time-column, or --start and --spread" in found.err


def test_a_study_with_groups_needs_their_column(
    study: Path, people: Path, tmp_path: Path, command: Any
) -> None:
    study.write_text(study.read_text() + "groups: {field: region}\n")
    required = ("--study", study, "--attribute", "x", "--input", people, "--output", tmp_path / "out")
    found = command("perturb", *required, "--value-column", "value")
    assert found.code == 2
    assert "the study has groups, by the field 'region' of reports: add --group-column COLUMN" in found.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("time", "early"), [("7", True), ("481593600000", True), ("1985-04-06T00:00:00Z", False)]
)
def test_numbers_before_1990_are_no_times(time: str, early: bool, tmp_path: Path) -> None:
    file = tmp_path / "people.csv"
    file.write_text(f"v,month\n1,{time}\n")
    read = functools.partial(read_people, str(file), PeopleColumns("v", time="month"), Numeric(0, 1))
    if not early:
        assert read().times == [481_593_600_000]
        return
    with pytest.raises(UserError, match=rf"'month' has times such as '{time}': a number is in milliseconds"):
        read()


# An output folder that already holds another run's: exit 2, unless --overwrite or the same run.
def test_another_runs_outputs_are_not_replaced_unless_asked(
    good: Path, small_text: str, tmp_path: Path, run_estimate: Any
) -> None:
    # The name may look like a pattern.
    folder = tmp_path / "november [2]"
    first = run_estimate(folder, small_text, [good])
    again = run_estimate(folder, small_text, [good])
    assert (first.code, again.code) == (0, 0)
    assert again.estimates == first.estimates != []
    before = {path: path.read_bytes() for path in again.path.rglob("*") if path.is_file()}
    other = small_text + "windows: {size: 1h}\n"
    refused = run_estimate(folder, other, [good])
    assert (refused.code, refused.out) == (2, "")
    assert "it holds the outputs of another run (of study 'small'); name another folder" in refused.err
    assert "--overwrite" in refused.err
    assert {path: path.read_bytes() for path in again.path.rglob("*") if path.is_file()} == before
    replaced = run_estimate(folder, other, [good], "--overwrite")
    assert replaced.code == 0
    assert [s.window for s in replaced.snapshots] == [(NOW, NOW + 3_600_000)], (
        "nothing of the run before is left"
    )
