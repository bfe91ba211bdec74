"""Categories by hash and by bits, vectors, and keys with values, from a file of people to estimates."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from support.tallied import tallied

from ldpbeam import Answers, tally
from ldpbeam.answers.people import PeopleColumns, read_people
from ldpbeam.errors import StudyError
from ldpbeam.pipelines.simulated.perturb import simulate
from ldpbeam.schemas.study.yaml_file import parse_study

TEXT = """\
study: mixed
attributes:
  colour:
    domain: {categories: [red, green, blue, grey, "NA"]}
    top: 3
    services:
      hashed: {mechanism: olh, epsilon: 2.0}
      any: {mechanism: olh, epsilon: 2.0, seeds: any}
      bits: {mechanism: oue, epsilon: 2.0}
      sign: {mechanism: hadamard, epsilon: 2.0}
    estimates:
      all: {estimator: inversion}
      cut: {estimator: base_cut, services: [bits]}
      joined: {estimator: ule, services: [hashed, bits, sign]}
  size:
    domain: {categories: 9}
    services: {s: {mechanism: oue, epsilon: 2.0}}
    estimates: {all: {estimator: norm_sub}}
  v:
    domain: {coordinates: [north, east, up], values: [-10, 10]}
    buckets: 16
    ranges: [[-10, 0], [2.5, 7], [9, 99]]
    quantiles: [0.5]
    services:
      s: {mechanism: piecewise, epsilon: 2.0}
    estimates:
      shape: {estimator: ems}
      mean: {estimator: ivw}
  basket:
    domain: {keys: [milk, bread, tea], values: [0, 5]}
    top: 2
    services:
      s: {mechanism: privkv, epsilon: 4.0}
    estimates:
      all: {estimator: key_value}
