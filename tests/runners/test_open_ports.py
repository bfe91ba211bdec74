"""Engines that Beam itself would start where other machines reach them need the user's word."""

from __future__ import annotations

from pathlib import Path

import pytest

from ldpbeam.errors import UserError
from ldpbeam.runners.engines import engine_of
from ldpbeam.runners.request import EngineRequest


@pytest.mark.parametrize("runner", ["DirectRunner", "FlinkRunner"])
def test_engines_that_beam_would_start_with_open_ports(
    runner: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = f"--runner {runner}: what Beam starts here for it (a job server,"
    with pytest.raises(UserError) as caught:
        engine_of(EngineRequest(runner), tmp_path)
    assert str(caught.value).startswith(said) and "--allow-open-ports" in str(caught.value)
    engine_of(EngineRequest(runner, allow_open_ports=True), tmp_path)
    assert capsys.readouterr().err.startswith("ldpbeam: what Beam starts here for it")


def test_an_engine_of_one_process_needs_no_word(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    engine_of(EngineRequest("FnApiRunner"), tmp_path)
    assert capsys.readouterr().err == ""
