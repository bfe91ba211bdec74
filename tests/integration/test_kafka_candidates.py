"""A stream of candidates, with a table that comes late and a kill, ends as batch runs do."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kafka_messages import new_topic, produce
from stream_messages import HOUR, client, one_by_one
from stream_runs import answers, closes, streaming

from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.times import rfc3339

pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
pytestmark = pytest.mark.slow

#: When each day in Berlin begins, and the last one ends: the second has 25 hours, as clocks go back.
STARTS = 1_761_343_200_000 + HOUR * np.array([0, 24, 49, 73])  # 2025-10-25T00:00:00+02:00
MANY = 3_000
STUDY = (
    "study: polls\nattributes:\n  saw:\n"
    "    domain: {candidates: names, places: 6}\n    services: {device: {mechanism: grr, epsilon: 2}}\n"
    "windows: {size: 1d, zone: Europe/Berlin, allowed_lateness: 6h, max_age: 30000d}\n"
)
NAMES = (("snow", "strike", "phone"), ("cup", "strike"), ("election", "cup"))
SHARES = ((0.5, 0.2, 0.2, 0.1), (0.3, 0.6, 0.1), (0.1, 0.7, 0.2))


def table(folder: Path, day: int) -> None:
    """The names of a day, in a file that is renamed when it is whole."""
    start, end = map(rfc3339, STARTS[day : day + 2].tolist())
    rows = "".join(f"{start},{end},{place},{name}\n" for place, name in enumerate(NAMES[day]))
    (folder / f".{day}").write_text(f"since,until,place,name\n{rows}")
    (folder / f".{day}").rename(folder / f"{day}.csv")


def days() -> list[Any]:
    """What the devices of each day send."""
    sent = []
    for day, shares in enumerate(SHARES):
        rng = np.random.default_rng(day)
        times = np.sort(rng.integers(*STARTS[day : day + 2], MANY))
        users = [f"{day}-{number}" for number in range(MANY)]
        values = rng.choice(len(shares), MANY, p=shares)
        sent += client.perturbed(parse_study(STUDY), "saw", values, users, times, day)
    return sent


def test_three_days_with_a_late_table_and_a_kill_are_three_batch_runs_and_roll_up_by_name(
    kafka: Any, run_estimate: Any, write_reports: Any, command: Any, tmp_path: Path
) -> None:
    (folder := tmp_path / "stream" / "names").mkdir(parents=True)
    table(folder, 0)
    sent, topic = days(), new_topic(kafka.address, 1)
    options = ("--kafka", kafka.address, "--topic", topic, "--max-disorder", "1m")
    first, second, third = ([*one_by_one([day])] for day in sent)
    with streaming(tmp_path / "stream", STUDY, *options) as stream:
        # The third day has more than one report in 20, and so ends the second one; it has begun too little to
        # end the time that the second may be late.
        produce(kafka.address, topic, [*first, *second, *third[:600]], 1)
        stream.wait_until_said("saw .* on time: 3,000 reports.*, not estimated: its places have no names")
        stream.end(signal.SIGKILL)
    table(folder, 1)
    table(folder, 2)
    with streaming(tmp_path / "stream", STUDY, *options, "--stop-when-idle", "3s") as stream:
        produce(kafka.address, topic, third[600:], 1)
        code, left = stream.wait(), stream.left
    said = stream.said
    assert code == 0, said
    assert closes(left.accounting)
    assert left.accounting["used"] == 3 * MANY
    batches: list[dict[str, Any]] = []
    for day, reports in enumerate(sent):
        paths = write_reports(tmp_path / f"day-{day}", [reports])
        run = run_estimate(tmp_path / f"batch-{day}", STUDY.replace("names", str(folder)), paths)
        assert run.code == 0, run.err
        batches += run.estimates
    assert [record["categories"] for record in batches] == [[*names, "others"] for names in NAMES]
    assert left.estimates == answers(batches)
    rolled = []
    of_days = [f"{tmp_path}/batch-{day}/output/statistics/*.avro" for day in range(3)]
    for number, statistics in enumerate(([f"{left.output}/statistics/*.avro"], of_days)):
        given = ("--study", left.output.parent / "study.yaml", "--statistics", *statistics)
        ran = command("rollup", *given, "--output", tmp_path / f"rolled-{number}")
        assert ran.code == 0, ran.err
        (line,) = (tmp_path / f"rolled-{number}" / "estimates.jsonl").read_text().splitlines()
        rolled.append(json.loads(line))
    assert rolled[0]["categories"] == ["snow", "strike", "phone", "cup", "election", "others"]
    assert answers(rolled[:1]) == answers(rolled[1:])
