"""The commands and the Python of the documents: each is parsed, and run unless it needs what is not here."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.registries import fresh

from ldpbeam.command_line.catalogue import COMMANDS
from ldpbeam.command_line.main import main
from ldpbeam.estimators import registry as of_estimators
from ldpbeam.mechanisms import registry as of_mechanisms

ROOT = Path(__file__).parents[2]
PAGES = [
    page
    for page in sorted(
        [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "runners").rglob("*.md")]
    )
    if "decisions" not in page.parts
]
#: What cannot run in a test: a text of the command, and why.
NOT_RUN = {
    "projects/P/": "needs a subscription of Google Cloud",
    "gs://": "needs a bucket of Google Cloud",
    "host:8081": "needs a Flink cluster",
    "localhost:9092": "needs a Kafka broker; tests/integration/test_stream_metrics.py runs one with a broker",
    "ldpbeam evaluate": "takes minutes; tests/planning/test_evaluate.py runs smaller ones",
    "--again": "needs dead letters that were kept; tests/pipelines/test_again.py reads some",
    "reports.parquet --column": "needs weeks; tests/answers/test_before_after.py has some",
    "2026-03-23": "compares those weeks",
    "ldpbeam tidy": "needs the folder of a stream; tests/pipelines/test_tidy.py makes one",
    "$((": "is the body of a loop; the same command with times runs at the top of its page",
}
#: The pages whose Python is only compiled here, and why.
PYTHON_NOT_RUN = {
    "README.md": "a test below runs it in an empty folder",
    "docs/beam.md": "tests/beam/test_beam_document.py runs it",
    "docs/library.md": "tests/library/test_library_documents.py runs it",
    "docs/scheduling.md": "needs Airflow",
    "docs/tables.md": "tests/pipelines/test_table_examples.py runs it",
}
#: The pages that a newcomer types from the top into an empty folder, and the heading at which that ends.
FIRST_PAGES = {"README.md": "## From a checkout", "docs/first-study.md": None}
STUDY_OF_DRINKS = """\
study: drinks
attributes:
  drink:
    domain: {categories: [tea, coffee, water]}
    services: {app: {mechanism: grr, epsilon: 1.0}}
    estimates: {shares: {estimator: auto}}
