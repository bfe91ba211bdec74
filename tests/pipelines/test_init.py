"""``ldpbeam init``: a commented study from options, and from what a file suggests."""

from __future__ import annotations

import itertools
import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from jsonschema import Draft202012Validator

from ldpbeam.domains import Categories, Numeric
from ldpbeam.errors import UserError
from ldpbeam.pipelines.commands.init_data import columns_of, proposal, rounded_outward
from ldpbeam.schemas.study.yaml_file import read_study

DATA = "price,cut,when,Total cost\n" + "".join(
    f"{326 + 37 * i},{['Fair', 'Very Good', 'no'][i % 3]},2026-01-01 10:00:00,{0.2 + i / 100}\n"
    for i in range(500)
)


@pytest.fixture
def init(command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Runs ``ldpbeam init`` in a folder that has a file of data."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "stones.csv").write_text(DATA)
    return lambda *options: command("init", *options)


def test_a_file_and_a_column_make_a_study(init: Any, command: Any, tmp_path: Path) -> None:
    ran = init("stones.csv", "--attribute", "price", "--epsilon", "0.5")
    assert ran.code == 0, ran.err
    study = read_study(tmp_path / "study.yaml")
    assert study.name == "stones"
    assert study.attribute("price").domain == Numeric(0, 20_000)
    text = (tmp_path / "study.yaml").read_text()
    # The ends of the data are not in the file: 326 and 326 + 37 * 499.
    assert "326" not in text and "18789" not in text
    for said in (text.replace("\n    #", ""), ran.err):
        assert "Keep it only if the data is public, or a sample of other people" in said
    assert max(map(len, text.splitlines())) <= 110
    assert command("explain", "--study", "study.yaml").code == 0


def test_yes_of_older_scripts_is_taken_and_changes_nothing(init: Any, tmp_path: Path) -> None:
    written = []
    for more in ((), ("--yes",)):
        assert init("--attribute", "x", "--range", "0", "1", *more).code == 0
        written.append((tmp_path / "study.yaml").read_text())
        (tmp_path / "study.yaml").unlink()
    assert written[0] == written[1]


def test_what_it_prints_next_can_be_run(init: Any, command: Any) -> None:
    asked = ("--attribute", "Total cost", "--windows", "1h", "--groups", "cut")
    ran = init("stones.csv", *asked, "--json")
    found = json.loads(ran.out)
    commands = [shlex.split(line) for line in found["next"]]
    assert [words[1] for words in commands] == ["explain", "plan", "perturb", "estimate"]
    for words in commands:
        done = command(*words[1:])
        assert done.code == 0, (words, done.err)
    assert [
        line for line in command("explain", "--study", "study.yaml").out.splitlines() if "Total_cost" in line
    ]


@pytest.mark.parametrize("more", [(), ("--windows", "1h"), ("--users", "none")])
def test_columns_of_persons_and_times_are_named_in_what_comes_next(
    init: Any, command: Any, tmp_path: Path, more: tuple[str, ...]
) -> None:
    rows = (f"u{place % 9},2026-11-20T10:{place:02}:00+01:00,{place / 7}" for place in range(60))
    (tmp_path / "trips.csv").write_text("\n".join(["User ID,created_at,price", *rows]))
    found = json.loads(init("trips.csv", "--attribute", "price", *more, "--json").out)
    words = shlex.split(found["next"][2])
    named = dict(itertools.pairwise(words))
    assert named["--time-column"] == "created_at" and "--start" not in words
    assert named.get("--user-column") == (None if "none" in more else "User ID")
    done = command(*words[1:])
    assert done.code == 0, done.err


def test_a_field_makes_groups_and_publish_stands_as_a_comment(init: Any, tmp_path: Path) -> None:
    assert init("--attribute", "x", "--range", "0", "1", "--groups", "a: b").code == 0
    study = read_study(tmp_path / "study.yaml")
    assert study.groups is not None and study.groups.field == "a: b"
    text = (tmp_path / "study.yaml").read_text()
    (tmp_path / "study.yaml").write_text(text.replace("# publish:", "publish:"))
    assert read_study(tmp_path / "study.yaml").publish.at_least == 50
    assert init("--attribute", "x", "--range", "0", "1", "-o", "none.yaml").code == 0
    assert read_study(tmp_path / "none.yaml").groups is None
    (tmp_path / "none.yaml").write_text((tmp_path / "none.yaml").read_text().replace("# groups:", "groups:"))
    assert read_study(tmp_path / "none.yaml").groups is not None


@pytest.mark.parametrize("domain", [("--range", "0", "1"), ("--categories", "a", "b", "c")])
def test_what_clients_reveal_over_windows_stands_as_comments_that_a_study_can_have(
    domain: tuple[str, ...], init: Any, tmp_path: Path
) -> None:
    assert init("--attribute", "x", *domain, "--windows", "1h").code == 0
    text = (tmp_path / "study.yaml").read_text()
    for key in ("kept", "ledger", "panel"):
        text = text.replace(f"# {key}:", f"{key}:")
    (tmp_path / "study.yaml").write_text(text)
    study = read_study(tmp_path / "study.yaml")
    assert study.ledger is not None and study.panel is not None
    *_, kept = study.attribute("x").versions
    assert kept.lifetime is not None and kept.values_at_most == 3
    for key, said in (("memo_buckets", "--range" in domain), ("as_published", "--range" not in domain)):
        assert (f"# {key}:" in text) == said


def test_texts_are_categories_and_what_yaml_reads_otherwise_is_quoted(init: Any, tmp_path: Path) -> None:
    assert init("stones.csv", "--attribute", "cut").code == 0
    study = read_study(tmp_path / "study.yaml")
    assert study.attribute("cut").domain == Categories(("Fair", "Very Good", "no"))
    assert [version.mechanism.name for version in study.attribute("cut").versions] == ["grr"]


def test_options_alone_make_a_study_that_knows_no_data(init: Any, tmp_path: Path) -> None:
    ran = init(
        "--attribute", "minutes", "--range", "0", "180", "--services", "maps", "taxi=piecewise",
        "--epsilon", "2", "--windows", "1h", "--name", "commute", "-o", "deep/commute.yaml",
    )  # fmt: skip
    assert (ran.code, ran.err) == (0, "")
    study = read_study(tmp_path / "deep" / "commute.yaml")
    assert study.name == "commute"
    versions = study.attribute("minutes").versions
    assert [(v.service, v.mechanism.name, v.mechanism.epsilon) for v in versions] == [
        ("maps", "square_wave", 2.0),
        ("taxi", "piecewise", 2.0),
    ]
    assert "proposed" not in (tmp_path / "deep" / "commute.yaml").read_text()
    other = ("--range", "0", "1000", "--users", "ids", "-o", "other.yaml")
    told = init("stones.csv", "--attribute", "price", *other)
    assert (told.code, told.err) == (0, ""), "a range that the user knew says nothing of the data"


@pytest.mark.parametrize("windows", ["none", "1h"])
def test_a_file_without_user_ids_makes_a_study_without_users(windows: str, init: Any, tmp_path: Path) -> None:
    asked = ("--attribute", "price", "--windows", windows, "-o")
    ran = init("stones.csv", *asked, "none.yaml")
    assert "no column is a user id, so the study says users: none" in ran.err
    assert read_study(tmp_path / "none.yaml").without_users == ("price",)
    # What stands in it as a comment is not about users.
    assert "joined" not in (tmp_path / "none.yaml").read_text()
    assert init("stones.csv", *asked, "ids.yaml", "--users", "ids").code == 0
    for column in ("user_id", "UID", "Device ID", "clientId"):
        (tmp_path / "people.csv").write_text(f"price,{column}\n" + "".join(f"{n},u{n}\n" for n in range(9)))
        ran = init("people.csv", *asked, f"{column}.yaml")
        assert "no column is a user id" not in ran.err
        assert read_study(tmp_path / f"{column}.yaml").without_users == ()
    assert read_study(tmp_path / "ids.yaml").without_users == ()
    (tmp_path / "ids.yaml").write_text((tmp_path / "ids.yaml").read_text().replace("# users:", "users:"))
    assert read_study(tmp_path / "ids.yaml").without_users == ("price",)


def test_the_first_line_names_a_schema_that_takes_the_study(init: Any, tmp_path: Path) -> None:
    assert init("--attribute", "x", "--categories", "a", "b").code == 0
    text = (tmp_path / "study.yaml").read_text()
    first = text.splitlines()[0]
    assert first == "# yaml-language-server: $schema=study.schema.json"
    schema = json.loads((tmp_path / first.partition("=")[2]).read_text())
    study = yaml.safe_load(text)
    assert list(Draft202012Validator(schema).iter_errors(study)) == []
    assert study["format"] == 1
    assert list(Draft202012Validator(schema).iter_errors(study | {"format": 2})) != []


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        (range(18, 93), Numeric(10, 100, 1.0)),
        ([round(0.18 * k, 2) for k in range(11)], Numeric(0, 1.8, 0.18)),
        ([36.0 + k / 2 for k in range(9)], Numeric(36, 40, 0.5)),
        ([*range(18, 93), 40.25], Numeric(10, 100, 0.25)),
        ([*range(18, 93), 40.123456], Numeric(10, 100)),
        ([1, 2, 3, 4, 5], Numeric(1, 5, 1.0)),
        ([int(11 * 1.1**k) for k in range(100)], Numeric(10, 140_000, scale="log")),
        ([0.012 * 1.1**k for k in range(100)], Numeric(0.01, 160, scale="log")),
        ([0, *(int(11 * 1.1**k) for k in range(100))], Numeric(0, 140_000, scale="log1p")),
        ([0.0, *(0.0001 * 1.1**k for k in range(100))], Numeric(0, 1.4)),
    ],
)
def test_a_step_is_proposed_where_all_values_are_its_multiples(
    numbers: list[float], expected: Numeric, init: Any, tmp_path: Path
) -> None:
    pq.write_table(pa.table({"x": pa.array([*numbers] * 5)}), tmp_path / "x.parquet")
    ran = init("x.parquet", "--attribute", "x")
    assert ran.code == 0, ran.err
    assert read_study(tmp_path / "study.yaml").attribute("x").domain == expected
    said = "All values of the file are multiples of the step" in (tmp_path / "study.yaml").read_text()
    assert said == (expected.step is not None)


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        ((326, 18_823), (0, 20_000)), ((-3.7, 4.2), (-4, 5)), ((0, 1), (0, 1)), ((5, 5), (4, 6)),
        ((0.1, 0.3), (0.1, 0.3)), ((1e-9, 2e-9), (1e-9, 2e-9)),
    ],
)  # fmt: skip
def test_a_range_is_rounded_outward(ends: tuple[float, float], expected: tuple[float, float]) -> None:
    low, high = rounded_outward(*ends)
    assert (low, high) == pytest.approx(expected)
    assert low <= ends[0] and ends[1] <= high


