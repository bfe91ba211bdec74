"""What the documents say is so: test vectors, studies, links, and the numbers of the README."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ldpbeam import Categories, Numeric, build_mechanism
from ldpbeam.domains import Floats
from ldpbeam.pipelines.main import main
from ldpbeam.schemas.study_file import parse_study, read_study

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
REPORTS = (ROOT / "docs" / "reports.md").read_text(encoding="utf-8")
VECTORS = re.findall(
    r"^\| `(\w+)` \| (\S+) \| (\S+) \| (\S+) \| (\S+) \| (\S+) \|$", REPORTS, flags=re.MULTILINE
)
DIAMONDS = ROOT.parent / "shared" / "data" / "diamonds.csv"


class Given:
    """A source of draws that are given."""

    def __init__(self, draws: list[float]) -> None:
        self.draws = draws

    def random(self, size: int) -> Floats:
        return np.full(size, self.draws.pop(0))


def test_every_mechanism_has_test_vectors() -> None:
    from ldpbeam import registered_mechanisms

    assert {name for name, *_ in VECTORS} == set(registered_mechanisms())


@pytest.mark.parametrize("vector", VECTORS, ids=" ".join)
def test_a_client_that_draws_as_given_sends_the_report_of_the_document(vector: Any) -> None:
    name, epsilon, value, one, other, expected = vector
    domain = Categories(tuple("abcde")) if name == "grr" else Numeric(0, 1)
    mechanism = build_mechanism(name, domain, float(epsilon))
    draws = [float(draw) for draw in (one, other) if draw != "-"]
    report = mechanism.perturb(np.array([float(value)]), Given(draws))
    assert f"{report[0]:.9g}" == expected


def test_every_reason_of_a_dead_letter_is_documented() -> None:
    from ldpbeam.transforms import read, validate

    for reason in (*validate.REASONS[1:], read.BAD_FILE, read.CORRUPT_BLOCK, read.NOT_JSON):
        assert f"`{reason}`" in REPORTS


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        assert target.startswith("http") or (document.parent / target).exists(), target


def test_the_guides_study_is_the_examples_and_it_runs() -> None:
    (block, *_) = re.findall(r"```yaml\n(study: .*?)```", (ROOT / "docs" / "guide.md").read_text(), re.DOTALL)
    assert block == (ROOT / "examples" / "commute" / "study.yaml").read_text()
    assert parse_study(block).study == "commute"


@pytest.mark.parametrize(
    "path", sorted(ROOT.glob("examples/*/study.yaml")), ids=lambda path: path.parent.name
)
def test_every_example_is_a_study(path: Path) -> None:
    read_study(path)


@pytest.mark.slow
@pytest.mark.skipif(not DIAMONDS.exists(), reason="needs the table of diamonds, which is not in the project")
def test_the_readmes_numbers_come_from_the_readmes_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```\n(\$ ldpbeam perturb.*?)```", text, re.DOTALL)
    head, table = block.split("\nattribute", 1)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "diamonds.csv").symlink_to(DIAMONDS)
    for command in head.replace("\\\n", " ").removeprefix("$ ").split("\n$ "):
        assert main(shlex.split(command)[1:]) == 0
    printed = capsys.readouterr().out
    for line in f"attribute{table}".splitlines():
        assert line.split() in [shown.split() for shown in printed.splitlines()], line
