"""What an estimate shows: tables with a fixed schema, text, HTML and charts."""

from __future__ import annotations

import builtins
import re
import sys
from html import unescape
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

import ldpbeam as ldp
from ldpbeam.schemas.outputs.tables import ESTIMATES, SHARES, estimate_rows, share_rows

TEN = 1_763_632_800_000
TEXT = """\
study: shown
attributes:
  minutes:
    domain: {numeric: [0, 180]}
    buckets: 16
    services: {maps: {mechanism: square_wave, epsilon: 2.0}}
    estimates: {spread: {estimator: ems}, mean: {estimator: ivw}}
    quantiles: [0.25, 0.75]
    ranges: [[0, 30]]
  drink:
    domain: {categories: [tea, "<b>coffee</b>", water]}
    services: {maps: {mechanism: grr, epsilon: 2.0}}
    estimates: {shares: {estimator: norm_sub}}
  rating:
    domain: {keys: [jaws, alien], values: [1, 5]}
    services: {maps: {mechanism: pckv_grr, epsilon: 2.0, padding: 2}}
    estimates: {pairs: {estimator: key_value}}
windows: {size: 1h}
intervals: false
"""
STUDY = ldp.Study.from_yaml(TEXT)


@pytest.fixture(scope="module")
def found() -> ldp.Estimates:
    rng = np.random.default_rng(5)
    given: dict[str, Any] = {
        "minutes": 180 * rng.beta(3, 5, 400),
        "drink": rng.choice(["tea", "<b>coffee</b>", "water"], 400, p=[0.6, 0.3, 0.1]),
        "rating": [{"jaws": 2.0}] * 200 + [{"alien": 5.0}] * 200,
    }
    times = TEN + 18_000 * np.arange(400)
    tables = [
        ldp.Client(STUDY, name, "maps", rng=rng).reports(values, np.arange(400), event_times=times)
        for name, values in given.items()
    ]
    return ldp.estimate(STUDY, [*tables, {**tables[0].slice(0, 1).to_pydict(), "payload": [99.0]}])


def test_there_is_an_estimate_for_each_name_and_window(found: ldp.Estimates) -> None:
    places = [(own.attribute, own.name, own.window) for own in found]
    windows = [(TEN, TEN + 3_600_000), (TEN + 3_600_000, TEN + 7_200_000)]
    names = [("minutes", "spread"), ("minutes", "mean"), ("drink", "shares"), ("rating", "pairs")]
    assert places == [
        (attribute, name, window)
        for attribute in STUDY.attributes
        for window in windows
        for of, name in names
        if of == attribute
    ]
    assert found[0].distribution is not None
    assert [own.name for own in found.only("mean")] == ["mean", "mean"]
    assert {own.attribute for own in found.only(attribute="drink")} == {"drink"}
    with pytest.raises(
        ValueError, match="no estimate has name 'means'; there are name: spread, mean, shares, pairs"
    ):
        found.only("means")


# What is in them: tests/pipelines/test_run_tables.
def test_the_tables_are_those_of_a_run_and_have_always_the_same_columns(found: ldp.Estimates) -> None:
    assert found.to_arrow().equals(estimate_rows(found.estimates))
    assert found.to_arrow("shares").equals(share_rows(found.estimates))
    assert found.only("shares").to_arrow().schema == ESTIMATES
    assert found.only("mean").to_arrow("shares").schema == SHARES
    with pytest.raises(ValueError, match="table 'share': there are estimates and shares"):
        found.to_arrow("share")  # type: ignore[arg-type]


def test_tables_become_data_frames(found: ldp.Estimates) -> None:
    pytest.importorskip("pandas"), pytest.importorskip("polars")
    for which in ("estimates", "shares"):
        expected = found.to_arrow(which)  # type: ignore[arg-type]
        frame, polars = found.to_pandas(which), found.to_polars(which)  # type: ignore[arg-type]
        assert list(frame.columns) == polars.columns == expected.column_names
        assert len(frame) == len(polars) == expected.num_rows
        assert polars["reports" if which == "estimates" else "share"].to_list() == (
            expected["reports" if which == "estimates" else "share"].to_pylist()
        )


