"""Names in outputs come from studies and reports: in a page they are text, whatever they say."""

from __future__ import annotations

import functools
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from ldpbeam.answers.results import Results, RunResults
from ldpbeam.results.page.contents import content_of
from ldpbeam.results.page.html import page
from ldpbeam.schemas.outputs.records import EstimateRecord, Fit, FitEntry, RunRecord

HOSTILE = [
    "</script><script>window.stolen = 1</script>", "<img src=x onerror='window.stolen = 1'>",
    "\"><svg onload='window.stolen = 1'>", "<!-- {{ 7 * 7 }} ]]>", "image", "__proto__",
    "datum['x'] || alert(1)", "a.b[0]\\'\"\u2028\u2029\x00\ud800",
]  # fmt: skip


def _records(name: str) -> list[EstimateRecord]:
    """Estimates of a number by window and group, of categories and of keys, in all of which a name stands."""
    common: dict[str, Any] = {
        "study": name, "name": name, "estimator": name, "services": (name,), "reports": 10,
        "converged": True, "n_iterations": 1, "warnings": (name,), "group": name,
    }  # fmt: skip
    found = []
    for hour in (10, 11):
        place = {
            "window_start": f"2026-11-20T{hour}:00:00Z",
            "window_end": f"2026-11-20T{hour + 1}:00:00Z",
            "complete": hour == 10,
        }
        number = {"bucket_edges": (0.0, 1.0, 2.0), "distribution": (0.4, 0.6), "mean": 1.0}
        names = {"categories": tuple(HOSTILE), "frequencies": (0.125,) * len(HOSTILE)}
        keys = {"keys": tuple(HOSTILE), "frequencies": (0.5,) * 8, "key_means": (1.0,) * 8}
        for place_of, part in enumerate((number, names, keys)):
            found.append(EstimateRecord(attribute=f"{name}{place_of}", **common, **place, **part))
    return found


@functools.cache
def _page(name: str) -> str:
    about = RunRecord(study=name, study_fingerprint="0" * 32, run=name, input=(name,))
    test = FitEntry(name, name, False, None, None, "reports", (name,), 10, 1e-9, True)
    run = RunResults(about, "out", True, None, (), Fit(0.01, (test,), (name,)))
    results = Results("out", "batch", about, lambda: (None, ""), (run,), tuple(_records(name)))
    return page([content_of(results, {})])


@pytest.mark.parametrize("name", [HOSTILE[0], HOSTILE[1], HOSTILE[5], HOSTILE[7]])
def test_a_name_runs_nothing_and_asks_for_nothing(tmp_path: Path, open_page: Any, name: str) -> None:
    path = tmp_path / "report.html"
    path.write_text(_page(name), encoding="utf-8")
    opened = open_page(path)
    assert opened.requests == [path.as_uri()]
    assert opened.said == []
    assert opened.page.evaluate("window.stolen") is None
    assert opened.page.locator("script, img, [onload], [onerror], a:not([href^='#'])").count() == 0
    # The name is there to read, in the title and in charts.
    readable = (
        name.replace("\u2028", "\\u2028")
        .replace("\u2029", "\\u2029")
        .replace("\x00", "\\x00")
        .replace("\ud800", "\\ud800")
    )
    assert opened.page.locator("h1").inner_text() == readable
    labels = opened.page.locator("figure .wide text").all_text_contents()
    # Vega shortens long labels.
    assert any(label.replace("\u2060", "").startswith(readable[:10]) for label in labels)


class Tags(HTMLParser):
    """The tags and attributes that a browser finds in a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.found |= {tag, *(f"{name}=" for name, _ in attrs)}


@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_adds_markup_to_the_page(name: str) -> None:
    usual, hostile = Tags(), Tags()
    usual.feed(_page("usual"))
    hostile.feed(_page(name))
    assert hostile.found == usual.found
    assert not {"script", "img", "iframe", "onload=", "onerror="} & usual.found


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("`ldpbeam stream` makes no tests", "<code>ldpbeam stream</code> makes no tests"),
        ("`<b>` and <b>", "<code>&lt;b&gt;</code> and &lt;b&gt;"),
        ("one ` is no code <b>", "one ` is no code &lt;b&gt;"),
        ("`\x1b[1m`", "<code>\\x1b[1m</code>"),
    ],
)
def test_what_stands_between_backticks_is_code_and_escaped(sentence: str, expected: str) -> None:
    about = RunRecord(study="s", study_fingerprint="0" * 32, run="r", input=())
    run = RunResults(about, "out", True, None, (), None)
    results = Results("out", "batch", about, lambda: (None, ""), (run,), ())
    content = replace(content_of(results, {}), sentences=[sentence])
    assert f"<li>{expected}</li>" in page([content])
