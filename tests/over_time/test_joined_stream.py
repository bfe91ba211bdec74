"""What a stream keeps of joined windows, besides its panes, which the tests of panes have."""

from __future__ import annotations

from pathlib import Path

from support.keyed_state import Key
from support.pane_reports import Report, batches_of, study_text

from ldpbeam.pipelines.spool.open_windows import OpenWindows
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.transforms.windows.fold import JoinedFold
from ldpbeam.transforms.windows.panes import _Window
from ldpbeam.transforms.windows.piece_keys import WindowKey


def test_a_report_opens_its_window_and_the_longer_one(tmp_path: Path) -> None:
    """So a run that ends within the longer one leaves it incomplete, also if all windows in it had closed."""
    services = "{maps: {mechanism: square_wave, epsilon: 1.0}}"
    study = parse_study(study_text(services, "{all: {}}", windows="size: 10s, joined: 30s"))
    opened = OpenWindows(study, str(tmp_path))
    for batch in batches_of(*(Report("ann", 1000 * at) for at in (2, 3, 12))):
        opened.add(batch)
    opened.file(None)
    assert set(opened.windows) == {("x", (0, 10_000)), ("x", (10_000, 20_000)), ("x", (0, 30_000))}


def test_a_longer_window_has_no_early_panes() -> None:
    """Its shards speak when it ends, so an early pane would have a part of them."""
    services, estimates = "{maps: {mechanism: square_wave, epsilon: 1.0}}", "{all: {}}"
    study = parse_study(study_text(services, estimates, windows="size: 10s, joined: 30s, early_reports: 1"))
    window = (0, 30_000)
    reports = batches_of(*(Report("ann", 1000 * at) for at in (2, 12, 22)))
    gained = JoinedFold(study).fold_window(study.attribute("x"), reports, window).statistics
    key = Key(_Window(study), WindowKey("x", window))
    assert key.come(gained) == []
    ((_, (pane,)),) = key.advance(30_001)
    assert (pane.pane_timing, pane.joined, pane.statistic.reports, pane.statistic.users) == (
        *("on_time", True),
        *(3, 1),
    )
