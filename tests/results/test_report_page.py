"""``ldpbeam report`` in a real browser: it draws every chart, asks for nothing, and fits a phone."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

KINDS = ("area", "line", "rect", "symbol", "rule")
TWO_MB = 2_000_000
#: The charts of ``EVERYTHING`` by window and group: 2 windows and 2 groups (the other ones are one).
TITLES = [
    "Mean minutes over time",
    "Distribution of minutes",
    "Shares of transport over time",
    "Shares of transport",
    "Who has which key of rating, over time",
    "Who has which key of rating",
    "Mean rating of each key",
    "Mean pulse.rest over time",
    "Mean pulse.run over time",
]


@pytest.fixture(scope="module")
def pages(
    tmp_path_factory: pytest.TempPathFactory, command: Callable[..., Any], folders: dict[str, Path]
) -> dict[str, Path]:
    """The page of an output folder of each kind of run."""
    made = {}
    for kind, folder in folders.items():
        made[kind] = tmp_path_factory.mktemp("pages") / f"{kind}.html"
        ran = command("report", folder, "-o", made[kind])
        assert ran.code == 0, ran.err
        assert ran.out.startswith(f"{made[kind]}: ")
    return made


@pytest.mark.parametrize(
    ("kind", "width", "scheme"),
    [
        ("batch", 400, "dark"),
        ("scheduled", 1280, "light"),
        ("rollup", 400, "light"),
        ("stream", 1280, "dark"),
    ],
)
def test_every_kind_of_output_is_drawn_without_a_request(
    pages: dict[str, Path], open_page: Callable[..., Any], kind: str, width: int, scheme: str
) -> None:
    opened = open_page(pages[kind], width, scheme)
    assert opened.requests == [pages[kind].as_uri()]
    assert opened.said == []
    assert opened.overflow <= 0
    assert pages[kind].stat().st_size < TWO_MB
    for chart in opened.page.locator("[data-chart]").all():
        assert chart.bounding_box()["width"] <= width
        told = chart.locator("[role=graphics-document]").get_attribute("aria-label")
        assert told == chart.get_attribute("data-description")


def test_the_marks_are_those_of_the_estimates(pages: dict[str, Path], open_page: Callable[..., Any]) -> None:
    page = open_page(pages["batch"]).page
    figures = page.locator("figure")
    assert figures.locator("h3").all_inner_texts() == TITLES
    counted = {
        title: [
            {name: chart.locator(f"g.mark-{name}.role-mark > *").count() for name in KINDS}
            for chart in figures.nth(place).locator("[data-chart]").all()
        ]
        for place, title in enumerate(TITLES)
    }
    # 2 means: a band, two lines, and a mark in each of two windows.
    assert counted["Mean minutes over time"] == 2 * [
        {"area": 1, "line": 2, "rect": 0, "symbol": 4, "rule": 0}
    ]
    # The area of one estimate and its line, the two edges of its flagged band, 8 buckets to point at, and the
    # line of zero. The strip has a rule for the middle half, one for the middle nine tenths, and a tick.
    drawn = {"area": 1, "line": 1 + 2, "rect": 8 + 1, "symbol": 0, "rule": 1 + 2}
    assert counted["Distribution of minutes"] == 4 * [drawn]
    # 3 categories and 2 keys, each with an interval.
    assert [(p["rect"], p["symbol"]) for p in counted["Shares of transport"]] == 4 * [(3, 0)]
    assert [p["symbol"] for p in counted["Who has which key of rating"]] == 4 * [2]
    assert len(counted["Mean pulse.run over time"]) == 2


def test_a_page_says_where_its_numbers_come_from(
    pages: dict[str, Path], open_page: Callable[..., Any]
) -> None:
    page = open_page(pages["batch"]).page
    folded = page.locator("main").inner_text()
    assert "1 report could not be used" in folded
    # What the study does is folded away, under a line that says how much there is.
    assert "Study 'everything' estimates" not in folded
    plumbing = page.get_by_text(re.compile(r"^What the study does, in \d+ sentences$"))
    plumbing.press("Enter")
    text = page.locator("main").inner_text()
    assert "`" not in text
    assert page.locator("code", has_text="ldpbeam rollup").count() == 1
    assert "1. Study 'everything' estimates 4 attributes" not in text  # the list has numbers of its own
    assert "Study 'everything' estimates 4 attributes" in text
    assert "no user id" in text
    assert "every one is accounted for" in text
    assert "A user who reports 'minutes' to every service spends epsilon 4 in all, per window" in text


def test_early_and_incomplete_windows_are_marked(
    pages: dict[str, Path], open_page: Callable[..., Any]
) -> None:
    page = open_page(pages["stream"]).page
    lines = page.locator("figure").first
    assert "Open marks are windows that are early or incomplete" in lines.locator(".caption").inner_text()
    whole, opened = lines.locator("g.mark-symbol.role-mark").all()
    # Two estimates in three windows: the first is complete, the second may lack reports, the third is early.
    assert (whole.locator("path").count(), opened.locator("path").count()) == (2, 4)
    assert {mark.get_attribute("fill") for mark in opened.locator("path").all()} == {"transparent"}
    notes = page.locator(".note").all_inner_texts()
    assert [note.partition(":")[0] for note in notes] == ["incomplete", "early"]
    warnings = page.locator(".warnings").inner_text()
    assert "1 of 3 windows had not closed" in warnings
    assert "1 of 3 windows may lack reports" in warnings
    assert "1 window has reports of several runs" in warnings


def test_the_theme_follows_the_system_and_the_switch(
    pages: dict[str, Path], open_page: Callable[..., Any]
) -> None:
    page = open_page(pages["stream"], scheme="dark").page
    chart, button = page.locator("[data-chart]").first, page.locator("#theme")
    back = chart.locator("svg.marks").evaluate("svg => getComputedStyle(svg).backgroundColor")
    assert back == "rgb(28, 32, 38)"
    assert button.inner_text() == "Light"
    button.press("Enter")
    page.locator("[data-chart][data-drawn=light]").first.wait_for()
    assert (
        chart.locator("svg.marks").evaluate("svg => getComputedStyle(svg).backgroundColor")
        == "rgb(255, 255, 255)"
    )
    assert button.inner_text() == "Dark"


def test_the_keyboard_reaches_every_table(pages: dict[str, Path], open_page: Callable[..., Any]) -> None:
    page = open_page(pages["stream"]).page
    reached = []
    while len(reached) < 2 or reached[-1] != reached[0]:
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.innerText || document.activeElement.ariaLabel"))
        assert len(reached) < 60
    assert reached[:2] == ["Skip to the estimates", "Dark"]
    assert reached.count("The numbers of this chart") == page.locator("figure").count() == 2
    first = page.locator("figure details").filter(has_text="The numbers of this chart").first
    first.locator(":scope > summary").press("Enter")
    rows = first.locator("tbody tr").all_inner_texts()
    assert len(rows) == 3
    assert [row.split("\t")[-1].strip() for row in rows] == ["complete", "incomplete", "early"]


def test_no_word_of_a_table_is_broken(pages: dict[str, Path], open_page: Callable[..., Any]) -> None:
    broken = """() => {
        document.querySelectorAll("details").forEach((own) => { own.open = true; });
        const found = [];
        for (const cell of document.querySelectorAll(".scroll :is(td, th)")) {
            const text = cell.firstChild;
            for (const word of text ? text.data.matchAll(/\\w+/g) : []) {
                const range = document.createRange();
                range.setStart(text, word.index);
                range.setEnd(text, word.index + word[0].length);
                if (range.getClientRects().length > 1) found.push(word[0]);
            }
        }
        return found;
    }"""
    opened = open_page(pages["batch"])
    assert opened.page.evaluate(broken) == []
    assert opened.page.get_by_text("fits its mechanism").count() > 0
    assert opened.overflow <= 0


def test_charts_are_saved_as_images(pages: dict[str, Path], open_page: Callable[..., Any]) -> None:
    page = open_page(pages["stream"]).page
    menu = page.locator("[data-chart]").first.locator("details")
    assert menu.locator("summary").get_attribute("aria-label").startswith("Save Mean x over time")
    menu.locator("summary").click()
    for link, start in (("Save as SVG", b"<svg"), ("Save as PNG", b"\x89PNG")):
        with page.expect_download() as started:
            menu.get_by_text(link).click()
        assert started.value.suggested_filename.startswith("mean-x-over-time-1.")
        assert Path(started.value.path()).read_bytes().startswith(start)


def test_the_policy_of_a_page_allows_its_only_script(pages: dict[str, Path]) -> None:
    text = pages["batch"].read_text()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    assert "default-src 'none'" in policy[1]
    assert "unsafe-eval" not in policy[1]
    assert text.count("<script") == 2
    (data,) = re.findall(r'<script type="application/json" id="figures">(.*?)</script>', text, re.DOTALL)
    assert len(json.loads(data)) == len(TITLES)