"""


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of a page whose language matches a pattern."""
    text = page.read_text(encoding="utf-8")
    # Every block is taken, so that the end of one is not the start of the next.
    found = re.findall(r"^(```[^\n]*)\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)
    return [body for opening, body in found if re.fullmatch(language, opening)]


def commands(page: Path) -> list[str]:
    """The commands of ldpbeam in a page's blocks, each in one line."""
    text = "\n".join(blocks(page, "```(?:sh|bash|console)?")).replace("\\\n", " ")
    lines = (line.strip().removeprefix("$ ") for line in text.splitlines())
    return [
        re.split(r" +# | > (?=[^']*$)| \|\| ", line)[0] for line in lines if re.match(r"ldpbeam [a-z]", line)
    ]


def all_commands() -> list[Any]:
    return [
        pytest.param(command, id=f"{page.relative_to(ROOT)}: {command[:60]}")
        for page in PAGES
        for command in commands(page)
        if COMMANDS.get(command.split()[1])
    ]


def names(pages: list[Path]) -> list[str]:
    return [str(page.relative_to(ROOT)) for page in pages]


@pytest.mark.parametrize("command", all_commands())
def test_a_command_of_the_documents_is_parsed(command: str) -> None:
    plain = re.sub(r"\$\(\((?:[^()]|\([^()]*\))*\)\)", "1793491200000", command)
    _, name, *arguments = shlex.split(plain.replace("...", ""))
    parser = COMMANDS[name].parser()
    if "..." in command:
        assert {a.partition("=")[0] for a in arguments if a.startswith("--")} <= set(parser.options)
    elif COMMANDS[name].takes_beams:
        parser.parse_with_beam(arguments)
    else:
        parser.parse(arguments)


@pytest.mark.parametrize("page", names(PAGES))
def test_a_command_that_a_sentence_names_exists_with_its_options(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for name, rest in re.findall(r"`ldpbeam ([a-z][a-z-]*)([^`]*)`", text):
        assert name in COMMANDS, name
        named = re.findall(r"(?<= )--[a-z-]+", rest)
        if not COMMANDS[name].takes_beams:
            assert set(named) <= set(COMMANDS[name].parser().options), rest


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that the documents speak of: studies, people, reports and their estimates."""
    folder = tmp_path_factory.mktemp("given")
    shutil.copy(ROOT / "examples/commute/study.yaml", folder)
    (folder / "drinks.yaml").write_text(STUDY_OF_DRINKS)
    rng = np.random.default_rng(1)
    minutes = (180 * rng.beta(2, 5, 200)).round(2)
    lines = [
        f"p{place},{value},2026-11-20T10:{place % 60:02}:00Z,{['tea', 'coffee', 'water'][place % 3]},{place}"
        for place, value in enumerate(minutes)
    ]
    (folder / "people.csv").write_text("\n".join(["user,minutes,left,drink,price", *lines, ""]))
    prices = "\n".join(str(price) for price in (18_000 * rng.beta(1, 4, 200)).round() + 400)
    (folder / "diamonds.csv").write_text(f"price\n{prices}\n")
    perturb = (
        "perturb --study {0}/study.yaml --attribute minutes --input {0}/people.csv --value-column minutes "
        "--user-column user --time-column left --output {0}/reports --seed 1"
    )
    estimate = "estimate --study {0}/study.yaml --input {0}/reports/* --output {0}/out"
    for command in (perturb, estimate):
        assert main(command.format(folder).split()) == 0
    return folder


@pytest.fixture
def here(given: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Goes to a copy of the given files, without some of them."""

    def go(*without: str) -> None:
        shutil.copytree(given, tmp_path / "here", ignore=shutil.ignore_patterns(*without))
        (tmp_path / "here" / "examples").symlink_to(ROOT / "examples")
        monkeypatch.chdir(tmp_path / "here")

    return go


def runs(command: str) -> bool:
    return not any(text in command for text in NOT_RUN)


@pytest.mark.slow
@pytest.mark.parametrize("page", FIRST_PAGES)
def test_a_first_page_runs_as_it_is_typed_in_an_empty_folder(page: str, tmp_path: Path) -> None:
    pytest.importorskip("altair")
    text = (ROOT / page).read_text(encoding="utf-8").partition(FIRST_PAGES[page] or "\0")[0]
    typed = re.findall(r"^```(\w*)\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)
    # The wheel is installed by tests/test_packages.py.
    typed = [(language, block) for language, block in typed if language != "text" and "pip " not in block]
    assert len(typed) > 1
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for language, block in typed:
        program = [sys.executable, "-"] if language == "python" else ["sh", "-eu"]
        ran = subprocess.run(
            program, input=block, cwd=tmp_path, env={**os.environ, "PATH": path}, capture_output=True,
            text=True,
        )  # fmt: skip
        assert ran.returncode == 0, (block, ran.stdout, ran.stderr)
    accounting = json.loads((tmp_path / "out" / "accounting.json").read_text())
    assert accounting["in"] == accounting["used"] == 20_000
    assert (tmp_path / "report.html").stat().st_size > 10_000


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    names([page for page in PAGES if any(map(runs, commands(page))) and page.name != "first-study.md"]),
)
def test_the_commands_of_a_page_run(page: str, here: Any) -> None:
    lines = [command for command in commands(ROOT / page) if runs(command)]
    written = {"ldpbeam init": "study.yaml", "ldpbeam perturb": "reports", "ldpbeam estimate": "out"}
    here(*{folder for start, folder in written.items() if any(line.startswith(start) for line in lines)})
    for command in lines:
        assert main(shlex.split(command)[1:]) == 0, command


def test_everything_that_is_not_run_is_in_a_document() -> None:
    everything = [command for page in PAGES for command in commands(page)]
    for text in NOT_RUN:
        assert any(text in command for command in everything), text
    with_python = [page for page in PAGES if blocks(page, "```python")]
    assert set(PYTHON_NOT_RUN) <= set(names(with_python))


@pytest.mark.slow
@pytest.mark.parametrize("page", names([page for page in PAGES if blocks(page, "```python")]))
def test_the_python_of_a_page_runs(page: str, here: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    if page in PYTHON_NOT_RUN:
        for block in blocks(ROOT / page, "```python"):
            compile(block, page, "exec")
        return
    here()
    # What a page adds is not known to the tests that come after it.
    for registry in (of_mechanisms, of_estimators):
        monkeypatch.setattr(registry, "_REGISTRY", fresh(registry._REGISTRY))
    known: dict[str, object] = {"__name__": "__main__"}
    for block in blocks(ROOT / page, "```python"):
        exec(block, known)
