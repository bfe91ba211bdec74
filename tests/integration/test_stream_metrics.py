"""The metrics of a stream while it runs: what is scraped last is what its accounting holds at the end."""

from __future__ import annotations

import json
import re
import signal
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families
from stream_messages import MINUTE, WEEK_AGO, client, evenly
from stream_runs import closes, streaming

from ldpbeam.schemas.study.yaml_file import parse_study

pytestmark = pytest.mark.slow

#: A study that counts a report once it is read, whether its window closes or not.
STUDY = """\
study: minutes
attributes:
  minutes:
    domain: {numeric: [0, 180]}
    services: {maps: {mechanism: piecewise, epsilon: 1.0}}
    estimates: {mean: {estimator: ivw}}
duplicates: keep
windows: {size: 1m, max_age: 30000d}
"""
MANY, TOO_LATE = 2_000, 30
BAD = ["no report\n", '{"attribute": "nothing"}\n', '{"user_id": "u", "attribute": "minutes"}\n']


def reports(people: int, start: int) -> Any:
    """What people send within ten minutes."""
    values, users = np.full(people, 30.0), [f"{start}-{n}" for n in range(people)]
    return client.perturbed(
        parse_study(STUDY), "minutes", values, users, evenly(start, 10 * MINUTE, people), 1
    )


def scraped(url: str) -> dict[str, float]:
    """The samples at an address: their names, and a label's value after it."""
    with urllib.request.urlopen(f"{url}/metrics", timeout=60) as answer:
        text = answer.read().decode()
    return {
        " ".join([sample.name, *sample.labels.values()]): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_metrics_scraped_during_a_run_equal_its_accounting_at_the_end(
    prism: str, write_reports: Callable[..., list[Path]], tmp_path: Path
) -> None:
    folder = tmp_path / "reports"
    folder.mkdir()

    def appear(name: str, people: int, start: int) -> None:
        for path in write_reports(tmp_path / name, reports(people, start)):
            path.rename(folder / f"{name}-{path.name}")

    appear("first", MANY, WEEK_AGO)
    (folder / "second.jsonl").write_text("".join(BAD))
    first = MANY + len(BAD)
    options = ("--input", folder / "*", "--max-disorder", "1s", "--metrics-port", "0", "--log-json")
    with streaming(tmp_path, STUDY, prism, *options) as stream:
        stream.wait_until_said("^run .* reading ")
        found = re.search(r'"url": "([^"]*)"', stream.said)
        assert found
        url = found[1]
        stream.wait_until(lambda: _get(url, "/readyz") == 200)
        stream.wait_until(lambda: _get(url, "/metrics") == 200)
        stream.wait_until(lambda: counted(url) == (first, first))
        # All windows close, as nothing follows, so reports of earlier ones are late.
        closed = WEEK_AGO / 1000 + 10 * 60
        stream.wait_until(lambda: scraped(url).get("ldpbeam_watermark_timestamp_seconds", 0) >= closed)
        appear("third", TOO_LATE, WEEK_AGO - 10 * MINUTE)
        stream.wait_until(lambda: counted(url) == (first + TOO_LATE, first + TOO_LATE))
        stream.wait_until(lambda: scraped(url)["ldpbeam_solve_seconds_count"] == 10)
        last = scraped(url)
        assert _get(url, "/healthz") == 200
        assert stream.end(signal.SIGTERM) == 0, stream.said
        counts = stream.left.accounting
        lines = [json.loads(line) for line in stream.said.splitlines() if line.startswith("{")]
    assert closes(counts)
    assert counts["late"] == TOO_LATE
    assert counts["dead_letters"] == len(BAD)
    check_equal(last, counts)
    assert last["ldpbeam_open_windows"] == 0
    assert last["ldpbeam_resident_memory_bytes engine"] > 2**20
    assert last["ldpbeam_fit_tests"] > 0
    # A line of the log for each window that closed.
    panes = [line for line in lines if line.get("event") == "pane"]
    assert [line["reports"] for line in panes] == [MANY // 10] * 10
    assert {line["pane_timing"] for line in panes} == {"on_time"}


def check_equal(samples: Mapping[str, float], accounting: Mapping[str, Any]) -> None:
    """Check that every count of an accounting is in samples."""
    counts = dict(accounting)
    reasons = counts.pop("dead_letters_by_reason")
    assert {key: n for key, n in samples.items() if key.startswith("ldpbeam_dead_letters_total ")} == {
        f"ldpbeam_dead_letters_total {reason}": n for reason, n in reasons.items()
    }
    assert samples["ldpbeam_reports_read_total"] == counts.pop("in")
    for outcome in ("used", "duplicates", "late", "out_of_range", "dead_letters"):
        assert samples[f"ldpbeam_reports_total {outcome}"] == counts.pop(outcome)
    assert {name: samples[f"ldpbeam_{name}_total"] for name in counts} == counts


def counted(url: str) -> tuple[float, float]:
    """How many reports were read, and how many of them have an outcome."""
    samples = scraped(url)
    outcomes = (number for name, number in samples.items() if name.startswith("ldpbeam_reports_total "))
    return samples["ldpbeam_reports_read_total"], sum(outcomes)


def _get(url: str, path: str) -> int:
    try:
        with urllib.request.urlopen(f"{url}{path}", timeout=60) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
