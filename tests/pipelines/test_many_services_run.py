"""A study that joins many services, from files of reports to estimates: rows of users all the way."""

from __future__ import annotations

import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ldpbeam import merge
from ldpbeam.estimators.joint_likelihood import marginal
from ldpbeam.folders.written import read_all
from ldpbeam.schemas.outputs.snapshots import Snapshot
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.statistics import explain

SERVICES = [f"s{number}" for number in range(9)]
ASKED = ", ".join(
    f"{name}: {{mechanism: {mechanism}, epsilon: 0.5}}"
    for name, mechanism in zip(SERVICES, ["piecewise", "square_wave", "stochastic_rounding"] * 3, strict=True)
)
TEXT = f"""\
study: nine
attributes:
  x:
    domain: {{numeric: [0, 1]}}
    services: {{{ASKED}}}
    estimates:
      all: {{estimator: ule, accelerated: true}}
      some: {{estimator: ule, services: [s1, s5], accelerated: true}}
windows: {{size: 1h}}
"""
START = 1_795_132_800_000  # 2026-11-20T00:00:00Z
HOUR = 3_600_000


@pytest.fixture(scope="module")
def ran(
    tmp_path_factory: pytest.TempPathFactory,
    run_estimate: Callable[..., Any],
    simulate: Any,
    write_reports: Any,
) -> Any:
    """A run over two hours of reports of the same 100 people."""
    folder = tmp_path_factory.mktemp("nine")
    values = np.random.default_rng(1).beta(2, 5, 100)
    sent = simulate(parse_study(TEXT), "x", values, seed=1, start=START, spread=2 * HOUR)
    found = run_estimate(folder, TEXT, write_reports(folder / "reports", sent))
    assert found.code == 0, found.err
    return found


def snapshots(folder: Path) -> list[Snapshot]:
    return [snapshot for _, snapshot in read_all([f"{folder}/statistics/*"])]


def test_a_run_keeps_a_row_for_each_user_that_its_owner_alone_may_read(
    ran: Any, tmp_path: Path, command: Callable[..., Any]
) -> None:
    folder = Path(ran.path)
    attribute = parse_study(TEXT).attribute("x")
    hours = snapshots(folder)
    assert len(hours) == 2
    for hour in hours:
        digits, counts = marginal(attribute, hour.statistic, attribute.services)
        assert counts.sum() == hour.statistic.users
        for index in range(len(SERVICES)):
            # Each service's column of the rows is its histogram, at another resolution.
            assert np.count_nonzero(digits[:, index]) == hour.statistic.histograms[index].sum()
    files = list((folder / "statistics").iterdir())
    day = tmp_path / "day"
    rolled = command(
        *("rollup", "--study", folder.parent / "study.yaml", "--output", day, "--statistics", *files)
    )
    assert rolled.code == 0, rolled.err
    (whole,) = snapshots(day)
    assert whole.statistic == merge(hour.statistic for hour in hours)
    files += (day / "statistics").iterdir()
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


def test_estimates_say_what_each_service_keeps_and_have_no_warning(ran: Any) -> None:
    estimates = ran.estimates
    assert len(estimates) == 4
    for estimate in estimates:
        kept = estimate["details"]["information_kept"]
        assert list(kept) == estimate["services"]
        assert min(kept.values()) >= 0.95
        assert not estimate.get("warnings")
        assert estimate["converged"]


def test_the_size_of_the_rows_is_said_before_a_run() -> None:
    more = ", ".join(f"t{n}: {{mechanism: square_wave, epsilon: 1}}" for n in range(10))
    coarse = TEXT.replace("    services:", "    joint_buckets: 2\n    services:")
    fine, coarse, many = (
        " ".join(explain(parse_study(text).attribute("x")))
        for text in (TEXT, coarse, TEXT.replace(ASKED, f"{ASKED}, {more}"))
    )
    assert "one row per user" in fine and "192, 192, 2, 192, 192, 2, 192, 192, 2 buckets" in fine
    assert "A row takes 16 bytes, 16 MB per million users" in fine and "may have at most 33,554,432" in fine
    assert "at least 98% of each service's information" in fine and "too little" not in fine
    assert re.search(r"That can be too little: \d\d% of s0's, .* information. Raise joint_buckets", coarse)
    assert "More than 16 joined services were never measured" in many and "A row takes 32 bytes" in many
