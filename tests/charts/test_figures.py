"""What charts draw of estimates by hand: steps, bands, flags, the truth and what is certain."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support.estimate_records import held, results
from support.studies import SMALL

import ldpbeam as ldp
from ldpbeam.answers.people import People
from ldpbeam.answers.results import RunResults
from ldpbeam.charts.figures import GOES_ON, Figure
from ldpbeam.charts.numbers import MOST_SENTENCES, distributions
from ldpbeam.charts.subject import Subject
from ldpbeam.results.page.contents import content_of
from ldpbeam.results.page.images import images
from ldpbeam.schemas.outputs.records import Accounting, EstimateRecord

SHARES = (0.123456789, 0.1, 0.2, 0.1, 0.1, 0.1, 0.1, 0.176543211)
EDGES = tuple(number / 8 for number in range(9))


def of_service(service: str, **flags: str) -> EstimateRecord:
    ends = [(0.0123456789, 0.3)] * 8
    return EstimateRecord(
        study="small", attribute="x", name=service, estimator="auto", reports=100, converged=True,
        n_iterations=1, services=(service,), distribution=SHARES, bucket_edges=EDGES, mean=0.4,
        intervals=held(flags, if_smooth={"distribution": ends}),
    )  # fmt: skip


MEAN = replace(of_service("m"), distribution=None, bucket_edges=None, intervals=None)


def figures_of(*records: EstimateRecord, **people: People) -> dict[str, Figure]:
    study = ldp.Study.from_yaml(SMALL)
    of_study = replace(results(*records), read_study=lambda: (study, ""))
    (chapter,) = content_of(of_study, people).chapters
    return {figure.title: figure for figure in chapter.figures}


def drawn(figure: Figure, part: str, *names: str) -> list[tuple[Any, ...]]:
    """What a figure draws: these columns of the rows of a part."""
    return [tuple(row[name] for name in names) for row in figure.rows if row["part"] == part]


def distribution(*records: EstimateRecord) -> Figure:
    figure = distributions(Subject("x", records), {})
    assert figure is not None
    return figure


@pytest.mark.parametrize(
    ("used", "why"), [(0, "no report could be used"), (2, "every window or group has fewer users or reports")]
)
def test_a_page_without_estimates_says_why(used: int, why: str) -> None:
    counts = dict.fromkeys(("duplicates", "late", "out_of_range"), 0)
    accounting = Accounting(**{"in": 2, "used": used, "dead_letters": 2 - used, **counts})
    found = results()
    run = RunResults(found.about, "out", True, accounting, (), None)
    lead = content_of(replace(found, runs=(run,)), {}).lead
    assert lead.startswith(f"There is no estimate: {why}")


def test_the_steps_are_those_of_the_estimate() -> None:
    steps = drawn(distribution(of_service("a")), "step", "low", "share")
    # A row more, where the last step ends.
    assert steps == [*zip(EDGES, SHARES, strict=False), (1.0, SHARES[-1])]
    fine = replace(of_service("a"), distribution=(1 / 512,) * 512, bucket_edges=tuple(np.arange(513) / 512))
    steps = drawn(distribution(replace(fine, intervals=None)), "step", "low", "share")
    assert steps == [(number / 128, 1 / 128) for number in range(128)] + [(1.0, 1 / 128)]


def test_a_flagged_band_is_pale_and_estimates_of_the_same_services_share_one() -> None:
    flagged = of_service("b", if_smooth="no density explains the reports")
    figure = distribution(of_service("a"), flagged, replace(flagged, name="again"))
    assert {*drawn(figure, "step", "estimate", "flagged")} == {
        ("a (auto of a)", False),
        ("b (auto of b)", True),
        ("again (auto of b)", True),
    }
    banded = {row["estimate"] for row in figure.rows if row["part"] == "step" and "share_low" in row}
    assert banded == {"a (auto of a)", "b (auto of b)"}
    assert "Pale bands are flagged." in distribution(flagged).caption


def test_one_wide_interval_does_not_set_the_axis_and_the_caption_says_that_it_goes_on() -> None:
    wide = [*[(0.0, 0.08)] * 15, (0.0, 0.9)]
    record = replace(
        of_service("a"),
        distribution=(0.0625,) * 16,
        bucket_edges=tuple(number / 16 for number in range(17)),
        intervals=held(if_smooth={"distribution": wide}),
    )
    near = [*[(0.0, 0.07)] * 15, (0.0, 0.08)]
    for ends, cut in ((wide, True), (near, False)):
        intervals = held(if_smooth={"distribution": ends})
        figure = distribution(replace(record, intervals=intervals))
        (top,) = {
            layer["encoding"]["y"]["scale"]["domain"][1]
            for layer in figure.chart(600).to_dict()["layer"]
            if "domain" in layer["encoding"]["y"].get("scale", {})
        }
        assert 0.08 < top < 0.12
        assert (GOES_ON in figure.caption) is cut


def test_the_truth_is_drawn_beside_the_estimates() -> None:
    people = People(np.array([0.1, 0.1, 0.3, 0.9]), None, None, None, 0, 0)
    shape, means = figures_of(of_service("a"), MEAN, x=people).values()
    shares = [0.5, 0, 0.25, 0, 0, 0, 0, 0.25, 0.25]
    assert drawn(shape, "truth", "low", "share") == [*zip(EDGES, shares, strict=True)]
    assert {*drawn(means, "truth", "value")} == {(0.35,)}
    assert "Dashed: the truth." in shape.caption and "Black ticks: the truth." in means.caption


def test_a_mean_without_its_own_interval_has_that_of_its_standard_error() -> None:
    figure = figures_of(of_service("a"), replace(MEAN, standard_error=0.1))["Mean x"]
    assert drawn(figure, "estimate", "low", "high") == [
        (None, None),
        (pytest.approx(0.204, abs=1e-3), pytest.approx(0.596, abs=1e-3)),
    ]


def test_a_chart_has_a_legend_of_several_estimates_only() -> None:
    for records, legend in (
        ((of_service("a"), MEAN), None),
        ((MEAN, of_service("a"), of_service("b")), ["a (auto of a)", "b (auto of b)"]),
    ):
        layers = distribution(*records).chart(600).to_dict()["layer"]
        shown = [layer["encoding"]["color"] for layer in layers if "color" in layer["encoding"]]
        assert all((colour["legend"] or {}).get("values") == legend for colour in shown)
        # Each estimate has one colour in all figures.
        assert all(len(colour["scale"]["domain"]) == len(records) for colour in shown)


def test_images_are_made_of_every_chart() -> None:
    (chapter,) = content_of(results(of_service("a"), MEAN), {}).chapters
    made = dict(images(chapter.figures))
    assert sorted(made) == [
        "01-distribution-of-x.png", "01-distribution-of-x.svg", "02-mean-x.png", "02-mean-x.svg",
    ]  # fmt: skip
    assert made["02-mean-x.png"].startswith(b"\x89PNG")
    assert b">m</text>" in made["02-mean-x.svg"]
    assert b"#0072b2" in made["02-mean-x.svg"] and b"var(" not in made["02-mean-x.svg"]


CERTAIN = replace(
    of_service("a"),
    quantiles={"0.5": 0.5},
    intervals=replace(
        held(
            certain={"quantiles": (0.3, 0.8), "cdf": [(0.0, 0.3), (0.2, 0.9)]},
            if_smooth={"quantiles": (0.4, 0.6), "cdf": [(0.0, 0.1), (0.4, 0.6)]},
        ),
        at=(0.0, 0.5),
    ),
)
TITLE = "Share of people up to each value of x"


def test_what_is_certain_is_drawn_between_places() -> None:
    figure = figures_of(CERTAIN)[TITLE]
    # Up to 0.5 people are at most as many as have at most 0.5.
    assert drawn(figure, "certain", "at", "low", "high") == [
        (0.0, 0.0, 0.9),
        (0.5, 0.2, 1.0),
        (1.0, 1.0, 1.0),
    ]
    # A smooth curve has no steps.
    assert drawn(figure, "smooth", "at", "low", "high") == [(0.0, 0.0, 0.1), (0.5, 0.4, 0.6), (1.0, 1.0, 1.0)]
    assert drawn(figure, "line", "at", "low")[-1] == (1.0, pytest.approx(1))
    said = (
        "The median is certainly between 0.30 and 0.80; if people are spread smoothly between 0.40 and 0.60."
    )
    assert figure.summary == [said]
    assert figure.caption.endswith("if people are spread smoothly, without gaps, steps and favourite values.")
    stepped = figures_of(replace(CERTAIN, step=0.125))[TITLE]
    assert stepped.caption.endswith("if people are spread smoothly, but for round values.")
    # Without certain intervals there is no such figure.
    assert TITLE not in figures_of(of_service("a"))


def test_many_groups_have_no_sentence_each() -> None:
    for groups in (MOST_SENTENCES, MOST_SENTENCES + 1):
        figure = distribution(*(replace(CERTAIN, group=f"g{place}") for place in range(groups)))
        assert len(figure.panels) == groups
        assert len(figure.summary) == (groups if groups <= MOST_SENTENCES else 0)


def test_with_one_bucket_per_value_each_bar_is_a_value() -> None:
    ages = replace(of_service("m"), bucket_edges=tuple(number + 29.5 for number in range(9)), step=1.0)
    assert distribution(ages).caption.startswith("The share of people with each value")
    pairs = replace(ages, step=0.5)
    assert pairs.bucket_ends == ([29.75 + at for at in range(8)], [30.25 + at for at in range(8)])
    assert distribution(pairs).caption.startswith("The share of people in each step of 1")
