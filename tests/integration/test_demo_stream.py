"""The demonstration of the stream, as a person starts and ends it: estimates beside the truth."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from listeners import listeners
from stream_runs import MARK, processes_of
from terminal import CTRL_C, terminal

pytest.importorskip("google.cloud.pubsub_v1", reason="google-cloud-pubsub is not installed")
pytestmark = pytest.mark.slow

DEMO = Path(__file__).parents[2] / "examples" / "stream" / "demo.py"
LINE = re.compile(
    r"^(?P<start>[\d:]{8}) +(?P<people>[\d,]+) people  mean +(?P<mean>[\d.]+) \(true +(?P<true>[\d.]+)\)"
    r"  median +[\d.]+ \(true +[\d.]+\)  (?P<pane>[a-z, ]+)$",
    re.MULTILINE,
)


@pytest.mark.parametrize("server", ["pubsub", "kafka"])
def test_ctrl_c_ends_the_demonstration_which_listens_on_loopback_only(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    if server == "kafka":
        # Without a broker this skips, and says why; the demonstration starts one of its own.
        request.getfixturevalue("kafka")
    monkeypatch.delenv("PUBSUB_EMULATOR_HOST", raising=False)
    command = [sys.executable, DEMO, "--rate", "500", "--seconds", "600"]
    command += ["--output", tmp_path / "output", *(["--kafka"] if server == "kafka" else [])]
    mark = f"demo-{os.getpid()}"
    with terminal(command, {MARK: mark}) as run:
        run.wait_until(lambda: any(line["pane"] == "on time" for line in LINE.finditer(run.said)))
        before, opened = run.said, listeners(processes_of(mark))
        run.press(CTRL_C)
        assert run.wait() == 130, run.said
    *_, line = run.said.strip().splitlines()
    assert line.startswith("interrupted: ")
    assert ("Kafka broker: " in run.said) == (server == "kafka")
    check_said(run.said, tmp_path / "output")
    # The stream may say once more how many reports come.
    after = [line for line in run.said.removeprefix(before).splitlines() if line.strip() and "/s" not in line]
    assert len(after) <= 2, run.said
    assert processes_of(mark) == []
    # The ports of the server, and nothing of the stream.
    assert opened and all(listener.loopback and listener.port is not None for listener in opened)


def check_said(said: str, output: Path) -> None:
    """Every report is used, and the means of whole windows are as near to the truth as they say."""
    accounting = r"^(?:interrupted: )?([\d,]+) reports in = \1 used \+ 0 duplicates \+ 0 late"
    assert re.search(accounting, said, re.MULTILINE), said
    errors = standard_errors(output)
    whole = [line for line in LINE.finditer(said) if line["pane"] == "on time"]
    assert whole, said
    for line in whole:
        # The likelihood's mean is no less sure than the weighted one, of which the standard error is known.
        assert abs(float(line["mean"]) - float(line["true"])) < 5 * errors[line["start"]], said


def standard_errors(output: Path) -> dict[str, float]:
    """Of each window's mean: what the perturbation adds, by the time of day at which the window starts."""
    found: dict[str, Any] = {}
    for path in (output / "estimates").glob("*.jsonl"):
        for line in path.read_text().splitlines():
            record = json.loads(line)
            if record["name"] == "mean":
                found[record["window_start"][11:19]] = record["standard_error"]
    return found
