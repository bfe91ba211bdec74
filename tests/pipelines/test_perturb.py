"""``ldpbeam perturb``: what clients would send, the same in every format, and as the mechanisms say."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

import ldpbeam as ldp
from ldpbeam.errors import UserError
from ldpbeam.pipelines.commands import perturb as perturb_command
from ldpbeam.pipelines.simulated.perturb import device_keys, uniforms_for
from ldpbeam.pipelines.simulated.report_files import make_room
from ldpbeam.schemas.encodings import avro, avro_blocks, avro_headers
from ldpbeam.schemas.files import json_lines, parquet
from ldpbeam.schemas.reports.columns import Columns
from ldpbeam.schemas.reports.payloads import payloads_in
from ldpbeam.study import Study

COLOURS = """
study: colours
attributes:
  colour:
    domain: {categories: [red, green, blue, "0"]}
    services:
      shop: {mechanism: grr, epsilon: 1.0}
      app: {mechanism: grr, version_field: build, versions: {old: {epsilon: 1.0}, new: {epsilon: 2.0}}}
    estimates: {all: {estimator: em}}
"""
BY_REGION = COLOURS + "groups: {field: region}\n"
START = 1_795_168_800_000  # 2026-11-20T10:00:00Z
NAMES = ("user_id", "event_time", "payload")
EXTRAS = ("region", "build")


def read(path: Path, study: str = COLOURS) -> list[dict[str, Any]]:
    """The reports of a file, decoded as the stream decodes them, without their places."""
    wanted = Columns(extras=EXTRAS)
    batches: list[Any] = []
    with path.open("rb") as stream:
        if path.suffix == ".avro":
            header = avro_headers.read_header(stream)
            blocks = avro_blocks.read_blocks(stream, header, 0, path.stat().st_size)
            batches = list(avro.decode_blocks(header, blocks, wanted))
        elif path.suffix == ".parquet":
            footer = parquet.read_footer(stream)
            for index in range(footer.num_row_groups):
                batches += parquet.decode_row_group(stream, footer, index, wanted)
        else:
            batches = list(json_lines.decode_lines(0, stream.read(), wanted))
    rows = []
    for batch in batches:
        assert isinstance(batch, pa.RecordBatch)
        named = {key.decode(): value.decode() for key, value in (batch.schema.metadata or {}).items()}
        # JSON lines have no place for how the reports were made.
        named = {key: value for key, value in named.items() if not key.startswith("ldpbeam.")}
        rows += [{**named, **row} for row in batch.to_pylist()]
    for row in rows:
        if isinstance(row["payload"], bytes):
            # A category's index; it stays bytes until its mechanism says what they are.
            row["payload"] = int.from_bytes(row["payload"], "little")
    return [{key: value for key, value in row.items() if key not in ("position", "row")} for row in rows]


@pytest.fixture
def perturb(tmp_path: Path, command: Any, make_people: Any) -> Callable[..., Any]:
    """Runs the command on some values: gives what it said and each service's reports."""
    places = iter(range(100))

    def run(study: str, name: str, values: Any, *options: object, **columns: Any) -> Any:
        folder = tmp_path / f"run{next(places)}"
        people = make_people(folder / "people.csv", values, **columns)
        (folder / "study.yaml").write_text(study)
        ran = command(
            "perturb", "--study", folder / "study.yaml", "--attribute", name, "--input", people,
            "--value-column", "value", "--output", folder / "out", *options,
        )  # fmt: skip
        assert ran.code == 0, ran.err
        files = sorted((folder / "out").glob("*"))
        return ran, {path.name.split(".")[1]: read(path) for path in files}

    return run


VALUES = ["red", "green", "blue", "0", "red"]


