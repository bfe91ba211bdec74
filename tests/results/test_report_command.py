"""``ldpbeam report`` without a browser: what it refuses, the truth, images, and the page of a stream."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from support.output_folders import stream_folder
from support.studies import SMALL

from ldpbeam.folders.read import read_results
from ldpbeam.results.page import contents
from ldpbeam.results.page import writing as write
from ldpbeam.schemas.study.yaml_file import parse_study


@pytest.fixture(scope="module")
def small(
    tmp_path_factory: pytest.TempPathFactory,
    run_estimate: Any,
    simulate: Any,
    write_reports: Any,
    make_people: Any,
) -> Path:
    """A run of four people, whose values are known, and a file of them."""
    folder = tmp_path_factory.mktemp("small")
    values = [0.1, 0.1, 0.3, 0.9]
    sent = simulate(parse_study(SMALL), "x", values, users=list("abcd"))
    assert run_estimate(folder, SMALL, write_reports(folder / "reports", sent)).code == 0
    make_people(folder / "people.csv", values)
    return folder


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["nowhere"], "nowhere: there is no such folder"),
        (["OUT", "-o", "OUT"], "output"),
        (
            ["OUT", "--truth", "PEOPLE", "--value-column", "value", "--attribute", "y"],
            "--attribute y: the study has no such attribute; there are: x",
        ),
        (["OUT", "--value-column", "value"], "--value-column: these name columns of the file in --truth"),
    ],
)
def test_mistakes_are_refused_with_a_sentence(
    small: Path,
    tmp_path: Path,
    command: Any,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    problem: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    given = {"OUT": small / "output", "PEOPLE": small / "people.csv"}
    ran = command("report", *(given.get(argument, argument) for argument in arguments))
    assert ran.code == 2
    assert ran.err.startswith("ldpbeam: ")
    assert problem in ran.err
    assert list(tmp_path.iterdir()) == []


def test_totals_of_groups_are_compared_with_everybody(
    tmp_path: Path, run_estimate: Any, simulate: Any, write_reports: Any, command: Any
) -> None:
    text = SMALL + "groups: {field: region}\n"
    values, regions = [0.1, 0.1, 0.3, 0.9], ["n", "n", "s", "s"]
    sent = simulate(parse_study(text), "x", values, users=list("abcd"), groups=regions)
    assert run_estimate(tmp_path, text, write_reports(tmp_path / "reports", sent)).code == 0
    rows = [f"{value},{region}" for value, region in zip(values, regions, strict=True)]
    (tmp_path / "people.csv").write_text("\n".join(["value,region", *rows, "0.5,"]))
    groups, total, page = tmp_path / "output", tmp_path / "total", tmp_path / "report.html"
    given = ["--statistics", groups / "statistics" / "*.avro", "--study", tmp_path / "study.yaml"]
    rolled = command("rollup", *given, "--total", "--output", total)
    assert rolled.code == 0, rolled.err
    truth = ["--truth", tmp_path / "people.csv", "--value-column", "value"]
    ran = command("report", total, "-o", page, *truth, "--group-column", "region")
    sentence = f"--group-column: the estimates in {total} are of all groups together: leave the option out"
    assert (ran.code, ran.err) == (2, f"ldpbeam: {sentence}\n")
    both = command("report", groups, total, "-o", page, *truth, "--group-column", "region")
    assert both.err == f"ldpbeam: {sentence}, and make a page for each folder\n"
    assert command("report", groups, "-o", page, *truth, "--group-column", "region").code == 0
    assert command("report", total, "-o", page, *truth).code == 0
    assert "Dashed: the truth." in page.read_text()


def test_without_the_extra_the_message_names_it(
    small: Path, command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    ran = command("report", small / "output")
    assert (ran.code, ran.err) == (
        2,
        "ldpbeam: the page needs the extra [report]: pip install 'ldpbeam[report]'\n",
    )


def test_the_page_of_a_stream_is_written_as_windows_close(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, page = stream_folder(tmp_path / "out"), tmp_path / "report.html"
    later = [path for path in (folder / "estimates").iterdir() if "run-2" in path.name]
    later += (folder / "runs").glob("*run-2*/fit")
    for path in later:
        path.rename(tmp_path / path.name)
    pages, written = [], threading.Event()
    write_page = write.write_page

    def recorded(*arguments: Any, **named: Any) -> tuple[int, list[str]]:
        made = write_page(*arguments, **named)
        pages.append(page.read_text())
        if len(pages) == 2:
            written.set()
        return made

    monkeypatch.setattr(write, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(write, "write_page", recorded)
    with write.kept_current(str(page), str(folder)):
        assert len(pages) == 1
        for path in later:
            (tmp_path / path.name).rename(path)
        written.wait(60)
    assert [window in pages[0] for window in ("12:00\u201313:00", "10:00\u201311:00")] == [False, True]
    assert "12:00\u201313:00" in pages[-1]
    reloads = ['http-equiv="refresh"' in text for text in pages]
    assert reloads == [True] * (len(pages) - 1) + [False]


def test_a_stream_goes_on_when_its_page_cannot_be_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, page = stream_folder(tmp_path / "out"), tmp_path / "pages" / "report.html"
    with write.kept_current(str(page), str(folder)):
        page.unlink()
        page.mkdir()
    assert "the page was not written" in capsys.readouterr().err


def test_a_page_of_many_attributes_has_charts_of_the_first_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = read_results(str(stream_folder(tmp_path / "out")))
    for most, charts in ((1, True), (0, False)):
        monkeypatch.setattr(contents, "MOST_CHARTED", most)
        (chapter,) = contents.content_of(results, {}).chapters
        assert bool(chapter.figures) is charts
        assert ("charts are left out" in chapter.note) is not charts
        assert chapter.answer is not None and chapter.estimates.rows
