"""``ldpbeam report`` in a browser: every chart is there without a script or a request, and fits a phone."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from support.estimate_records import results

from ldpbeam.results.page.contents import content_of
from ldpbeam.results.page.html import page
from ldpbeam.schemas.outputs.records import EstimateRecord

#: The charts of ``EVERYTHING`` by window and group: 2 windows and 2 groups (the other ones are one).
TITLES = [
    "Mean minutes over time", "Distribution of minutes", "Share of people up to each value of minutes",
    "Shares of transport over time", "Shares of transport", "Who has which key of rating, over time",
    "Who has which key of rating", "Mean rating of each key", "Mean pulse.rest over time",
    "Mean pulse.run over time",
]  # fmt: skip
#: The pairs of texts of a chart that stand on each other, and the texts that leave the card of their chart.
COLLISIONS = """figures => figures.flatMap((figure) => {
    const card = figure.getBoundingClientRect();
    const found = [];
    const drawn = [...figure.querySelectorAll("text:not([opacity='0'])")]
        .map((text) => [text.textContent, text.getBoundingClientRect()])
        .filter(([, own]) => own.width > 0);
    drawn.forEach(([text, own], at) => {
        if (own.left < card.left || own.right > card.right) found.push(`${text} leaves its card`);
        for (const [other, its] of drawn.slice(at + 1)) {
            const across = Math.min(own.right, its.right) - Math.max(own.left, its.left);
            const down = Math.min(own.bottom, its.bottom) - Math.max(own.top, its.top);
            if (across > 1 && down > 3) found.push(`${text} / ${other}`);
        }
    });
    return found;
})"""


@pytest.fixture(scope="module")
def pages(
    tmp_path_factory: pytest.TempPathFactory, command: Any, folders: dict[str, Path]
) -> dict[str, Path]:
    """The page of an output folder of each kind of run."""
    made = {}
    for kind, folder in folders.items():
        made[kind] = tmp_path_factory.mktemp("pages") / f"{kind}.html"
        ran = command("report", folder, "-o", made[kind])
        assert ran.code == 0, ran.err
        assert ran.out.startswith(f"{made[kind]}: ") and "\nMean " in ran.out
    return made


@pytest.mark.parametrize(
    ("kind", "width", "scheme"),
    [
        ("batch", 400, "dark"), ("batch", 1000, "light"), ("scheduled", 1280, "light"),
        ("rollup", 400, "light"), ("stream", 1280, "dark"),
    ],
)  # fmt: skip
def test_every_kind_of_output_is_drawn_without_a_request(
    pages: dict[str, Path], open_page: Any, kind: str, width: int, scheme: str
) -> None:
    opened = open_page(pages[kind], width, scheme)
    assert opened.requests == [pages[kind].as_uri()]
    assert opened.said == []
    assert opened.overflow <= 0
    wider = "cards => cards.filter((card) => card.scrollWidth > card.clientWidth).length"
    assert opened.page.locator(".card").evaluate_all(wider) == 0
    assert opened.page.locator("figure").evaluate_all(COLLISIONS) == []
    figures = opened.page.locator("figure")
    for figure in figures.all():
        # One of both widths is shown, and is named.
        (shown,) = [own for own in figure.locator("[role=img]").all() if own.is_visible()]
        assert shown.get_attribute("aria-label") == figure.locator("h3").inner_text()
        assert shown.locator("svg").bounding_box()["width"] <= width
    dark = opened.page.locator("body").evaluate("body => getComputedStyle(body).backgroundColor")
    assert dark == ("rgb(20, 23, 27)" if scheme == "dark" else "rgb(246, 245, 241)")
    strokes = figures.first.locator(".wide .mark-line path").evaluate_all(
        "lines => lines.map((line) => getComputedStyle(line).stroke)"
    )
    assert ("rgb(86, 180, 233)" if scheme == "dark" else "rgb(0, 114, 178)") in strokes


@pytest.fixture(scope="module")
def hard(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of twelve groups with long names in four weeks, with gaps, and of 200 categories."""
    common: dict[str, Any] = {
        "study": "hard", "services": ("app",), "reports": 10, "converged": True, "n_iterations": 1,
    }  # fmt: skip
    number = {"bucket_edges": (0.0, 1e5, 2e5), "distribution": (0.4, 0.6), "mean": 1e5}
    names = tuple(f"site-{place:03}.example.com/with/a/long/path" for place in range(200))
    records = [
        EstimateRecord(
            attribute="bytes", name="shape", estimator="auto", group=f"a group with a long name, {group}",
            window_start=f"2026-11-{day:02}T00:00:00Z", window_end=f"2026-11-{day + 1:02}T00:00:00Z",
            **number, **common,
        )
        for group in range(12) for day in range(1, 29) if (group, day) != (3, 28) and day != 9
    ]  # fmt: skip
    records.append(
        EstimateRecord(
            attribute="site", name="shares", estimator="em", categories=names, frequencies=(0.005,) * 200,
            **common,
        )
    )  # fmt: skip
    path = tmp_path_factory.mktemp("hard") / "page.html"
    path.write_text(page([content_of(results(*records), {})]), encoding="utf-8")
    return path


