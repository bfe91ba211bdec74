"""How intervals with a flag are drawn: two dashed edges and no area, and the caption says why."""

from __future__ import annotations

from ldpbeam.pipelines.pages.numbers import distributions
from ldpbeam.pipelines.pages.subject import Subject
from ldpbeam.schemas.outputs.records import EstimateRecord, IntervalsRecord, ManyEnds


def of_service(service: str, flags: dict[str, str]) -> EstimateRecord:
    ends = ManyEnds(low=(0.1, 0.2, 0.3), high=(0.3, 0.4, 0.5))
    return EstimateRecord(
        study="commute", attribute="minutes", name=service, estimator="auto", reports=100, converged=True,
        n_iterations=1, services=(service,), distribution=(0.2, 0.3, 0.5), bucket_edges=(0.0, 1.0, 2.0, 3.0),
        intervals=IntervalsRecord(level=0.95, distribution=ends, flags=flags),
    )  # fmt: skip


def test_a_flagged_band_has_edges_alone_and_a_reason() -> None:
    records = [of_service("maps", {}), of_service("taxi", {"distribution": "the reports say little"})]
    figure = distributions(Subject("minutes", records), {})
    assert figure is not None
    data = figure.panels[0].data
    assert set(data["bands"]["estimate"]) == {"maps (auto of maps)"}
    assert set(data["flagged"]["estimate"]) == {"taxi (auto of taxi)"}
    assert "it may not hold the truth: the reports say little." in figure.caption
