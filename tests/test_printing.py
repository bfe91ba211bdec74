"""stdout is for results: text for people, or JSON and nothing else; everything else is on stderr."""

from __future__ import annotations

import argparse
import io
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from ldpbeam import printing
from ldpbeam.estimators import registered_estimators
from ldpbeam.mechanisms import registered_mechanisms

STUDY = """\
study: s
attributes:
  price:
    domain: {numeric: [0, 100]}
    services: {auction: {mechanism: piecewise, epsilon: 1.0}, shop: {mechanism: square_wave, epsilon: 1.0}}
    estimates: {mean: {estimator: ivw}, all: {estimator: ems, services: [shop]}}
"""


@pytest.fixture
def study(tmp_path: Path) -> Path:
    (tmp_path / "study.yaml").write_text(STUDY)
    lines = ["price,cut", *(f"{10 + i % 50},fine" for i in range(200)), ",fine", "500,good"]
    (tmp_path / "people.csv").write_text("\n".join(lines) + "\n")
    return tmp_path / "study.yaml"


@pytest.fixture
def perturb(command: Any, study: Path) -> Callable[..., Any]:
    """Runs ``ldpbeam perturb`` with further options."""
    folder = study.parent
    return lambda *options: command(
        "perturb", "--study", study, "--attribute", "price", "--value-column", "price", "--input",
        folder / "people.csv", "--output", folder / "reports", "--seed", 1, "--overwrite", *options,
    )  # fmt: skip


def test_perturb_as_json(perturb: Any, study: Path) -> None:
    ran = perturb("--json")
    found = json.loads(ran.out)
    assert [entry["service"] for entry in found["reports"]] == ["auction", "shop"]
    assert [entry["reports"] for entry in found["reports"]] == [201, 201]
    assert all(Path(path).is_file() for entry in found["reports"] for path in entry["files"])
    assert (found["rows_left_out"], found["values_clipped"]) == (1, 1)
    assert "1 row has no usable value" in ran.err
    assert "drawn from a seed" in ran.err


def test_estimate_and_rollup_as_json(perturb: Any, command: Any, study: Path) -> None:
    perturb()
    folder = study.parent
    run = ("estimate", "--study", study, "--input", folder / "reports" / "*", "--output", folder / "out")
    ran = command(*run)
    assert f"estimates, statistics and accounting are in {folder / 'out'}" in ran.out
    assert ran.err == ""
    ran = command(*run, "--json", "--truth", folder / "people.csv", "--value-column", "price")
    printed = json.loads(ran.out)
    lines = (folder / "out" / "estimates.jsonl").read_text().splitlines()
    assert printed["estimates"] == [json.loads(line) for line in lines]
    assert printed["accounting"] == json.loads((folder / "out" / "accounting.json").read_text())
    assert printed["fit"] == {"tests": printed["fit"]["tests"], "flagged": 0}
    assert [sorted(errors) for errors in printed["errors"]] == [
        ["mean"],
        ["jensen_shannon", "kolmogorov_smirnov", "mean", "wasserstein"],
    ]
    merged = ("--statistics", folder / "out" / "statistics" / "*", "--output", folder / "all")
    printed = json.loads(command("rollup", "--study", study, *merged, "--json").out)
    assert (printed["merged"], printed["snapshots"], len(printed["estimates"])) == (1, 1, 2)


@pytest.mark.parametrize(
    ("asked", "said", "printed"),
    [
        ({}, ["note", "warning"], "for people\n"),
        ({"quiet": True}, ["warning"], "for people\n"),
        ({"verbose": True}, ["note", "warning", "reading: 0.0 s", "engine"], "for people\n"),
        ({"json": True, "quiet": True}, ["warning"], '{"a": 1}\n'),
    ],
)
def test_quiet_leaves_out_notes_and_verbose_adds_times_and_what_the_engine_logs(
    asked: dict[str, bool], said: list[str], printed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with printing.printing(argparse.Namespace(**asked)), printing.step("reading"):
        printing.note("a note")
        printing.warn("of something")
        logging.getLogger("apache_beam").info("the engine logs")
        printing.document({"a": 1})
        print("for people")
    out, err = capsys.readouterr()
    assert out == printed
    assert [word for word in ("note", "warning", "reading: 0.0 s", "engine") if word in err] == said


def test_what_there_is_as_json(command: Any, study: Path) -> None:
    for name, known in (("mechanisms", registered_mechanisms()), ("estimators", registered_estimators())):
        found = json.loads(command("explain", f"--{name}", "--json").out)
        assert {entry["name"]: entry["summary"] for entry in found} == {
            name: one.summary for name, one in known.items()
        }
    explained = json.loads(command("explain", "--study", study, "--json").out)
    assert explained["study"] == "s"
    lines = command("explain", "--study", study).out.splitlines()
    assert [f"{i}. {text}" for i, text in enumerate(explained["sentences"], 1)] == lines
    ran = command("doctor", "--json")
    found = json.loads(ran.out)
    assert found["ready"] == (ran.code == 0)
    assert {"what", "found", "advice", "needed"} == set(found["checks"][0])


def test_the_command_after_it_prints_as_it_asks_itself(
    command: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    command("explain", "--mechanisms", "--json")
    assert not command("explain", "--mechanisms").out.startswith("[")
    printing.document({})
    assert not capsys.readouterr().out


def test_progress_is_a_bar_with_a_total_on_a_terminal_and_nothing_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def shown(**settings: Any) -> str:
        out = io.StringIO()
        monkeypatch.setattr(printing, "progress_console", lambda: Console(file=out, width=80, **settings))
        with printing.progress_bar("trials", None) as show:
            show(3, 8)
            show(4, now="a [long] one")
        return out.getvalue()

    bar = shown(force_terminal=True)
    assert "a [long] one" in bar
    assert "4/8" in bar
    assert shown(force_terminal=False) == ""
    assert shown(force_terminal=True, quiet=True) == ""


def test_progress_goes_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    printing.progress_console().print("half")
    assert capsys.readouterr() == ("", "half\n")
