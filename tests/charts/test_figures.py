"""What charts draw of estimates by hand: steps, bands, flags and the truth; and a chart alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support.estimate_records import results
from support.studies import SMALL

import ldpbeam as ldp
from ldpbeam.answers.people import People
from ldpbeam.answers.results import RunResults
from ldpbeam.charts.alone import alone
from ldpbeam.charts.figures import Figure
from ldpbeam.charts.numbers import distributions
from ldpbeam.charts.subject import Subject
from ldpbeam.results.page.contents import content_of
from ldpbeam.results.page.images import images
from ldpbeam.schemas.outputs.records import (
    Accounting,
    CumulativeShares,
    Ends,
    EstimateRecord,
    IntervalsRecord,
    ManyEnds,
    RangeShare,
    StrictRecord,
)

SHARES = (0.123456789, 0.1, 0.2, 0.1, 0.1, 0.1, 0.1, 0.176543211)
EDGES = tuple(number / 8 for number in range(9))


def of_service(service: str, **flags: str) -> EstimateRecord:
    ends = ManyEnds(low=(0.0123456789,) * 8, high=(0.3,) * 8)
    return EstimateRecord(
        study="small", attribute="x", name=service, estimator="auto", reports=100, converged=True,
        n_iterations=1, services=(service,), distribution=SHARES, bucket_edges=EDGES, mean=0.4,
        intervals=IntervalsRecord(level=0.95, distribution=ends, flags=flags),
    )  # fmt: skip


MEAN = replace(of_service("m"), distribution=None, bucket_edges=None, intervals=None)


def figures_of(*records: EstimateRecord, **people: People) -> list[Figure]:
    study = ldp.Study.from_yaml(SMALL)
    of_study = replace(results(*records), read_study=lambda: (study, ""))
    (chapter,) = content_of(of_study, ["A sentence."], people).chapters
    return list(chapter.figures)


@pytest.mark.parametrize(
    ("used", "why"), [(0, "no report could be used"), (2, "every window or group has fewer users or reports")]
)
def test_a_page_without_estimates_says_why(used: int, why: str) -> None:
    counts = dict.fromkeys(("duplicates", "late", "out_of_range"), 0)
    accounting = Accounting(**{"in": 2, "used": used, "dead_letters": 2 - used, **counts})
    found = results()
    run = RunResults(found.about, "out", True, accounting, (), None)
    lead = content_of(replace(found, runs=(run,)), ["A sentence."], {}).lead
    assert lead.startswith(f"There is no estimate: {why}")


def test_the_steps_are_those_of_the_estimate() -> None:
    figure, *_ = figures_of(of_service("a"))
    steps = figure.panels[0].data["steps"]
    assert steps["share"] == [0.12346, *SHARES[1:7], 0.17654, 0.17654]
    assert steps["low"] == list(EDGES)


def test_a_flagged_band_has_edges_alone_and_a_reason() -> None:
    figure = distributions(
        Subject("x", [of_service("a"), of_service("b", distribution="the reports say little")]), {}
    )
    assert figure is not None
    data = figure.panels[0].data
    assert set(data["bands"]["estimate"]) == {"a (auto of a)"}
    assert set(data["flagged"]["estimate"]) == {"b (auto of b)"}
    assert data["flagged"]["share_low"][:-1] == [0.012346] * 8
    assert "it may not hold the truth: the reports say little." in figure.caption


def test_the_truth_is_drawn_beside_the_estimates_in_the_colour_of_text() -> None:
    shape, means = figures_of(
        of_service("a"), MEAN, x=People(np.array([0.1, 0.1, 0.3, 0.9]), None, None, None, 0, 0)
    )
    truth = shape.panels[0].data["truth"]
    assert truth["share"] == [0.5, 0, 0.25, 0, 0, 0, 0, 0.25, 0.25]
    assert truth["low"] == list(EDGES)
    drawn = means.panels[0].data["means"]
    assert drawn["value"][list(drawn["estimate"]).index("the truth")] == 0.35
    assert [key.colour for key in shape.keys][-1] == -1 and -1 not in [key.colour for key in shape.keys][:-1]


def test_a_chart_alone_has_its_data_its_colours_and_a_legend_of_several() -> None:
    records = of_service("a"), of_service("b")
    for count, legends in ((1, {False}), (2, {True})):
        figure = distributions(Subject("x", records[:count]), {})
        assert figure is not None
        chart: dict[str, Any] = alone(figure, figure.panels[0], 640)
        assert (chart["width"], chart["title"]["text"]) == (640, "Distribution of x")
        assert len(chart["datasets"]["steps"]) == 9 * count
        colours = [layer["encoding"]["color"] for layer in chart["layer"] if "color" in layer["encoding"]]
        assert {colour["legend"] is not None for colour in colours} == legends
        assert {tuple(colour["scale"]["range"]) for colour in colours} == {("#0072b2", "#d55e00")[:count]}
        assert alone(figure, figure.panels[0], 640, legend=False)["layer"][0] is not None


def test_images_are_made_of_every_chart() -> None:
    pytest.importorskip("vl_convert")
    made = dict(images([content_of(results(of_service("a"), MEAN), ["A sentence."], {})]))
    assert sorted(made) == [
        "01-distribution-of-x.png", "01-distribution-of-x.svg", "02-mean-x.png", "02-mean-x.svg",
    ]  # fmt: skip
    assert made["02-mean-x.png"].startswith(b"\x89PNG")
    assert b"m (auto of m)" in made["02-mean-x.svg"]


def test_what_is_certain_is_drawn_between_places_and_both_kinds_of_bars() -> None:
    strict = StrictRecord(
        CumulativeShares((0.0, 0.5), (0.0, 0.2), (0.3, 0.9)),
        {"0.5": Ends(0.3, 0.8)},
        ManyEnds((0.1,), (0.7,)),
    )
    intervals = IntervalsRecord(
        0.95,
        quantiles={"0.5": Ends(0.4, 0.6)},
        ranges=ManyEnds((0.3,), (0.5,)),
        cdf=CumulativeShares((0.0, 0.5), (0.0, 0.4), (0.1, 0.6)),
        strict=strict,
    )
    ranges = (RangeShare(0.0, 0.5, 0.4),)
    _, figure, of_ranges, *_ = figures_of(
        replace(of_service("a"), intervals=intervals, quantiles={"0.5": 0.5}, ranges=ranges)
    )
    data = figure.panels[0].data
    # Up to 0.5 people are at most as many as have at most 0.5.
    assert (data["cdf"]["at"], data["cdf"]["low"], data["cdf"]["high"]) == (
        [0, 0.5, 1],
        [0, 0.2, 1],
        [0.9, 1, 1],
    )
    # A smooth curve has no steps.
    assert (data["smooth"]["low"], data["smooth"]["high"]) == ([0, 0.4, 1], [0.1, 0.6, 1])
    assert dict(zip(data["bars"]["kind"], data["bars"]["low"], strict=True)) == {"strict": 0.3, "smooth": 0.4}
    bars = of_ranges.panels[0].data["bars"]
    assert [bars[name] for name in ("name", "kind", "low", "high")] == [
        ["0 to 0.5"] * 2, ["strict", "smooth"], [0.1, 0.3], [0.7, 0.5],
    ]  # fmt: skip
    assert of_ranges.table.rows == [["", "0 to 0.5", "40.0%", "30.0% to 50.0%", "10.0% to 70.0%"]]
    assert data["below"]["share"][-1] == 1
    assert figure.table.rows == [["", "0.5", "0.5", "0.4 to 0.6", "0.3 to 0.8"]]
    # Without strict intervals there is no such figure.
    titles = [figure.title for figure in figures_of(of_service("a"))]
    assert titles and not {"Share of people up to each value of x", "Shares of ranges of x"} & {*titles}
