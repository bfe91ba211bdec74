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


def test_a_flagged_band_is_pale() -> None:
    figure = distributions(
        Subject("x", [of_service("a"), of_service("b", distribution="the reports say little")]), {}
    )
    assert figure is not None
    data = figure.panels[0].data
    bands = data["bands"]
    assert {*zip(bands["estimate"], bands["flagged"], strict=True)} == {
        ("a (auto of a)", False),
        ("b (auto of b)", True),
    }
    assert bands["share_low"] == [0.012346] * 18
    assert "Pale bands are flagged." in figure.caption


def test_one_wide_interval_does_not_set_the_axis_and_is_marked_where_it_is_cut() -> None:
    wide = ManyEnds(low=(0.0,) * 16, high=(0.08,) * 15 + (0.9,))
    record = replace(
        of_service("a"),
        distribution=(0.0625,) * 16,
        bucket_edges=tuple(number / 16 for number in range(17)),
        intervals=IntervalsRecord(level=0.95, distribution=wide),
    )
    figure = distributions(Subject("x", [record]), {})
    assert figure is not None
    layers = [layer["encoding"]["y"] for layer in figure.chart["layer"] if "y" in layer["encoding"]]
    (top,) = {y["scale"]["domain"][1] for y in layers if "domain" in y.get("scale", {})}
    assert 0.08 < top < 0.1
    cut = figure.panels[0].data["cut"]
    assert cut["low"] == [15.5 / 16] and cut["share"][0] < top
    assert "A triangle marks an interval that goes on." in figure.caption
    # Where nothing is far away, the axis has all.
    near = replace(
        record,
        intervals=replace(record.intervals, distribution=ManyEnds((0.0,) * 16, (0.07,) * 15 + (0.08,))),
    )
    figure = distributions(Subject("x", [near]), {})
    assert figure is not None and figure.panels[0].data["cut"]["low"] == []


def test_the_truth_is_drawn_beside_the_estimates_in_the_colour_of_text() -> None:
    shape, means = figures_of(
        of_service("a"), MEAN, x=People(np.array([0.1, 0.1, 0.3, 0.9]), None, None, None, 0, 0)
    )
    truth = shape.panels[0].data["truth"]
    assert truth["share"] == [0.5, 0, 0.25, 0, 0, 0, 0, 0.25, 0.25]
    assert truth["low"] == list(EDGES)
    assert means.panels[0].data["truth"]["value"] == [0.35]
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
    record = replace(of_service("a"), intervals=intervals, quantiles={"0.5": 0.5}, ranges=ranges)
    _, figure, of_ranges, *_ = figures_of(record)
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
    assert data["below"]["share"][-1] == 1
    said = (
        "The median is certainly between 0.30 and 0.80; if people are spread smoothly between 0.40 and 0.60."
    )
    assert figure.summary == [said]
    assert figure.caption.endswith("if people are spread smoothly, without gaps, steps and favourite values.")
    _, figure, *_ = figures_of(replace(record, step=0.125))
    assert figure.caption.endswith("if people are spread smoothly, but for round values.")
    # Without strict intervals there is no such figure.
    titles = [figure.title for figure in figures_of(of_service("a"))]
    assert titles and not {"Share of people up to each value of x", "Shares of ranges of x"} & {*titles}


def test_with_one_bucket_per_value_each_bar_is_a_value() -> None:
    ages = replace(of_service("m"), bucket_edges=tuple(number + 29.5 for number in range(9)), step=1.0)
    (figure,) = [figure for figure in figures_of(ages) if figure.title.startswith("Distribution")]
    assert figure.caption.startswith("The share of people with each value")
    pairs = replace(ages, step=0.5)
    assert pairs.bucket_ends == ([29.75 + at for at in range(8)], [30.25 + at for at in range(8)])
    (figure,) = [figure for figure in figures_of(pairs) if figure.title.startswith("Distribution")]
    assert figure.caption.startswith("The share of people in each step of 1")