CODES = ["12e03", "374e949253", "1E6", "-1e-3", "1_000", "0x1F", "007", ".5e1", "no", "2025-11-20", "a\x85b"]


@pytest.mark.parametrize(("code", "other"), [*((code, "other") for code in CODES), ("true", "FALSE")])
def test_categories_like_other_values_are_those_of_the_file(
    init: Any, tmp_path: Path, code: str, other: str
) -> None:
    (tmp_path / "codes.csv").write_text(f"v\n{code}\n{other}\n")
    ran = init("codes.csv", "--attribute", "v", "--epsilon", "1", "--yes")
    assert ran.code == 0, ran.err
    domain = read_study(tmp_path / "study.yaml").attribute("v").domain
    assert isinstance(domain, Categories) and set(domain.names) == {code, other}


def test_an_empty_text_of_a_parquet_file_is_no_category(tmp_path: Path) -> None:
    pq.write_table(pa.table({"v": ["b", "", "a", None]}), tmp_path / "v.parquet")
    assert proposal(str(tmp_path / "v.parquet"), "v").categories == ("a", "b")


@pytest.mark.parametrize("step", [1, 10**6, 10**12])
def test_whole_numbers_of_more_digits_than_a_float_has_are_a_range_or_refused(
    init: Any, tmp_path: Path, step: int
) -> None:
    numbers = [2**53 + 1 + index * step for index in range(100)]
    (tmp_path / "large.csv").write_text("v\n" + "".join(f"{number}\n" for number in numbers))
    ran = init("large.csv", "--attribute", "v", "--epsilon", "1", "--yes")
    if step == 1:
        assert ran.code == 2 and "have too many digits: give --range" in ran.err
        return
    assert ran.code == 0, ran.err
    domain = read_study(tmp_path / "study.yaml").attribute("v").domain
    assert isinstance(domain, Numeric) and domain.low <= numbers[0] and numbers[-1] <= domain.high


