"""Output folders of all kinds of runs, small and made in this process, for tests of what reads them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

import ldpbeam as ldp
from ldpbeam import tally
from ldpbeam.cells import Cells
from ldpbeam.fit.spending import Spending
from ldpbeam.pipelines.spool.finish import Finishing, Pane
from ldpbeam.pipelines.spool.manifest import Manifest
from ldpbeam.pipelines.spool.place import Placed, StreamOutput, owned_by_stream
from ldpbeam.schemas.outputs.snapshots import Snapshot
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.statistics import Answers
from ldpbeam.transforms.outputs.snapshots import snapshot_file
from ldpbeam.transforms.reports.counts import accounting
from ldpbeam.transforms.segments import write_panes
from ldpbeam.transforms.storage import write_json

START = 1_795_168_800_000  # 2026-11-20T10:00:00Z
HOUR = 3_600_000
SPAN = ("--from", "2026-11-20T10:00:00Z", "--to", "2026-11-20T12:00:00Z")
#: A number, categories, keys with values and a vector, in windows and groups.
EVERYTHING = """\
study: everything
attributes:
  minutes:
    domain: {numeric: [0, 180]}
    buckets: 8
    ranges: [[0, 45]]
    services: {maps: {mechanism: piecewise, epsilon: 2.0}, taxi: {mechanism: square_wave, epsilon: 2.0}}
    estimates: {together: {estimator: ule}, mean: {estimator: ivw}}
  transport:
    domain: {categories: [car, bus, bike]}
    top: 2
    services: {city: {mechanism: grr, epsilon: 2.0}}
    estimates: {shares: {estimator: em}}
  rating:
    domain: {keys: [drama, comedy], values: [0, 10]}
    services: {films: {mechanism: pckv_grr, epsilon: 2.0}}
    estimates: {films: {estimator: key_value}}
  pulse:
    domain: {coordinates: [rest, run], values: [40, 200]}
    buckets: 4
    services: {watch: {mechanism: stochastic_rounding, epsilon: 2.0}}
    estimates: {mean: {estimator: ivw}}
windows: {size: 1h}
groups: {field: region, at_most: 1}
"""
_STREAM = """\
study: panes
attributes:
  x:
    domain: {numeric: [0, 10]}
    buckets: 4
    services: {maps: {mechanism: piecewise, epsilon: 2.0}}
    estimates: {all: {estimator: ems}, mean: {estimator: ivw}}
windows: {size: 1h}
"""


def everything_sent(folder: Path, people: int = 240) -> list[Path]:
    """Files of what clients of :data:`EVERYTHING` send within two hours."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(3)
    study = ldp.Study.from_yaml(EVERYTHING)
    values: dict[str, Any] = {
        "minutes": 180 * rng.beta(2, 4, people),
        "transport": rng.choice(["car", "bus", "bike"], people),
        "rating": [
            {"drama": rng.uniform(0, 10)} if rng.random() < 0.6 else {"comedy": 7} for _ in range(people)
        ],
        "pulse": rng.uniform(50, 150, (people, 2)),
    }
    users = [f"u{place}" for place in range(people)]
    groups = rng.choice(["north", "south", "east"], people, p=[0.6, 0.3, 0.1])
    times = START + np.arange(people) * (2 * HOUR // people)
    files = []
    for name, attribute in study.attributes.items():
        for service in attribute.services:
            client = ldp.Client(study, name, service, rng=rng)
            sent = client.reports(values[name], users, event_times=times, groups=groups)
            files.append(folder / f"{name}.{service}.parquet")
            pq.write_table(sent, files[-1])
    return files


def every_folder(
    place: Path,
    command: Callable[..., Any],
    run_estimate: Callable[..., Any],
    write_lines: Callable[..., Path],
) -> dict[str, Path]:
    """A folder of each kind of run, below a folder; the callables are the fixtures of these names."""
    inputs = everything_sent(place / "reports")
    bad = write_lines(place / "bad.jsonl", [{"attribute": "minutes", "service": "maps", "payload": 0.5}])
    allowed = ("--max-bad-fraction", "0.5")
    batch = run_estimate(place / "batch", EVERYTHING, [*inputs, bad], *allowed)
    assert batch.code == 0, batch.err
    scheduled = run_estimate(place / "scheduled", EVERYTHING, [*inputs, bad], *SPAN, *allowed)
    assert scheduled.code == 0, scheduled.err
    study = place / "batch" / "study.yaml"
    statistics = batch.path / "statistics" / "*.avro"
    rolled = command("rollup", "--study", study, "--statistics", statistics, "--output", place / "rolled")
    assert rolled.code == 0, rolled.err
    return {
        "batch": batch.path,
        "scheduled": scheduled.path,
        "rollup": place / "rolled",
        "stream": stream_folder(place / "stream"),
    }


def stream_folder(folder: Path) -> Path:
    """A folder of two runs of a stream: the first left a window open, the second one is early."""
    study = parse_study(_STREAM)
    attribute, rng = study.attribute("x"), np.random.default_rng(4)
    windows = [(START + place * HOUR, START + (place + 1) * HOUR) for place in range(3)]
    panes = {"run-1": [(0, "on_time"), (1, "early")], "run-2": [(1, "on_time"), (2, "early")]}
    for run, written in panes.items():
        output = StreamOutput(study, str(folder), run)
        with owned_by_stream(Placed(output, Manifest(study.fingerprint)), {"reads": "in/*"}):
            spending = Spending(START, START, 0, Cells(HOUR), 1)
            how = Finishing(output, spending)
            for number, (place, timing) in enumerate(written):
                reports = attribute.versions[0].mechanism.perturb(rng.uniform(0, 10, 50), rng)
                statistic = tally(attribute, 50, [Answers(0, np.arange(50), reports)])
                pane = replace(
                    Snapshot("x", windows[place], None, 0, statistic),
                    pane_timing=timing,
                    # The first run left the second window open.
                    complete=timing == "on_time" and place == 0,
                )
                (stored,) = write_panes(output.spool, number, [snapshot_file(study, run, [pane])])
                how.finish(Pane("x", *windows[place], 0, stored))
            shutil.rmtree(output.spool)
            counts = [("in", 101), ("used", 100), ("dead_letters", 1)]
            counts.append(("dead_letters_by_reason/no_user_id", 1))
            write_json(output.of_run("accounting.json"), accounting(counts))
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder by its path there, hidden ones too."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
