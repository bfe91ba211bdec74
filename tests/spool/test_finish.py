"""A pane's files and messages come in one order, and doing it again changes none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ldpbeam as ldp
from ldpbeam.cells import Cells
from ldpbeam.fit.spending import Spending
from ldpbeam.pipelines.spool.finish import Finishing, Pane, finish_all
from ldpbeam.pipelines.spool.place import StreamOutput
from ldpbeam.schemas.outputs.snapshots import Snapshot, read_snapshots
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.statistics import Answers
from ldpbeam.transforms.outputs.snapshots import snapshot_file
from ldpbeam.transforms.segments import write_panes

STUDY = parse_study(
    "study: s\nwindows: {size: 1h}\nintervals: false\npublish: {at_least: 5}\nattributes:\n"
    "  x: {domain: {categories: [p, q, r]}, services: {a: {mechanism: grr, epsilon: 1}}}\n"
)
WINDOW = (0, 3_600_000)


def test_statistics_come_first_then_estimates_and_then_what_is_published(tmp_path: Path) -> None:
    attribute = STUDY.attribute("x")
    codes = attribute.versions[0].mechanism.perturb(np.arange(50) % 3, np.random.default_rng(1))
    snapshot = Snapshot("x", WINDOW, None, 0, ldp.tally(attribute, 50, [Answers(0, np.arange(50), codes)]))
    (stored,) = write_panes(str(tmp_path / "run"), 1, [snapshot_file(STUDY, "run", [snapshot])])
    pane = Pane("x", *WINDOW, 0, stored)
    published: list[tuple[int, str]] = []

    def files(kind: str) -> list[Path]:
        return sorted((tmp_path / kind).glob("*"))

    def topic(records: Any) -> None:
        (statistics,), (estimates,) = files("statistics"), files("estimates")
        assert next(read_snapshots(statistics.open("rb"))).statistic == snapshot.statistic
        published.append((len(records), estimates.read_text()))
        if len(published) == 1:
            raise OSError("the topic is away")

    def finishing() -> Finishing:
        how = Finishing(
            StreamOutput(STUDY, str(tmp_path), "run", str(tmp_path)), Spending(0, 0, 0, Cells(1), 1)
        )
        how.__dict__["_publisher"] = topic
        return how

    finished, problem = finish_all(finishing(), [pane])
    assert (finished, problem) == ([], "the topic is away")
    # Another process does it again: what it publishes is what stands in the files.
    finished, problem = finish_all(finishing(), [pane])
    assert ([one.fields["reports"] for one in finished], problem) == ([50], "")
    assert published[0] == published[1]
    assert len(files("estimates")) == len(files("statistics")) == 1


def test_a_pane_whose_payloads_were_refused_says_so_in_its_estimates(tmp_path: Path) -> None:
    attribute = STUDY.attribute("x")
    snapshot = Snapshot(
        "x", WINDOW, None, 0, ldp.tally(attribute, 9, [Answers(0, np.arange(9), np.arange(9) % 3)])
    )
    (stored,) = write_panes(str(tmp_path / "run"), 1, [snapshot_file(STUDY, "run", [snapshot])])
    how = Finishing(StreamOutput(STUDY, str(tmp_path), "run", str(tmp_path)), Spending(0, 0, 0, Cells(1), 1))
    finish_all(how, [Pane("x", *WINDOW, 0, stored, {"x/a": 0.25})])
    (file,) = (tmp_path / "estimates").glob("*")
    assert "25.0% of the payloads of a were refused" in file.read_text()


@pytest.mark.parametrize("kind", ["statistics", "estimates"])
def test_a_pane_waits_for_a_disk_that_does_not_take_it(kind: str, tmp_path: Path) -> None:
    snapshot = Snapshot("x", WINDOW, None, 0, ldp.tally(STUDY.attribute("x"), 0, []))
    (stored,) = write_panes(str(tmp_path / "run"), 1, [snapshot_file(STUDY, "run", [snapshot])])
    (tmp_path / kind).write_text("this is no folder")
    how = Finishing(StreamOutput(STUDY, str(tmp_path), "run", str(tmp_path)), Spending(0, 0, 0, Cells(1), 1))
    finished, problem = finish_all(how, [Pane("x", *WINDOW, 1, stored)])
    assert finished == []
    assert str(tmp_path / kind) in problem
