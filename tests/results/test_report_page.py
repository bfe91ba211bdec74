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
    wider = "cards => cards.filter((card) => card.scrollWidth > card.clientWidth).length"
    assert opened.page.locator(".card").evaluate_all(wider) == 0
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
    # Of 2 groups a band, a line, and a mark in each of two windows; and a mark where an interval goes on.
    assert counted["Mean minutes over time"] == [{"area": 2, "line": 2, "rect": 0, "symbol": 5, "rule": 0}]
    # Of 2 groups the area, its line and its band; 8 buckets to point at, and the line of zero. A strip has a
    # rule for the middle half, one for the middle nine tenths, and a tick.
    drawn = [
        {name: panel[name] for name in ("area", "line", "rect", "rule")}
        for panel in counted["Distribution of minutes"]
    ]
    assert drawn == 2 * [{"area": 4, "line": 2, "rect": 8 + 2, "rule": 1 + 4}]
    # In two windows 3 categories and 2 keys, each with an interval of 2 groups.
    assert [panel["rule"] for panel in counted["Shares of transport"]] == 2 * [6]
    assert [panel["rule"] for panel in counted["Who has which key of rating"]] == 2 * [4]
    # Of categories over time each has a panel, with a line for each group.
    assert len(counted["Shares of transport over time"]) == 3
    assert len(counted["Mean pulse.run over time"]) == 1


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
    page.evaluate("document.querySelectorAll('details').forEach((own) => { own.open = true; })")
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
    assert "Open marks are early, incomplete or flagged." in lines.locator(".caption").inner_text()
    whole, opened = lines.locator("g.mark-symbol.role-mark").all()
    # Two estimates in three windows: the first window is complete, but one mean there lies outside of its
    # interval; the second may lack reports, and the third is early.
    assert (whole.locator("path").count(), opened.locator("path").count()) == (1, 1 + 4)
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
    assert reached.count("All numbers of x") == 1
    table = page.locator("details").filter(has_text="All numbers of x")
    table.locator(":scope > summary").press("Enter")
    assert table.locator("tbody tr").count() == 3 * 2


def test_a_warning_leads_to_what_it_names(pages: dict[str, Path], open_page: Callable[..., Any]) -> None:
    page = open_page(pages["stream"], width=400).page
    for link in page.locator(".warnings a").all():
        link.click()
        place = page.locator(":target")
        assert place.is_visible() and place.evaluate("own => own.matches('.one, tr')")


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
    menu = page.locator("figure [data-chart]").first.locator("details")
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
    # Each of the five attributes has a figure in the overview, too.
    assert len(json.loads(data)) == len(TITLES) + 5
