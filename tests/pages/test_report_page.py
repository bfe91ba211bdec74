"""``ldpbeam report`` in a real browser: it draws every chart, asks for nothing, and fits a phone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.studies import SMALL

from ldpbeam.schemas.study.yaml_file import parse_study

TWO_MB = 2_000_000


@pytest.fixture
def small(
    tmp_path: Path, run_estimate: Callable[..., Any], simulate: Any, write_reports: Any, command: Any
) -> Path:
    """The page of a batch run with two services."""
    values = np.random.default_rng(5).beta(2, 5, 400)
    sent = simulate(parse_study(SMALL), "x", values, users=[f"u{place}" for place in range(400)])
    ran = run_estimate(tmp_path, SMALL, write_reports(tmp_path / "reports", sent))
    assert ran.code == 0, ran.err
    path = tmp_path / "report.html"
    reported = command("report", ran.path, "-o", path)
    assert reported.code == 0, reported.err
    assert str(path) in reported.out
    return path


@pytest.mark.parametrize(("width", "scheme"), [(400, "dark"), (1280, "light")])
def test_a_batch_is_drawn_without_a_request(
    small: Path, open_page: Callable[..., Any], width: int, scheme: str
) -> None:
    opened = open_page(small, width, scheme)
    assert opened.requests == [small.as_uri()]
    assert opened.said == []
    assert opened.overflow <= 0
    # One estimate has a distribution: its area, its line and its strip.
    chart = opened.page.locator("[data-chart]").first
    assert chart.locator("g.mark-area path").count() == 2
    assert chart.locator("g.mark-line path").count() == 1
    assert small.stat().st_size < TWO_MB