@pytest.mark.parametrize("users", [None, ["ann", "zoë", "a name of 16 b", "16 characters ok", "x"]])
def test_every_format_carries_the_same_reports(perturb: Any, users: list[str] | None) -> None:
    columns: dict[str, Any] = {"region": ["north", "", "sixteen letters!", "south", "x"]}
    options: list[object] = ["--seed", 5, "--start", "2026-11-20T10:00:00.25Z", "--group-column", "region"]
    if users:
        columns["person"] = users
        options += ["--user-column", "person"]
    found = {
        kind: perturb(BY_REGION, "colour", VALUES, "--format", kind, *options, **columns)[1]
        for kind in ("avro", "jsonl", "parquet")
    }
    assert found["avro"] == found["jsonl"] == found["parquet"]
    for service, extra in (("shop", {}), ("app", {"build": "old"})):
        rows = found["avro"][service]
        assert [row["region"] for row in rows] == [name or None for name in columns["region"]]
        assert all(row["attribute"] == "colour" and row["service"] == service for row in rows)
        assert all(row | extra == row for row in rows)
        if users:
            assert [row["user_id"] for row in rows] == [user.encode() for user in users]


def test_without_a_seed_two_runs_differ_and_with_one_they_are_for_tests(perturb: Any) -> None:
    seeds = ((), (), ("--seed", 7), ("--seed", 7), ("--seed", 8))
    runs = [perturb(COLOURS, "colour", VALUES * 20, "--start", START, *seed) for seed in seeds]
    (one, secure), (_, again), (tests, seeded), (_, repeated), (_, other) = runs
    assert seeded == repeated
    # Keys, times and noise each come from the source: 100 of any of them are never equal by chance.
    for name in NAMES:
        for service in ("shop", "app"):
            drawn = [[row[name] for row in found[service]] for found in (secure, again, seeded, other)]
            assert all(drawn.count(column) == 1 for column in drawn)
    assert "for tests only" in tests.err
    assert "for tests only" not in one.err


