"""Candidates by window: batch runs and roll-ups have the names of each window, and add them up by name."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.tallied import tallied

import ldpbeam as ldp
from ldpbeam.folders.output import Output
from ldpbeam.folders.written import write_all
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.transforms.candidates import with_names

STUDY = """\
study: polls
users: none
attributes:
  saw: {domain: {candidates: names.csv, places: 6}, services: {device: {mechanism: grr, epsilon: 1.0}}}
windows: {size: 1d, allowed_lateness: 1h}
"""
PLACES = 6
START = 1_795_132_800_000  # 2026-11-20T00:00:00Z
DAY = 86_400_000
#: The names of three days, by place; what nobody names is at the first other place.
DAYS = ({0: "snow", 1: "strike", 2: "<b>phone</b>"}, {0: "cup", 2: "strike"}, {0: "election", 1: "cup"})
SHARES = ((0.5, 0.3, 0.1, 0.1, 0, 0), (0.2, 0.1, 0.7, 0, 0, 0), (0.3, 0.6, 0.1, 0, 0, 0))
MANY = 20_000


def table(days: Sequence[int]) -> str:
    times = [f"2026-11-{20 + day}T00:00:00Z" for day in range(4)]
    rows = (
        f"{times[day]},{times[day + 1]},{place},{name}" for day in days for place, name in DAYS[day].items()
    )
    return "since,until,place,name\n" + "".join(f"{row}\n" for row in rows)


def reports(mechanism: str = "grr") -> list[dict[str, Any]]:
    """The reports of three days, a table of columns for each."""
    rng = np.random.default_rng(7)
    study = ldp.Study.from_yaml(STUDY.replace("grr", mechanism))
    client = study.attribute("saw").versions[0].mechanism
    return [
        {
            "attribute": "saw",
            "service": "device",
            "event_time": START + day * DAY + np.arange(MANY),
            "payload": client.perturb(rng.choice(PLACES, MANY, p=shares), rng),
        }
        for day, shares in enumerate(SHARES)
    ]


def lines(path: Path, tables: Sequence[dict[str, Any]]) -> Path:
    with path.open("w") as stream:
        for one in tables:
            for time, payload in zip(one["event_time"].tolist(), one["payload"].tolist(), strict=True):
                report = {"attribute": "saw", "service": "device", "event_time": time, "payload": payload}
                stream.write(json.dumps(report) + "\n")
    return path


def by_name(record: dict[str, Any]) -> dict[str, float]:
    return dict(zip(record["categories"], record["frequencies"], strict=True))


def records(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "estimates.jsonl").read_text().splitlines()]


def without_run(record: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in record.items() if name != "run"}


def test_windows_without_names_are_counted_and_a_roll_up_names_them_later(
    run_estimate: Any, command: Any, tmp_path: Path
) -> None:
    names = tmp_path / "names.csv"
    names.write_text(table([0, 2]))
    run = run_estimate(tmp_path, STUDY, [lines(tmp_path / "in.jsonl", reports())])
    assert run.code == 3
    assert [record["window_start"][:10] for record in run.estimates] == ["2026-11-20", "2026-11-22"]
    assert run.accounting["windows_without_names"] == 1
    assert "saw 2026-11-21T00:00:00Z to 2026-11-22T00:00:00Z" in run.err
    names.write_text(table(range(3)))
    given = ("--study", tmp_path / "study.yaml", "--statistics", f"{run.path}/statistics/*.avro")
    rolled = command("rollup", *given, "--window", "1d", "--output", tmp_path / "rolled")
    assert rolled.code == 0, rolled.err
    whole = run_estimate(tmp_path / "whole", STUDY.replace("names.csv", str(names)), [tmp_path / "in.jsonl"])
    assert [without_run(record) for record in records(tmp_path / "rolled")] == whole.estimates


#: All names in the order of their first days, and where the places of each day go: what has no name on a day
#: is at its first other place, and the places after it are nobody's.
TOGETHER = ("snow", "strike", "<b>phone</b>", "cup", "election", "others")
MOVED = ((0, 1, 2, 5, 3, 4), (3, 5, 1, 0, 2, 4), (4, 3, 5, 0, 1, 2))


def moved(table: dict[str, Any], to: Sequence[int], mechanism: str) -> dict[str, Any]:
    """The reports that the same clients would have sent, had each name had one place on all days."""
    payload = table["payload"]
    if mechanism == "grr":
        return table | {"payload": np.array(to)[payload]}
    bits = np.unpackbits(payload.view(np.uint8).reshape(-1, 1), axis=1, count=PLACES, bitorder="little")
    exchanged = np.zeros_like(bits)
    exchanged[:, to] = bits
    return table | {"payload": np.packbits(exchanged, axis=1, bitorder="little").ravel().view(payload.dtype)}


@pytest.mark.parametrize("mechanism", ["grr", "oue", "sue", "subset_selection"])
def test_a_roll_up_adds_up_by_name(mechanism: str, command: Any, tmp_path: Path) -> None:
    text = STUDY.replace("grr", mechanism)
    (tmp_path / "names.csv").write_text(table(range(3)))
    days = reports(mechanism)
    snapshots = tallied(text, days).snapshots
    study = parse_study(text, str(tmp_path / "study.yaml"))
    (tmp_path / "study.yaml").write_text(text)
    write_all(Output(study, str(tmp_path / "days"), "days"), snapshots)
    given = ("--study", tmp_path / "study.yaml", "--statistics", f"{tmp_path}/days/statistics/*.avro")
    ran = command("rollup", *given, "--output", tmp_path / "all")
    assert ran.code == 0, ran.err
    (rolled,) = records(tmp_path / "all")
    same_places = [moved(day, to, mechanism) for day, to in zip(days, MOVED, strict=True)]
    plain = text.replace("candidates: names.csv, places: 6", "categories: 6").replace("windows:", "#")
    (expected,) = ldp.estimate(ldp.Study.from_yaml(plain), same_places)
    assert tuple(rolled["categories"]) == TOGETHER
    assert rolled["frequencies"] == list(expected.frequencies)
    assert rolled["intervals"]["ends"]["certain"]["frequencies"]["low"] == list(
        expected.intervals.ends["certain"]["frequencies"].low
    )
    true = dict.fromkeys(TOGETHER, 0.0)
    for names, shares in zip(DAYS, SHARES, strict=True):
        for place, share in enumerate(shares):
            true[names.get(place, "others")] += share / len(DAYS)
    assert rolled["frequencies"] == pytest.approx(list(true.values()), abs=0.03)
    # A roll-up can be rolled up again, but not with a day of other names.
    parts, whole = given[:3], f"{tmp_path}/all/statistics/*.avro"
    assert command("rollup", *parts, whole, "--output", tmp_path / "again").code == 0
    assert by_name(records(tmp_path / "again")[0]) == by_name(rolled)
    first, *later = sorted((tmp_path / "days" / "statistics").glob("*.avro"))
    assert command("rollup", *parts, *later, "--output", tmp_path / "later").code == 0
    refused = (*parts, f"{tmp_path}/later/statistics/*.avro", first, "--output", tmp_path / "no")
    assert "need the statistics of these windows: give them instead" in command("rollup", *refused).err


def test_a_roll_up_that_cannot_add_up_by_name_is_refused(command: Any, tmp_path: Path) -> None:
    def refused(mechanism: str, names: str, days: int = 3) -> str:
        folder = tmp_path / f"{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        text = STUDY.replace("grr", mechanism)
        (folder / "study.yaml").write_text(text)
        (folder / "names.csv").write_text(names)
        study = parse_study(text, str(folder / "study.yaml"))
        write_all(
            Output(study, str(folder / "days"), "days"), tallied(text, reports(mechanism)[:days]).snapshots
        )
        given = ("--study", folder / "study.yaml", "--statistics", f"{folder}/days/statistics/*.avro")
        ran = command("rollup", *given, "--output", folder / "all")
        assert ran.code == 2 or not ran.err
        return str(ran.err)

    every = table(range(3))
    assert (
        "reports of hadamard cannot be added up by name (only reports of grr, oue, sue, subset_selection,"
        in refused("hadamard", every)
    )
    assert "reports of olh cannot be added up by name" in refused("olh", every)
    assert "no names for 2026-11-21T00:00:00Z to 2026-11-22T00:00:00Z" in refused("grr", table([0, 2]))
    many = "place,name\n" + "".join(f"{place},{place}\n" for place in range(PLACES))
    assert refused("hadamard", many) == ""
    more = every + "2026-11-22T00:00:00Z,2026-11-23T00:00:00Z,5,sixth\n"
    assert "they have 6 names together; with one place for others, that is more" in refused("grr", more)


def test_a_roll_up_says_that_names_have_changed(command: Any, tmp_path: Path) -> None:
    names, given = tmp_path / "names.csv", ("--study", tmp_path / "study.yaml", "--statistics")
    names.write_text(table(range(3)))
    (tmp_path / "study.yaml").write_text(STUDY)
    study = parse_study(STUDY, str(tmp_path / "study.yaml"))
    snapshots = [with_names(study, snapshot) for snapshot in tallied(STUDY, reports()).snapshots]
    write_all(Output(study, str(tmp_path / "days"), "days"), snapshots)
    days = f"{tmp_path}/days/statistics/*.avro"
    unchanged = command("rollup", *given, days, "--output", tmp_path / "all")
    assert "changed" not in unchanged.err
    names.write_text(table(range(3)).replace("election", "vote"))
    changed = command("rollup", *given, days, "--output", tmp_path / "other")
    assert "current names are used: saw 2026-11-22T00:00:00Z to 2026-11-23T00:00:00Z" in changed.err
    assert "vote" in records(tmp_path / "other")[0]["categories"]
    again = command("rollup", *given, f"{tmp_path}/all/statistics/*.avro", "--output", tmp_path / "again")
    assert again.code == 2
    assert "a roll-up by the names that its windows had then; names that differ now" in again.err
