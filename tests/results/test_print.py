"""The page on paper, and its colours: what is printed is light, whole and named."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ldpbeam.answers.results import Results, RunResults
from ldpbeam.charts.figures import COLOURS
from ldpbeam.results.page.contents import content_of
from ldpbeam.results.page.html import asset, page
from ldpbeam.schemas.outputs.records import EstimateRecord, RunRecord

NAME = "minutes waited"
GROUPS = [f"group {place:02}" for place in range(12)]


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory, chromium: Any) -> Path:
    """The page of two estimates in twelve groups, opened in the dark theme and printed."""
    if shutil.which("pdftotext") is None:
        missing = "there is no pdftotext: apt-get install poppler-utils"
        if os.environ.get("LDPBEAM_REQUIRE_INTEGRATION") == "1":
            pytest.fail(missing, pytrace=False)
        pytest.skip(missing)
    folder = tmp_path_factory.mktemp("printed")
    about = RunRecord(study="waits", study_fingerprint="0" * 32, run="1", input=("in",))
    # The first attribute has groups, and the second one none.
    estimates = tuple(
        EstimateRecord(
            study="waits", attribute=NAME if group else "other", name=name, estimator="em", services=("app",),
            reports=100 - place, converged=True, n_iterations=1, group=group,
            bucket_edges=(0.0, 1.0, 2.0, 3.0, 4.0), distribution=(0.1, 0.2, 0.3, 0.4),
        )
        for place, group in enumerate([*GROUPS, None])
        for name in ("first", "second")
    )  # fmt: skip
    run = RunResults(about, "out", True, None, (), None)
    results = Results("out", "batch", about, lambda: (None, ""), (run,), estimates)
    (folder / "report.html").write_text(page([content_of(results, {})]), encoding="utf-8")
    context = chromium.new_context(viewport={"width": 1280, "height": 900}, color_scheme="dark")
    view = context.new_page()
    view.goto((folder / "report.html").as_uri())
    view.pdf(path=folder / "page.pdf", width="210mm", height="297mm")
    context.close()
    return folder / "page.pdf"


def test_a_chart_is_whole_on_one_page_of_paper_with_its_title(printed: Path) -> None:
    text = subprocess.run(["pdftotext", "-raw", printed, "-"], check=True, capture_output=True, text=True)
    pages = text.stdout.split("\f")[:-1]
    of_groups = [[name for name in GROUPS if name in own] for own in pages]
    title = f"Distribution of {NAME}"
    # Twelve lanes: two estimates of the largest six.
    assert [(names, title in own) for names, own in zip(of_groups, pages, strict=True) if title in own] == [
        (GROUPS[:6], True)
    ]


def test_paper_is_light(printed: Path) -> None:
    drawn = subprocess.run(["pdftoppm", "-r", "144", printed], check=True, capture_output=True).stdout
    # Every page has one header, as in "P6\n595 842\n255\n", and one size.
    header = b"\n".join(drawn.split(b"\n", 3)[:3]) + b"\n"
    width, height = map(int, header.split()[1:3])
    pages = np.frombuffer(drawn, np.uint8).reshape(-1, len(header) + 3 * width * height)
    image = pages[:, len(header) :].reshape(-1, width, 3)
    # A dark theme is no reason for dark paper.
    assert (image[:, 0] == 255).all()
    assert (image.mean(axis=2) > 200).mean() > 0.8


def test_no_two_colours_of_a_theme_are_alike() -> None:
    themes = [re.findall(r"--c\d: (#\w{6});", own) for own in re.findall(r"--c0.*", asset("page.css"))[:2]]
    assert tuple(themes[0]) == COLOURS
    assert [len({*theme}) for theme in themes] == [8, 8]
    for theme in themes:
        for one, other in itertools.combinations(map(_coded, theme), 2):
            # Of 441 between black and white; the nearest two of Okabe and Ito are 67 apart.
            assert np.linalg.norm(255 * (one - other)) > 60


def test_every_text_stands_out_from_what_is_behind_it() -> None:
    themes = [
        dict(re.findall(r"--([a-z-]+): (#\w{6});", own))
        for own in re.findall(r":root {(.*?)}", asset("page.css"), re.DOTALL)
    ]
    assert len(themes) == 2
    for theme in themes:
        for text, behind in itertools.product(
            ("ink", "soft", "accent", "warn"), ("paper", "card", "warn-paper")
        ):
            light, dark = sorted((_luminance(theme[name]) for name in (text, behind)), reverse=True)
            # WCAG 2.2, 1.4.3: small text has a contrast of at least 4.5.
            assert (light + 0.05) / (dark + 0.05) >= 4.5, (text, behind)


def _luminance(colour: str) -> float:
    coded = _coded(colour)
    linear = np.where(coded <= 0.04045, coded / 12.92, ((coded + 0.055) / 1.055) ** 2.4)
    return float(linear @ (0.2126, 0.7152, 0.0722))


def _coded(colour: str) -> Any:
    """Red, green and blue from 0 to 1."""
    return np.array([int(colour[place : place + 2], 16) for place in (1, 3, 5)]) / 255
