"""A stream says what a batch run over the same reports says, to the last bit, wherever it is killed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.spooled import Stream, in_polls

import ldpbeam as ldp
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.transforms.reports.counts import FATES, accounting
from ldpbeam.transforms.tally import tally_of

HOUR = 3_600_000
BEGAN = 500_000 * HOUR
PEOPLE = 600

WINDOWS = {
    "fixed": "{size: 1h}",
    "sliding": "{size: 1h, period: 20m}",
    "days": "{size: 1d, zone: America/New_York}",
    "early": "{size: 1h, early_reports: 100}",
}
ATTRIBUTES = {
    "two services": """
  x:
    domain: {numeric: [0, 10]}
    services: {a: {mechanism: square_wave, epsilon: 1}, b: {mechanism: piecewise, epsilon: 2}}
""",
    "categories": "\n  x: {domain: {categories: [p, q, r]}, services: {a: {mechanism: grr, epsilon: 1}}}\n",
    "bits": "\n  x: {domain: {categories: [p, q, r]}, services: {a: {mechanism: oue, epsilon: 1}}}\n",
    "nobody": """
  x: {domain: {categories: [p, q, r]}, users: none, services: {a: {mechanism: grr, epsilon: 1}}}
""",
    "vector": """
  x: {domain: {coordinates: [u, v], values: [0, 1]}, services: {a: {mechanism: piecewise, epsilon: 2}}}
""",
}
#: What else a study says.
OTHERS = {
    "": "",
    "all": "repeats: all\n",
    "keep": "duplicates: keep\n",
    "groups": "groups: {field: region, at_most: 2}\n",
}


def values_of(domain: str, rng: np.random.Generator, count: int) -> Any:
    """True values of people."""
    if domain in ("categories", "bits", "nobody"):
        return rng.choice(["p", "q", "r"], count)
    return rng.uniform(0, 1, (count, 2)) if domain == "vector" else rng.uniform(0, 10, count)


def reports_of(study: Any, domain: str, seed: int, *, ids: bool) -> pa.Table:
    """Reports of five hours with copies, repeats, and disorder of up to a minute."""
    rng = np.random.default_rng(seed)
    parts = []
    for service in study.attributes["x"].services:
        times = BEGAN + rng.integers(0, 5 * HOUR, PEOPLE)
        users = [f"user {n}" for n in rng.integers(0, PEOPLE // 3, PEOPLE)]
        given = {"groups": rng.choice(["north", "south", "west", ""], PEOPLE)} if study.groups else {}
        if ids:
            # A stream compares ids within a window alone, so that the same id is of the same report here.
            given["report_ids"] = [f"r{n}" for n in range(PEOPLE)]
        who = None if domain == "nobody" else users
        client = ldp.Client(study, "x", service)
        parts.append(client.reports(values_of(domain, rng, PEOPLE), who, event_times=times, **given))
    table = pa.concat_tables(parts)
    table = pa.concat_tables([table, table.slice(0, PEOPLE // 4)])
    times = table.column("event_time").cast(pa.int64()).to_numpy()
    return table.take(pa.array(np.argsort(times + rng.integers(0, 60_000, len(times)))))


#: Each domain in each kind of windows, and each rule with each domain.
CASES = [(windows, domain, "", False) for windows in WINDOWS for domain in ATTRIBUTES]
CASES += [("sliding", domain, other, True) for domain in ATTRIBUTES for other in OTHERS]
CASES.remove(
    ("sliding", "nobody", "all", True)
)  # a user's repeats are no question where nobody is told apart


@pytest.mark.parametrize(("windows", "domain", "other", "ids"), CASES)
def test_a_killed_stream_has_the_statistics_of_a_batch(
    windows: str, domain: str, other: str, ids: bool, tmp_path: Path
) -> None:
    # Statistics are compared, so nothing is solved.
    text = (
        f"study: s\nwindows: {WINDOWS[windows]}\npublish: {{at_least: 1000000}}\n{OTHERS[other]}"
        f"attributes:{ATTRIBUTES[domain]}"
    )
    study = parse_study(text)
    reports = reports_of(study, domain, seed=len(text) + ids, ids=ids)
    polls = in_polls(study, reports, 97)
    stream = Stream(study, polls, tmp_path)
    run = stream.through(kills=[1, 3, 2, 5])
    batch = tally_of(study, polls)
    ours = stream.snapshots()
    assert ours.keys() == {
        (one.attribute, one.window, one.group, one.other_groups) for one in batch.snapshots
    }
    for one in batch.snapshots:
        assert ours[one.attribute, one.window, one.group, one.other_groups].statistic == one.statistic
    counts, expected = accounting(run.counts.items()), batch.accounting
    assert {name: counts[name] for name in ("in", *FATES)} == {
        name: expected[name] for name in ("in", *FATES)
    }
    assert counts.get("used_in_windows") == expected.get("used_in_windows")
    assert not list((stream.folder / "spool").glob("*.arrow"))
