"""Whose an output folder is after one run, and what the next run is told."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from support.studies import SMALL

from ldpbeam.errors import UserError
from ldpbeam.folders.output import Output
from ldpbeam.pipelines.runs import ownership
from ldpbeam.pipelines.runs.ownership import NOBODY, SCHEDULED_RUNS, STREAMS, Sharing, owned, owner
from ldpbeam.schemas.study.yaml_file import parse_study

STUDY, CHANGED = parse_study(SMALL), parse_study(SMALL.replace("epsilon: 2.0", "epsilon: 1.0"))
OTHER = parse_study(SMALL.replace("study: small", "study: other"))
REPLACE = "; name another folder, or replace them with --overwrite"
ANOTHER = f"the outputs of another run (of study 'small'){REPLACE}"
NOT_SCHEDULED = f"the outputs of another run (of study 'small'), which was not a scheduled one{REPLACE}"
SCHEDULED = "the scheduled runs of study 'small'"
NOT_ONE = f"{SCHEDULED}, and this run is not one of them: it has no windows, --from or --to{REPLACE}"
STREAMED = "outputs of another kind of run, study or version (of study 'small'); name another folder"


def take(job: Output, sharing: Sharing, overwrite: bool = False) -> None:
    with owned(job, sharing, overwrite=overwrite):
        pass


@pytest.mark.parametrize(
    ("first", "second", "run", "said"),
    [
        (NOBODY, NOBODY, "a", None),
        (NOBODY, NOBODY, "b", ANOTHER),
        (NOBODY, SCHEDULED_RUNS, "a", NOT_SCHEDULED),
        (NOBODY, STREAMS, "a", STREAMED),
        (SCHEDULED_RUNS, NOBODY, "a", NOT_ONE),
        (SCHEDULED_RUNS, SCHEDULED_RUNS, "a", None),
        (SCHEDULED_RUNS, STREAMS, "a", STREAMED),
        (STREAMS, NOBODY, "a", ANOTHER),
        (STREAMS, SCHEDULED_RUNS, "a", NOT_SCHEDULED),
        (STREAMS, STREAMS, "b", None),
    ],
)
def test_which_run_may_follow_which(
    first: Sharing, second: Sharing, run: str, said: str | None, tmp_path: Path
) -> None:
    take(Output(STUDY, str(tmp_path), "a"), first)
    before = (tmp_path / "run.json").read_bytes()
    if said is None:
        take(Output(STUDY, str(tmp_path), run), second)
    else:
        with pytest.raises(UserError) as found:
            take(Output(STUDY, str(tmp_path), run), second)
        assert str(found.value) == f"--output {tmp_path}: it holds {said}"
    assert (tmp_path / "run.json").read_bytes() == before


@pytest.mark.parametrize(
    ("sharing", "said"),
    [
        (NOBODY, None),  # the name of a run is a hash of its study
        (SCHEDULED_RUNS, f"{SCHEDULED} from before that study was changed{REPLACE}"),
        (STREAMS, STREAMED),
    ],
)
def test_a_study_that_was_changed_is_another(sharing: Sharing, said: str | None, tmp_path: Path) -> None:
    take(Output(STUDY, str(tmp_path), "a"), sharing)
    if said is None:
        assert owner(Output(CHANGED, str(tmp_path), "a"), sharing) == "a"
        return
    with pytest.raises(UserError) as found:
        owner(Output(CHANGED, str(tmp_path), "a"), sharing)
    assert str(found.value) == f"--output {tmp_path}: it holds {said}"


def test_scheduled_runs_of_two_studies_are_told_of_the_first(tmp_path: Path) -> None:
    take(Output(STUDY, str(tmp_path), "a"), SCHEDULED_RUNS)
    with pytest.raises(UserError) as found:
        owner(Output(OTHER, str(tmp_path), "a"), SCHEDULED_RUNS)
    assert str(found.value) == f"--output {tmp_path}: it holds {SCHEDULED}{REPLACE}"


@pytest.mark.parametrize("first", [NOBODY, SCHEDULED_RUNS, STREAMS])
@pytest.mark.parametrize("second", [NOBODY, SCHEDULED_RUNS])
def test_what_is_overwritten_belongs_to_the_next(first: Sharing, second: Sharing, tmp_path: Path) -> None:
    take(Output(OTHER, str(tmp_path), "a"), first)
    (tmp_path / "estimates.jsonl").write_text("{}\n")
    (tmp_path / "letters.txt").write_text("mine")
    own = Output(STUDY, str(tmp_path), "b")
    take(own, second, overwrite=True)
    assert owner(own, second) == "b"
    assert not (tmp_path / "estimates.jsonl").exists()
    assert (tmp_path / "letters.txt").read_text() == "mine"


def test_a_run_alone_is_complete_when_its_block_ends(tmp_path: Path) -> None:
    mark = tmp_path / "run.json"
    with owned(Output(STUDY, str(tmp_path), "a"), NOBODY):
        assert json.loads(mark.read_text())["complete"] is False
    assert json.loads(mark.read_text())["complete"] is True
    with pytest.raises(ZeroDivisionError), owned(Output(STUDY, str(tmp_path), "a"), NOBODY, inputs=["in/*"]):
        raise ZeroDivisionError
    assert json.loads(mark.read_text())["complete"] is False
    take(Output(STUDY, str(tmp_path), "a"), NOBODY)
    assert json.loads(mark.read_text())["complete"] is True


@pytest.mark.parametrize("sharing", [NOBODY, SCHEDULED_RUNS])
def test_what_is_left_of_outputs_that_are_being_replaced_is_of_no_complete_run(
    sharing: Sharing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take(Output(OTHER, str(tmp_path), "a"), NOBODY)

    def killed(job: Output) -> None:
        raise ZeroDivisionError

    own = Output(STUDY, str(tmp_path), "b")
    with monkeypatch.context() as patch, pytest.raises(ZeroDivisionError):
        patch.setattr(ownership, "clear", killed)
        take(own, sharing, overwrite=True)
    mark = tmp_path / "run.json"
    assert not mark.exists() or json.loads(mark.read_text())["complete"] is False
    take(own, sharing, overwrite=True)
    assert owner(own, sharing) == "b"


@pytest.mark.parametrize("name", ["november [2]", "a*b", "what?"])
def test_a_folders_name_may_look_like_a_pattern(name: str, tmp_path: Path) -> None:
    streamed = Output(STUDY, str(tmp_path / "streams" / name), "a")
    take(streamed, STREAMS)
    assert owner(streamed, STREAMS) == ""
    own = Output(STUDY, str(tmp_path / name), "a")
    take(own, NOBODY)
    (tmp_path / name / "estimates.jsonl").write_text("{}\n")
    take(own, NOBODY)
    assert {path.name for path in (tmp_path / name).iterdir()} - {".lock"} == {"run.json", "study.json"}
    assert owner(own, NOBODY) == "a"


@pytest.mark.parametrize("sharing", [NOBODY, SCHEDULED_RUNS, STREAMS])
@pytest.mark.parametrize(
    ("name", "text"), [("thesis.tex", "years of work"), ("run.json", "{"), ("run.json", "[]")]
)
def test_a_folder_with_files_of_no_run_is_nobodys_unless_asked(
    name: str, text: str, sharing: Sharing, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(text)
    own = Output(STUDY, str(tmp_path), "a")
    with pytest.raises(UserError, match="the folder is not empty, and not written by ldpbeam"):
        owner(own, sharing)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [(name, text)]
    if sharing is STREAMS:
        return
    take(own, sharing, overwrite=True)
    assert owner(own, sharing) == "a"
    assert name == "run.json" or (tmp_path / name).read_text() == text


@pytest.mark.parametrize("first", [NOBODY, SCHEDULED_RUNS])
@pytest.mark.parametrize("overwrite", [False, True])
def test_who_replaces_what_is_there_waits_for_whoever_writes(
    first: Sharing, overwrite: bool, tmp_path: Path
) -> None:
    # A roll-up, a run of files and an overwriting scheduled run keep all others out.
    one, other = Output(STUDY, str(tmp_path), "a"), Output(OTHER, str(tmp_path), "b")
    take(one, first)
    with owned(one, first):
        for sharing in (NOBODY, SCHEDULED_RUNS) if overwrite else (NOBODY,):
            with pytest.raises(UserError, match="another run is writing there now"):
                take(other, sharing, overwrite)
    assert owner(one, first) == "a"


@pytest.mark.parametrize("sharing", [NOBODY, SCHEDULED_RUNS, STREAMS])
@pytest.mark.parametrize("output", ["", "foo://x", "file", "file/x"])
def test_an_output_that_cannot_be_a_folder_is_one_sentence(
    output: str, sharing: Sharing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UserError) as caught:
        take(Output(STUDY, output, "a"), sharing)
    assert str(caught.value).startswith(f"--output {output or repr(output)}: ")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("sharing", [SCHEDULED_RUNS, STREAMS])
def test_windows_by_other_rules_of_a_zone_are_not_mixed(sharing: Sharing, tmp_path: Path) -> None:
    """The rules of a zone may change with its package, and with them when windows begin."""
    local = parse_study(f"{SMALL}windows: {{size: 1d, zone: America/Vancouver}}\n")
    assert local.clock is not None
    for index, study in enumerate((local, STUDY)):
        take(Output(study, str(tmp_path / str(index)), "a"), sharing)
        take(Output(study, str(tmp_path / str(index)), "a"), sharing)
    assert "zone_rules" not in json.loads((tmp_path / "1" / "run.json").read_text())
    changed = replace(local, clock=replace(local.clock, changes=local.clock.changes[:-3]))
    with pytest.raises(UserError, match="windows by other rules of America/Vancouver, those of tzdata 20"):
        take(Output(changed, str(tmp_path / "0"), "a"), sharing)
    take(Output(changed, str(tmp_path / "alone"), "a"), NOBODY)
    take(Output(local, str(tmp_path / "alone"), "a"), NOBODY)