@pytest.mark.parametrize("width", [400, 1000])
def test_no_label_stands_on_another_one_however_many_and_long_they_are(
    hard: Path, open_page: Any, width: int
) -> None:
    opened = open_page(hard, width)
    assert opened.page.locator("figure").evaluate_all(COLLISIONS) == []
    assert opened.overflow <= 0
    # Twelve lanes of the last window, none of all groups: there are no statistics.
    second = opened.page.locator("figure").nth(1)
    shown = second.locator(".wide text").all_text_contents()
    assert sum(text.startswith("a group") for text in shown) == 12
    assert second.locator(".caption").inner_text().startswith("28 Nov. Bars")


def test_the_marks_are_those_of_the_estimates(pages: dict[str, Path], open_page: Any) -> None:
    page = open_page(pages["batch"]).page
    figures = page.locator("figure")
    assert figures.locator("h3").all_inner_texts() == TITLES

    def count(title: str, mark: str) -> int:
        return int(figures.nth(TITLES.index(title)).locator(f".wide g.mark-{mark}.role-mark > *").count())

    # Of 2 estimates of 2 groups and their total a line, and a mark in each of two windows.
    assert (count("Mean minutes over time", "line"), count("Mean minutes over time", "symbol")) == (6, 12)
    # Of 2 groups and their total the line of the distribution, and what is certain of its median; of the
    # total, whose reports are more, also what is so if people are spread smoothly.
    assert (count("Distribution of minutes", "line"), count("Distribution of minutes", "rule")) == (3, 4)
    # Of 2 groups and their total 3 categories and 2 keys, each with its interval.
    assert (count("Shares of transport", "rect"), count("Shares of transport", "rule")) == (9, 9)
    assert count("Who has which key of rating", "rule") == 6


def test_a_page_says_where_its_numbers_come_from(pages: dict[str, Path], open_page: Any) -> None:
    page = open_page(pages["batch"]).page
    folded = page.locator("main").inner_text()
    assert "1 report could not be used" in folded
    # What the study does is folded away, under a line that says how much there is.
    assert "Study 'everything' estimates" not in folded
    plumbing = page.get_by_text("What the study does", exact=True)
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


def test_early_and_incomplete_windows_are_marked(pages: dict[str, Path], open_page: Any) -> None:
    page = open_page(pages["stream"]).page
    lines = page.locator("figure").first
    assert "Open marks are early or incomplete." in lines.locator(".caption").inner_text()
    # Two estimates in three windows: the first window is complete, the second may lack reports, and the third
    # is early.
    marks = lines.locator(".wide g.mark-symbol.role-mark path")
    fills = marks.evaluate_all("marks => marks.map((mark) => getComputedStyle(mark).fill)")
    assert (len(fills), fills.count("none")) == (6, 4)
    shown = page.locator("figure").nth(1).locator(".wide text").all_text_contents()
    assert [re.sub(r".*\((\w+)\)", r"\1", text) for text in shown if "(" in text] == ["incomplete", "early"]
    warnings = page.locator(".warnings").first.inner_text()
    assert "1 of 3 windows had not closed" in warnings
    assert "1 of 3 windows may lack reports" in warnings
    assert "1 window has reports of several runs" in warnings


def test_the_keyboard_reaches_every_table(pages: dict[str, Path], open_page: Any) -> None:
    page = open_page(pages["stream"]).page
    reached = []
    while len(reached) < 2 or reached[-1] != reached[0]:
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.innerText || document.activeElement.ariaLabel"))
        assert len(reached) < 60
    assert reached[0] == "Skip to the estimates"
    assert reached.count("All numbers of x") == 1
    table = page.locator("details").filter(has_text="All numbers of x")
    table.locator(":scope > summary").press("Enter")
    assert table.locator("tbody tr").count() == 3 * 2


def test_no_word_of_a_table_is_broken(pages: dict[str, Path], open_page: Any) -> None:
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
    assert opened.overflow <= 0


def test_a_page_has_no_script_and_its_policy_allows_none(pages: dict[str, Path]) -> None:
    text = pages["batch"].read_text()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    assert policy[1].startswith("default-src 'none'; style-src") and "script" not in policy[1]
    assert "<script" not in text
    # A checker of accessibility wants a name for each of these, and Vega gives none.
    assert 'role="graphics-' not in text
    assert len(text) < 500_000