@pytest.mark.parametrize(
    ("values", "most"),
    [
        ([*range(1, 100), 5_000], (0.0, 100.0)),  # one outlier
        (range(100), None),  # spread evenly
        ([x * x for x in range(100)], None),  # skewed: the upper half is not empty
        ([3] * 1_000, None),
    ],
)
def test_a_range_that_few_values_fill_has_another_proposal(
    values: list[int], most: tuple[float, float] | None, tmp_path: Path
) -> None:
    file = tmp_path / "values.csv"
    file.write_text("v\n" + "".join(f"{value}\n" for value in values))
    found = proposal(str(file), "v")
    assert found.most == most
    assert found.range is not None
    assert found.range[0] <= min(values) <= max(values) <= found.range[1]


@pytest.mark.parametrize("ends", [(-1e308, 1e308), (0.0, 5e-324), (1e308, 1e308)])
def test_numbers_that_make_no_range_are_one_sentence(
    ends: tuple[float, float], init: Any, tmp_path: Path
) -> None:
    (tmp_path / "wide.csv").write_text("v\n{!r}\n{!r}\n".format(*ends))
    ran = init("wide.csv", "--attribute", "v")
    assert ran.code == 2
    assert "wide.csv: column 'v': numbers from" in ran.err and "give one with --range" in ran.err


def test_a_header_that_is_not_utf_8_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "old.csv").write_bytes("größe\n1\n".encode("latin-1"))
    with pytest.raises(UserError, match="it cannot be read as CSV or Parquet: 'utf-8' codec"):
        columns_of(str(tmp_path / "old.csv"))


def test_a_table_that_is_none_of_ours_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("price;who\n1,5;ann\n")
    with pytest.raises(UserError, match="it is a table with semicolons between its columns"):
        proposal(str(tmp_path / "a.csv"), "price")


@pytest.mark.parametrize("start", [0, 1_700_000_000])
def test_a_range_of_an_outlier_is_warned_of(start: int, init: Any, tmp_path: Path) -> None:
    rows = "".join(f"{start + value}\n" for value in (*range(1, 100), 5_000))
    (tmp_path / "tail.csv").write_text("v\n" + rows)
    ran = init("tail.csv", "--attribute", "v")
    assert ran.code == 0
    ends = f"{start} to {start + 100}, and the range is {start} to {start + 5_000}"
    assert f"98% of the values lie from {ends}" in ran.err
    assert f"--range {start} {start + 100} clips the others" in ran.err