def test_the_summary_tells_the_estimates_and_what_became_of_the_reports(found: ldp.Estimates) -> None:
    summary = found.summary()
    assert repr(found) == summary
    assert (
        "1,201 reports in = 1,200 used + 0 duplicates + 0 late + 0 out of range + 1 dead letters" in summary
    )
    assert f"{found[0].mean:.6g}" in summary
    assert "payload outside mechanism" in summary


def test_a_notebook_shows_the_summary_with_names_escaped(found: ldp.Estimates) -> None:
    html = found._repr_html_()
    assert "<b>coffee" not in html
    assert unescape(re.sub("^<pre [^>]*>|</pre>$", "", html)) == found.summary()


def layers(plot: Any) -> list[dict[str, Any]]:
    """The layers of all charts of a plot, whether they have panels or not."""
    return [layer for chart in plot.to_dict()["vconcat"] for layer in chart.get("spec", chart)["layer"]]


def marks(plot: Any) -> list[str]:
    """The marks of all charts of a plot."""
    return [layer["mark"]["type"] for layer in layers(plot)]


def test_a_plot_has_areas_for_numbers_bars_for_categories_and_dots_for_keys(found: ldp.Estimates) -> None:
    pytest.importorskip("altair")
    for attribute, mark in (("minutes", "area"), ("drink", "bar"), ("rating", "circle")):
        plot = found.only(attribute=attribute).plot()
        assert mark in marks(plot), attribute
        rows = [row for own in plot.to_dict()["datasets"].values() for row in own]
        windows = {row.get("panel") or row["lane"] for row in rows if "share" in row or "value" in row}
        assert windows >= {"10:00\u201311:00", "11:00\u201312:00"}
    plot = found.only("spread").plot().to_dict()
    rows = [row for own in plot["datasets"].values() for row in own if row.get("part") == "step"]
    # A row for each bar of 20 minutes, and one where the last one ends, in two windows.
    assert len(rows) == 2 * 10
    assert sum(row["share"] for row in rows if row["low"] < 180) == pytest.approx(2)


class Tags(HTMLParser):
    """The tags that a browser finds in a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)


@pytest.mark.parametrize("name", ["</script><img src=x>", "</SCRIPT ><img src=x>", "<!--<script>"])
def test_no_name_ends_the_script_that_draws_a_chart(name: str) -> None:
    pytest.importorskip("altair")
    study = ldp.Study.from_yaml(TEXT.replace("<b>coffee</b>", name) + "groups: {field: region}\n")
    client = ldp.Client(study, "drink", "maps", rng=np.random.default_rng(7))
    sent = client.reports(["tea", name] * 50, np.arange(100), event_times=TEN, groups=[name, "north"] * 50)
    plot = ldp.estimate(study, sent).plot()
    for html in (plot.to_html(), plot._repr_mimebundle_()["text/html"]):
        page = Tags()
        page.feed(html)
        assert "script" in page.tags and "img" not in page.tags
        assert name not in html and name.replace("<", r"<\u2060")[:10] in html
    (drawn,) = plot.to_dict()["datasets"].values()
    groups = [row["panel"].partition("\n")[0].replace("\u2060", "") for row in drawn if "part" not in row]
    assert sorted(groups) == sorted([name, "north"])


def test_what_has_nothing_to_show_says_so(found: ldp.Estimates) -> None:
    pytest.importorskip("altair")
    empty = ldp.estimate(STUDY, {"user_id": [], "payload": [], "event_time": []}, attribute="minutes")
    with pytest.raises(ValueError, match="nothing to show"):
        empty.plot()


@pytest.mark.parametrize(
    ("module", "show", "install"),
    [
        ("altair", "plot", r"pip install 'ldpbeam\[report\]'"),
        ("pandas", "to_pandas", "pip install 'pandas'"),
        ("polars", "to_polars", "pip install 'polars'"),
    ],
)
def test_what_is_not_installed_is_named(
    found: ldp.Estimates, module: str, show: str, install: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, module, raising=False)
    original = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name == module:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return original(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    monkeypatch.setattr("importlib.import_module", lambda name: without(name))
    with pytest.raises(ImportError, match=install):
        getattr(found, show)()