"""
STUDY = parse_study(TEXT)
FORMATS = {"colour": "avro", "size": "jsonl", "v": "parquet", "basket": "jsonl"}
N = 600


class Case(NamedTuple):
    """People of every attribute, and what a run over their reports gave."""

    people: dict[str, Path]
    options: dict[str, tuple[str, ...]]
    run: Any


def csv(path: Path, rows: list[dict[str, Any]]) -> Path:
    lines = [",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def case(
    tmp_path_factory: pytest.TempPathFactory, command: Callable[..., Any], run_estimate: Callable[..., Any]
) -> Case:
    folder, rng = tmp_path_factory.mktemp("mixed"), np.random.default_rng(1)
    (folder / "study.yaml").write_text(TEXT)
    colours = rng.choice(["red", "green", "blue", "grey"], N, p=[0.5, 0.3, 0.15, 0.05])
    people = {
        "colour": csv(folder / "colours.csv", [{"id": f"u{i}", "c": c} for i, c in enumerate(colours)]),
        "size": csv(folder / "sizes.csv", [{"c": size} for size in rng.integers(0, 9, N)]),
        "v": csv(
            folder / "vectors.csv",
            [
                {"up": 10 * math.sqrt(up), "id": f"u{i}", "north": 20 * north - 10, "east": -10 * east}
                for i, (up, north, east) in enumerate(rng.random((N, 3)))
            ],
        ),
        "basket": csv(
            folder / "baskets.csv",
            [
                {"who": f"u{i}", "what": key, "how": value}
                for i in range(N)
                for key, value in [("milk", 4.5) if i % 2 else ("", ""), ("tea", 1)][: 2 if i % 5 == 0 else 1]
            ],
        ),
    }  # fmt: skip
    options = {
        "colour": ("--value-column", "c", "--user-column", "id"),
        "size": ("--value-column", "c"),
        "v": ("--user-column", "id"),
        "basket": ("--value-column", "how", "--key-column", "what", "--user-column", "who"),
    }
    for name, path in people.items():
        ran = command(
            "perturb", "--study", folder / "study.yaml", "--attribute", name, "--input", path,
            "--seed", 5, "--format", FORMATS[name], "--output", folder / "reports", *options[name],
        )  # fmt: skip
        assert ran.code == 0, ran.err
    truth = ("--attribute", "v", "--truth", people["v"], "--user-column", "id")
    run = run_estimate(folder / "run", TEXT, sorted((folder / "reports").glob("*")), *truth)
    assert run.code == 0, run.err
    return Case(people, options, run)


def statistics_of(run: Any) -> dict[str, Any]:
    return {snapshot.attribute: snapshot.statistic for snapshot in run.snapshots}


def test_statistics_are_those_of_what_the_clients_sent(case: Case) -> None:
    found = statistics_of(case.run)
    for name, path in case.people.items():
        options = dict(zip(case.options[name][::2], case.options[name][1::2], strict=True))
        columns = PeopleColumns(
            value=options.get("--value-column"),
            key=options.get("--key-column"),
            user=options.get("--user-column"),
        )
        attribute = STUDY.attribute(name)
        people = read_people(str(path), columns, attribute.domain)
        assert people.count == N
        sent = list(
            simulate(
                STUDY, attribute, people, services=attribute.services, versions={}, start=0, spread=1, seed=5
            )
        )
        if name == "v":
            payloads = sent[0].payloads
            for index, coordinate in enumerate(("north", "east", "up")):
                own = payloads["report"][payloads["coordinate"] == index]
                whole = tally(
                    STUDY.attribute(f"v.{coordinate}"), len(own), [Answers(0, np.arange(len(own)), own)]
                )
                assert found[f"v.{coordinate}"] == whole
        else:
            answers = [Answers(i, np.arange(N), part.payloads) for i, part in enumerate(sent)]
            assert found[name] == tally(attribute, N, answers)


def test_accounting_closes_and_the_ledger_adds_up_services(case: Case) -> None:
    run = case.run
    assert run.accounting["in"] == run.accounting["used"] == 7 * N
    assert run.accounting["dead_letters"] == run.accounting["duplicates"] == 0
    spent = {entry["attribute"]: entry["spent"] for entry in run.json("ledger.json")}
    epsilons = {"colour": 8.0, "size": 2.0, "v": 2.0, "basket": 4.0}
    assert spent == {name: [{"epsilon": total, "users": N, "delta": 0.0}] for name, total in epsilons.items()}


# ldpbeam perturb, of keys with values.


def test_reports_of_no_key_are_dead_letters() -> None:
    payloads: list[Any] = [0, 8, 9, -1, 2.5, "0", None, 4.0]
    base = {"attribute": "basket", "service": "s"}
    reports = [{**base, "user_id": [f"u{i}"], "payload": [payload]} for i, payload in enumerate(payloads)]
    found = tallied(TEXT, reports)
    assert found.accounting["used"] == 3
    assert found.accounting["dead_letters_by_reason"] == {
        "payload_outside_mechanism": 3,
        "payload_not_a_number": 1,
        "no_payload": 1,
    }
    (snapshot,) = found.snapshots
    assert snapshot.statistic.histograms[0].tolist() == [1, 0, 0, 0, 1, 0, 0, 0, 1]


# Mistakes in the study file: (instead of what, what is written; the place; what is said).
MISTAKES = [
    ("{coordinates: [north, east, up], values: [-10, 10]}", "{coordinates: [north, east, up]}",
     "domain of attribute v", "values: [low, high] goes with keys or coordinates, and they need it"),
    ("{categories: 9}", "{categories: 9, values: [0, 1]}", "domain of attribute size",
     "values: [low, high] goes with keys or coordinates, and they need it"),
    ("{keys: [milk, bread, tea], values: [0, 5]}", "{keys: [milk], coordinates: 3, values: [0, 5]}",
     "domain of attribute basket",
     "give one of numeric: [low, high], categories: [...], candidates: FILE, keys: [...] or"),
    ("{keys: [milk, bread, tea], values: [0, 5]}", "{keys: [milk, tea, milk], values: [0, 5]}",
     "domain of attribute basket", "milk"),
    ("{keys: [milk, bread, tea], values: [0, 5]}", "{keys: [milk, tea], values: [5, 0]}",
     "domain of attribute basket", "low < high, found [5.0, 0.0]"),
    ("[north, east, up]", "[north, east.south]", "coordinates of domain of attribute v", "names have"),
    ("[north, east, up]", "1", "coordinates of domain of attribute v", "greater than or equal to 2, found"),
    ("    top: 3", "    ranges: [[0, 1]]", "ranges of attribute colour",
     "ranges are for numbers; for categories use top"),
    ("    top: 3", "    top: 0", "top of attribute colour", "greater than or equal to 1, found 0"),
    ("    ranges: [[-10, 0], [2.5, 7], [9, 99]]", "    ranges: [[1, 1]]", "ranges of attribute v",
     "a range needs low < high"),
    ("hashed: {mechanism: olh, epsilon: 2.0}", "hashed: {mechanism: square_wave, epsilon: 2.0}",
     "service hashed of attribute colour", "mechanism 'square_wave' is for numeric values"),
    ("s: {mechanism: privkv, epsilon: 4.0}", "s: {mechanism: olh, epsilon: 4.0}",
     "service s of attribute basket", "mechanism 'olh' is for categories"),
    ("s: {mechanism: piecewise, epsilon: 2.0}", "s: {mechanism: oue, epsilon: 2.0}",
     "service s of attribute v", "mechanism 'oue' is for categories"),
    ("bits: {mechanism: oue, epsilon: 2.0}", "bits: {mechanism: privkv, epsilon: 2.0}",
     "service bits of attribute colour", "mechanism 'privkv' is for keys with values"),
    ("seeds: any}", "seeds: 3000000}", "service any of attribute colour", "seeds must be 'any', or from "),
    ("seeds: any}", "sedes: any}", "service any of attribute colour",
     "has no option 'sedes'; it takes hashed, hashes, seeds"),
    ("{estimator: ule, services: [hashed, bits, sign]}", "{estimator: ule}", "attribute colour",
     "olh with any seed cannot be joined by user; give a family"),
    ("{estimator: ems}", "{estimator: mle}", "estimate shape of attribute v",
     "estimator 'mle' does not fit"),
    ("{estimator: norm_sub}", "{estimator: ems}", "estimate all of attribute size", "'ems' does not fit"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "place", "message"), MISTAKES, ids=range(len(MISTAKES)))
def test_a_mistake_in_the_study_file_is_one_message_with_its_place(
    old: str, new: str, place: str, message: str
) -> None:
    assert TEXT.count(old) == 1
    with pytest.raises(StudyError) as caught:
        parse_study(TEXT.replace(old, new), "study.yaml")
    # The line of what is wrong; of services that do not go together, that of their attribute.
    at = "  colour:" if place == "attribute colour" else old
    line = 1 + TEXT[: TEXT.index(at)].count("\n")
    assert re.match(rf"study\.yaml:{line}: (entry \d+ of )?{re.escape(place)}: ", str(caught.value))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_buckets_that_bins_do_not_divide_are_refused_for_vectors_too() -> None:
    text = TEXT.replace(
        "s: {mechanism: piecewise, epsilon: 2.0}", "s: {mechanism: binned, epsilon: 2.0, bins: 5}"
    )
    with pytest.raises(StudyError, match=r"service s of attribute v: binned tells 5 bins apart"):
        parse_study(text.replace("{estimator: ivw}", "{estimator: ems}"))
