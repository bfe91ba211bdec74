"""What charts draw of estimates by hand: steps, bands, flags, the truth and what is certain."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support.estimate_records import held, results
from support.studies import SMALL

import ldpbeam as ldp
from ldpbeam.answers.people import People
from ldpbeam.answers.results import RunResults
from ldpbeam.charts.figures import Figure
from ldpbeam.charts.numbers import distributions
from ldpbeam.charts.subject import Subject
from ldpbeam.results.page.contents import content_of
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


def test_titles_look_at_all_estimates_as_often_however_many_there_are() -> None:
    class Records(list[EstimateRecord]):
        looks = 0

        def __iter__(self) -> Iterator[EstimateRecord]:
            self.looks += 1
            return super().__iter__()

    few, many = Records([of_service("a")]), Records([of_service("a")] * 50)
    for records in (few, many):
        subject = Subject("x", records)
        assert {*map(subject.title_of, records), *subject.titles} == {""}
    assert few.looks == many.looks


@pytest.mark.parametrize(
    ("used", "why"), [(0, "no report could be used"), (2, "every window or group has fewer users or reports")]
)
def test_a_page_without_estimates_says_why(used: int, why: str) -> None:
    counts = dict.fromkeys(("duplicates", "late", "out_of_range"), 0)
    accounting = Accounting(**{"in": 2, "used": used, "dead_letters": 2 - used, **counts})
    found = results()
    run = RunResults(found.about, "out", True, accounting, (), None)
    lead = content_of(replace(found, runs=(run,)), {}).lead
    assert lead[0].startswith(f"There is no estimate: {why}")


def test_bars_begin_at_round_values_and_have_the_shares_of_the_estimate() -> None:
    fine = replace(of_service("a"), distribution=(1 / 512,) * 512, bucket_edges=tuple(np.arange(513) / 512))
    steps = drawn(distribution(replace(fine, intervals=None)), "step", "low", "share")
    # A row more, where the last bar ends. The last one is narrower, and as high.
    assert steps == [(pytest.approx(number / 50), pytest.approx(1 / 50)) for number in range(50)] + [
        (1.0, pytest.approx(1 / 50))
    ]


def ages(values: float, median: tuple[float, float], **certain: Any) -> EstimateRecord:
    """80 values, of which one has more people than the others by a share."""
    shares = np.full(80, (1 - values) / 80)
    shares[32] += values
    held_ends = {"certain": {**certain}, "if_smooth": {"quantiles": median}}
    return replace(
        of_service("a"), bucket_edges=tuple(np.arange(81) + 17.5), step=1.0, distribution=tuple(shares),
        quantiles={"0.5": 50.0}, intervals=held(**held_ends),
    )  # fmt: skip


def test_a_spike_is_spread_unless_the_reports_show_it_for_certain() -> None:
    least = np.zeros((80, 2))
    spread = distribution(ages(0.1, (45.0, 54.0), distribution=least))
    assert max(row["share"] for row in spread.rows if row["part"] == "step") < 0.2
    assert {row["high"] - row["low"] for row in spread.rows[1:-3] if row["part"] == "step"} == {5.0}
    least[32] = (0.08, 0.3)
    shown = distribution(ages(0.1, (45.0, 54.0), distribution=least))
    spikes = [row for row in shown.rows if row["part"] == "step" and row["share"] > 0.2]
    # A bar of one value among those of five: as high as if five values had its share.
    assert [(row["low"], row["high"], row["share"]) for row in spikes] == [
        (49.5, 50.5, pytest.approx(5 * (0.1 + 0.9 / 80)))
    ]


@pytest.mark.parametrize(("median", "wide"), [((49.0, 51.0), 2), ((45.0, 55.0), 5), ((40.0, 60.0), 10)])
def test_bars_are_half_as_wide_as_the_interval_of_the_median_and_round(
    median: tuple[float, float], wide: int
) -> None:
    figure = distribution(ages(0.0, median))
    assert f"Bars: the share of people, {wide} wide." in figure.caption
    starts = [row["low"] for row in figure.rows if row["part"] == "step"][1:-1]
    assert all((start + 0.5) % wide == 0 for start in starts)


def test_the_truth_is_drawn_beside_the_estimates() -> None:
    people = People(np.array([0.1, 0.1, 0.3, 0.9]), None, None, None, 0, 0)
    shape, means = figures_of(of_service("a"), MEAN, x=people).values()
    # The truth has the bars of the estimate, which are 0.2 wide, and its people are even inside a bucket.
    shares = [0.5, 0.25, 0, 0, 0.25, 0.25]
    lows = [0, 0.2, 0.4, 0.6, 0.8, 1.0]
    assert drawn(shape, "truth", "low", "share") == [
        (pytest.approx(low), pytest.approx(share)) for low, share in zip(lows, shares, strict=True)
    ]
    assert {*drawn(means, "truth", "value")} == {(0.35,)}
    assert "Dashed: the truth." in shape.caption and "Black ticks: the truth." in means.caption


def test_a_mean_without_its_own_interval_has_that_of_its_standard_error() -> None:
    figure = figures_of(of_service("a"), replace(MEAN, standard_error=0.1))["Mean x"]
    assert drawn(figure, "estimate", "low", "high") == [
        (None, None),
        (pytest.approx(0.204, abs=1e-3), pytest.approx(0.596, abs=1e-3)),
    ]


def test_each_of_several_estimates_has_a_lane() -> None:
    figure = distribution(of_service("a"), of_service("b"))
    assert figure.lanes == ["a", "b"] and {row["lane"] for row in figure.rows} == {"a", "b"}
    assert distribution(of_service("a")).lanes == [""]


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
    # Without certain intervals there is no such figure.
    assert TITLE not in figures_of(of_service("a"))
