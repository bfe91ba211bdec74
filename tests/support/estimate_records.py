"""Estimates by hand, as a run writes them, and the results that they are in."""

from __future__ import annotations

from typing import Any

from ldpbeam.answers.results import Results
from ldpbeam.certainty import Intervals, by_condition
from ldpbeam.schemas.outputs.records import EstimateRecord, RangeShare, RunRecord


def held(
    flags: dict[str, str] | None = None,
    *,
    simultaneous: bool = False,
    narrowest: int | None = None,
    **ends: Any,
) -> Intervals:
    """Intervals of 95%, with the ends of each part by condition, as ``certain={"mean": (4.0, 6.0)}``."""
    return Intervals(0.95, simultaneous, by_condition(**ends), (), narrowest, {}, flags or {})


def price(**changed: Any) -> EstimateRecord:
    """A mean of 5 in [4, 6], a median of 3 in [2, 5], and 40% (30% to 50%) between 0 and 2.

    The certain intervals of the median and the range are [1.5, 5.4] and 26% to 55%.
    """
    intervals = held(
        certain={"mean": (4.0, 6.0), "quantiles": (1.5, 5.4), "ranges": (0.26, 0.55)},
        if_smooth={"quantiles": (2.0, 5.0), "ranges": (0.3, 0.5)},
    )
    given: dict[str, Any] = {
        "study": "s", "attribute": "price", "name": "shape", "estimator": "em", "reports": 10,
        "converged": True, "n_iterations": 1, "mean": 5.0, "quantiles": {"0.5": 3.0},
        "ranges": (RangeShare(0.0, 2.0, 0.4),), "intervals": intervals,
    }  # fmt: skip
    return EstimateRecord(**{**given, **changed})


def paid(**changed: Any) -> EstimateRecord:
    """Cash 10% (5% to 20%), card 90% (80% to 95%)."""
    intervals = held(certain={"frequencies": [(0.05, 0.2), (0.8, 0.95)]})
    given: dict[str, Any] = {
        "study": "s", "attribute": "paid", "name": "shares", "estimator": "em", "reports": 10,
        "converged": True, "n_iterations": 1, "categories": ("cash", "card > 5"), "frequencies": (0.1, 0.9),
        "intervals": intervals,
    }  # fmt: skip
    return EstimateRecord(**{**given, **changed})


def results(*records: EstimateRecord) -> Results:
    """What a folder with these estimates holds."""
    about = RunRecord(study="s", study_fingerprint="0" * 32, run="1", input=())
    return Results("out", "batch", about, lambda: (None, ""), (), records)
