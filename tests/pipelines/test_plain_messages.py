"""Messages name what is wrong in the user's words, and what to do."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

STUDY = """\
study: s
attributes:
  price:
    domain: {numeric: [0, 100]}
    services: {auction: {mechanism: piecewise, epsilon: 1.0}, shop: {mechanism: square_wave, epsilon: 1.0}}
    estimates: {mean: {estimator: ivw}}
"""
PEOPLE = "price,cut,weight\n1,fine,2\n2,good,1.5\n500,fine,1\n"


@pytest.fixture
def perturb(command: Callable[..., Any], tmp_path: Path) -> Callable[..., Any]:
    """Runs ``ldpbeam perturb`` on a file of people with this content: (content, options)."""
    (tmp_path / "study.yaml").write_text(STUDY)

    def run(content: str | bytes, *options: object) -> Any:
        (tmp_path / "people.csv").write_bytes(content.encode() if isinstance(content, str) else content)
        return command(
            "perturb", "--study", tmp_path / "study.yaml", "--attribute", "price", "--seed", 1,
            "--input", tmp_path / "people.csv", "--output", tmp_path / "reports", *options,
        )  # fmt: skip

    return run


@pytest.mark.parametrize(
    ("content", "options", "told"),
    [
        (
            PEOPLE,
            ["Price"],
            "there is no column 'Price'; did you mean 'price'? The first line is: price,cut,weight",
        ),
        (PEOPLE, ["colour"], "there is no column 'colour'. The first line is: price,cut,weight"),
        (PEOPLE, ["cut"], "column 'cut' has texts such as 'fine', and no number"),
        ("price,cut\n,fine\n", ["price"], "column 'price' is empty, and no number"),
        ("price,cut\n", ["price"], "it has a header line and no row"),
        (
            b"Obj\x01\x08\x16avro.schema",
            ["price"],
            "this is no text: people and their true values",
        ),
        (b"price\n\x00\x01\n", ["Price"], "this is no text"),
        (
            PEOPLE,
            ["price", "--weight-column", "weight"],
            "has the weight 1.5; a weight is a whole",
        ),
        ("price,w\n1,-1\n", ["price", "--weight-column", "w"], "weights that are missing or negative"),
        (
            "price,w\n1,many\n",
            ["price", "--weight-column", "w"],
            "weights that are not numbers",
        ),
        ("price\n500\n-3\n", ["price"], "every value lies outside of the domain of 'price'"),
        (PEOPLE, ["price", "--services", "auktion"], "did you mean 'auction'? there are auction, shop"),
        (
            PEOPLE,
            ["price", "--services", "zzz"],
            "zzz: there are auction, shop; spaces between them",
        ),
    ],
)
def test_a_file_of_people_that_cannot_be_used(
    perturb: Callable[..., Any], tmp_path: Path, content: str | bytes, options: list[str], told: str
) -> None:
    ran = perturb(content, "--value-column", *options)
    assert ran.code == 2
    assert told in ran.err
    assert not list((tmp_path / "reports").glob("*")) if (tmp_path / "reports").exists() else True


def test_rows_of_a_user_who_has_an_earlier_one_are_told(perturb: Callable[..., Any]) -> None:
    ran = perturb("user,price\na,1\na,2\nb,3\n", "--value-column", "price", "--user-column", "user")
    assert ran.code == 0
    assert "rows of users who have an earlier row: 1; of a user's reports" in ran.err


def test_a_missing_key_is_made_with_a_command(command: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text(STUDY)
    ran = command(
        "estimate", "--study", tmp_path / "study.yaml", "--input", tmp_path / "study.yaml",
        "--output", tmp_path / "out", "--user-id-key-file", tmp_path / "key",
    )  # fmt: skip
    assert ran.code == 2
    assert f"openssl rand -out {tmp_path}/key 32 makes a new key" in ran.err


@pytest.mark.parametrize("option", ["--input", "--output", "--study"])
def test_what_s3_needs_is_named_whichever_option_has_it(
    command: Callable[..., Any], tmp_path: Path, option: str
) -> None:
    (tmp_path / "study.yaml").write_text(STUDY)
    (tmp_path / "in.jsonl").write_text("")
    given = {
        "--study": tmp_path / "study.yaml",
        "--input": tmp_path / "in.jsonl",
        "--output": tmp_path / "out",
    } | {option: "s3://bucket/thing"}
    ran = command("estimate", *(part for pair in given.items() for part in pair))
    assert (ran.code, ran.out) == (2, "")
    assert "s3://bucket/thing cannot be read without boto3: pip install 'apache-beam[aws]'" in ran.err


def test_s3_without_credentials_is_refused_at_once(
    command: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "study.yaml").write_text(STUDY)
    session = types.SimpleNamespace(get_credentials=lambda: None)
    monkeypatch.setitem(sys.modules, "boto3", types.SimpleNamespace(Session=lambda: session))
    ran = command(
        "estimate", "--study", tmp_path / "study.yaml", "--input", "s3://bucket/file.avro",
        "--output", tmp_path / "out",
    )  # fmt: skip
    assert (ran.code, ran.out) == (2, "")
    assert "s3://bucket/file.avro: there are no credentials for S3; set AWS_ACCESS_KEY_ID" in ran.err


def test_an_input_of_which_nothing_is_used_is_warned_of(
    command: Callable[..., Any], tmp_path: Path, write_lines: Callable[..., Path]
) -> None:
    (tmp_path / "study.yaml").write_text(STUDY)
    record = {"user_id": "u", "service": "shop", "event_time": 1_795_168_800_000, "payload": 0.5}
    run = ("estimate", "--study", tmp_path / "study.yaml", "--attribute", "price", "--overwrite")
    (tmp_path / "none.jsonl").write_text("")
    ran = command(*run, "--input", tmp_path / "none.jsonl", "--output", tmp_path / "out")
    assert (ran.code, ran.err) == (
        0,
        "ldpbeam: warning: the input has no report, so there is no estimate\n",
    )
    path = write_lines(tmp_path / "in.jsonl", [record])
    ran = command(*run, "--input", path, "--output", tmp_path / "out", "--from", "2027-01-01T00:00:00Z")
    assert (ran.code, ran.err) == (
        0,
        "ldpbeam: warning: none of the 1 reports in the input is used, so there is no estimate\n",
    )