def test_reports_of_a_service_are_replaced_if_asked_and_no_others(tmp_path: Path) -> None:
    for name in ("x.a.00000-of-00002.avro", "x.a.00001-of-00002.avro", "x.a-0.00000-of-00001.avro"):
        (tmp_path / name).touch()
    with pytest.raises(UserError, match=r"has reports of x to a already \(x\.a\.00000-of-00002"):
        make_room(tmp_path, "x", "a", overwrite=False)
    make_room(tmp_path, "x", "b", overwrite=False)
    assert len(list(tmp_path.iterdir())) == 3
    make_room(tmp_path, "x", "a", overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == ["x.a-0.00000-of-00001.avro"]


def test_a_command_that_is_interrupted_leaves_no_reports(
    tmp_path: Path, command: Any, make_people: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = perturb_command.write_reports

    def interrupted(folder: Path, sent: Any, kind: str) -> list[Path]:
        if sent.service == "app":
            raise KeyboardInterrupt
        return written(folder, sent, kind)

    monkeypatch.setattr(perturb_command, "write_reports", interrupted)
    people = make_people(tmp_path / "people.csv", VALUES)
    (tmp_path / "study.yaml").write_text(COLOURS)
    ran = command(
        "perturb", "--study", tmp_path / "study.yaml", "--attribute", "colour", "--input", people,
        "--value-column", "value", "--output", tmp_path / "out",
    )  # fmt: skip
    assert ran.code == 130
    assert "reports to shop" in ran.out
    assert list((tmp_path / "out").iterdir()) == []


def test_what_people_may_not_expect_is_said(perturb: Any) -> None:
    study = COLOURS.replace('{categories: [red, green, blue, "0"]}', "{numeric: [0, 10]}")
    study = study.replace("grr", "laplace").replace("{estimator: em}", "{estimator: ems}")
    users = ["ann", "ann", "bob", "eve"]
    ran, _ = perturb(study, "colour", [1, 11, "x", 5], "--user-column", "user", user=users)
    assert "1 row has no usable value and was left out" in ran.err
    assert "1 value lies outside the domain and was clipped to it" in ran.err
    assert "rows of users who have an earlier row: 1; of a user's reports" in ran.err
    ran, _ = perturb(study, "colour", [5, 11, 12, 13])
    assert "3 values lie outside the domain and were clipped to it: check the column and the unit" in ran.err
    ran, _ = perturb(COLOURS, "colour", ["red", "yellow"])
    assert "1 row has no usable value and was left out; one has 'yellow'" in ran.err
    assert "clipped to it" not in ran.err


def test_one_person_has_one_user_id_and_one_time_at_every_service(perturb: Any, commute_text: str) -> None:
    _, found = perturb(commute_text, "minutes", range(100), "--start", START, "--spread", "3h")
    keys = [[(row["user_id"], row["event_time"]) for row in found[s]] for s in ("maps", "taxi", "survey")]
    assert keys[0] == keys[1] == keys[2]
    assert len({user for user, _ in keys[0]}) == 100
    assert {len(user) for user, _ in keys[0]} == {16}


def test_times_come_from_their_column_or_are_spread_from_the_start(perturb: Any, commute_text: str) -> None:
    _, found = perturb(commute_text, "minutes", [1], "--time-column", "t", t=[START + 1])
    assert [row["event_time"] for row in found["maps"]] == [START + 1]
    options = ("--start", "2026-11-20T10:00:00Z", "--spread", "2s", "--seed", 1)
    _, found = perturb(commute_text, "minutes", [90] * 2000, *options)
    spread = np.array([row["event_time"] for row in found["maps"]]) - START
    assert spread.min() >= 0
    assert spread.max() < 2000
    # 2,000 even draws in four quarters; the seed is fixed, and one in 10,000 would fail.
    assert stats.chisquare(np.bincount(spread // 500, minlength=4)).pvalue > 1e-4


def test_versions_by_time_have_their_own_epsilon(perturb: Any, commute_text: str) -> None:
    text = commute_text.replace(
        "maps:   {mechanism: square_wave, epsilon: 1.0}",
        "maps: {mechanism: piecewise, versions: {old: {epsilon: 0.5, until: '2026-11-20T11:00:00Z'}, "
        "new: {epsilon: 4.0, since: '2026-11-20T11:00:00Z'}}}",
    )
    _, found = perturb(text, "minutes", [90] * 2000, "--start", START, "--spread", "2h", "--seed", 2)
    rows = found["maps"]
    # At epsilon 4 no report is beyond C = 1.313; at 0.5 C is 8.04, so over half of them are.
    early = [abs(row["payload"]) > 1.4 for row in rows if row["event_time"] < START + 3_600_000]
    late = [abs(row["payload"]) > 1.4 for row in rows if row["event_time"] >= START + 3_600_000]
    assert np.mean(early) > 0.3
    assert not any(late)
    assert len(early) + len(late) == 2000


def test_reports_are_those_of_the_client_of_the_library(simulate: Any, commute: Study) -> None:
    values, users = [0.0, 45.0, 180.0] * 20, [f"user {number}" for number in range(60)]
    for sent in simulate(commute, "minutes", values, users=users, seed=3, start=START, spread=3_600_000):
        rng = uniforms_for(3, f"minutes/{sent.service}")
        client = ldp.Client(commute, "minutes", sent.service, rng=rng)
        table = client.reports(values, users, event_times=sent.times)
        assert payloads_in(table.column("payload").combine_chunks(), sent.payloads.dtype).tolist() == (
            sent.payloads.tolist()
        )


def test_a_user_has_one_device_key_whatever_the_form_of_the_id() -> None:
    one = uuid.UUID("0f9c1e5a-7b3d-4c2a-9e8f-6d5c4b3a2918")
    forms = pa.array([str(one), one.hex, one.urn, f"{{{one}}}".upper(), "ann"])
    keys = device_keys(bytes(16), forms)
    assert len(set(keys[:4])) == 1 and keys[4] not in keys[:4]
    assert device_keys(bytes(16), pa.array([one.bytes])) == keys[:1]
