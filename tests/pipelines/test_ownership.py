"""Whose an output folder is after one run, and what the next run is told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.studies import SMALL

from ldpbeam.pipelines.errors import UserError
from ldpbeam.pipelines.runs.output import Output
from ldpbeam.pipelines.runs.ownership import NOBODY, SCHEDULED_RUNS, STREAMS, Sharing, owned, owner
from ldpbeam.schemas.study.yaml_file import parse_study

STUDY, CHANGED = parse_study(SMALL), parse_study(SMALL.replace("epsilon: 2.0", "epsilon: 1.0"))
OTHER = parse_study(SMALL.replace("study: small", "study: other"))
REPLACE = "; name another folder, or replace them with --overwrite"
ANOTHER = f"the outputs of another run (of study 'small'){REPLACE}"
NOT_SCHEDULED = f"the outputs of another run (of study 'small'), which was not a scheduled one{REPLACE}"
SCHEDULED = "the scheduled runs of study 'small'"
NOT_ONE = f"{SCHEDULED}, and this run is not one of them: it has no windows, --from or --to{REPLACE}"
STREAMED = "other outputs (of study 'small', or another version of this one); name another folder"


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
        (SCHEDULED_RUNS, f"{SCHEDULED} as it was before it was changed{REPLACE}"),
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
    with pytest.raises(ZeroDivisionError), owned(Output(STUDY, str(tmp_path), "a"), NOBODY, inputs=["in/*"]):
        raise ZeroDivisionError
    assert json.loads(mark.read_text())["complete"] is False
    take(Output(STUDY, str(tmp_path), "a"), NOBODY)
    assert json.loads(mark.read_text())["complete"] is True
