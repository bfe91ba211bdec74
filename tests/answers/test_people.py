"""A file of people: what is read of it, and in one sentence what cannot be."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from ldpbeam.answers.people import People, PeopleColumns, read_people
from ldpbeam.domains import Categories, Domain, KeyValues, Numeric, Vector
from ldpbeam.errors import UserError
from ldpbeam.pipelines.commands.init_data import proposal

PRICE = Numeric(0, 100)
COLOUR = Categories(("red", "green", "NA"))
BASKET = KeyValues(("milk", "bread", "tea"), Numeric(0, 5))
PAIRS = PeopleColumns("value", key="key", user="user")
BASKETS = "user,key,value\nann,tea,1\nbob,milk,9\nann,milk,2.5\ncat,,\ndan,beer,1\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "people.csv"


def read(file: Path, content: str | bytes, columns: PeopleColumns, domain: Domain) -> People:
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_people(str(file), columns, domain)


FILE = "price,cut,weight\n1,fine,2\n2,good,1.5\n500,fine,1\n"
WEIGHED = PeopleColumns("price", weight="weight")


@pytest.mark.parametrize(
    ("content", "columns", "domain", "said"),
    [
        (FILE, PeopleColumns("Price"), PRICE,
         "there is no column 'Price'; did you mean 'price'? The first line is: price,cut,weight"),
        ("user,price \nu1,5\n", PeopleColumns("price"), PRICE,
         "there is no column 'price'; did you mean 'price '?"),
        ('"a,b",user\n1,u1\n', PeopleColumns("b"), PRICE, "there is no column 'b'"),
        ("größe,v\n1,2\n".encode("latin-1"), PeopleColumns("größe"), PRICE, "there is no column 'größe'"),
        (FILE, PeopleColumns("cut"), PRICE, "column 'cut' has texts such as 'fine': it has no numbers"),
        (FILE, PeopleColumns("cut"), COLOUR,
         "column 'cut' has texts such as 'fine': it has no category of the study, such as 'red'"),
        (FILE, PeopleColumns(), Vector(("price", "weigth"), PRICE),
         "no column 'weigth'; did you mean 'weight'?"),
        ("price,cut\n,fine\n", PeopleColumns("price"), PRICE, "column 'price' is empty: it has no numbers"),
        ("price,cut\n", PeopleColumns("price"), PRICE, "it has a header line but no rows"),
        ("price;who\n1,5;ann\n", PeopleColumns("price"), PRICE,
         "it is a table with semicolons between its columns: save it with commas"),
        ("price\twho\n1\tann\n", PeopleColumns("price"), PRICE, "it is a table with tabs"),
        ("price,who\n1,ann\n".encode("utf-16"), PeopleColumns("price"), PRICE, "it is text in UTF-16"),
        ("price,who,price\n1,ann,2\n", PeopleColumns("price"), PRICE,
         "several columns are called 'price': rename all but one"),
        (b"Obj\x01\x08\x16avro.schema", PeopleColumns("price"), PRICE,
         "this is not text: give people and their true values as CSV, with a header line"),
        (FILE, WEIGHED, PRICE, "column 'weight' has the weight 1.5; a weight is a whole number of people"),
        ("price,weight\n1,many\n", WEIGHED, PRICE, "column 'weight' has weights that are not numbers"),
        ("price,weight\n1,0\nx,3\n", WEIGHED, PRICE,
         "column 'weight' is 0 in every row with a usable value, so there are no people"),
        ("price,user\n1,ann\n2,\n", PeopleColumns("price", user="user"), PRICE,
         "column 'user' is empty in 1 row"),
        ("price,t\n1,\n2,2026-11-20T10:00:00Z\n", PeopleColumns("price", time="t"), PRICE,
         "column 't' is empty in 1 row"),
        ("price,cut\n1,größe\n".encode("latin-1"), PeopleColumns("price", group="cut"), PRICE,
         "it is not in UTF-8: save it in that encoding"),
        ("price,t\n1,now\n", PeopleColumns("price", time="t"), PRICE, "column 't' has times such as 'now'"),
        ("price,t\n1,7\n", PeopleColumns("price", time="t"), PRICE,
         "column 't' has times such as '7': a number is in milliseconds since"),
        ("price,t\n1,481593600000\n", PeopleColumns("price", time="t"), PRICE, "and this one is before 1990"),
        (BASKETS + "ann,tea,3\n", PAIRS, BASKET, "user 'ann' has the key 'tea' twice"),
        (BASKETS + ",tea,3\n", PAIRS, BASKET, "column 'user' is empty in 1 row"),
        ("user,key,value\nann,beer,1\n", PAIRS, BASKET,
         "but no row has a key of the study, such as 'milk', and a number"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_used_is_one_sentence(
    content: str | bytes, columns: PeopleColumns, domain: Domain, said: str, file: Path
) -> None:
    with pytest.raises(UserError, match=re.escape(said)) as caught:
        read(file, content, columns, domain)
    assert str(caught.value).startswith(f"{file}: ")
    assert "\n" not in str(caught.value)


def test_numbers_are_clipped_and_rows_without_one_left_out(file: Path) -> None:
    people = read(file, "v,row\n1,0\n-3,1\n101,2\nx,3\n,4\n 1e1 ,5\nnan,6\n", PeopleColumns("v"), PRICE)
    assert people.values.tolist() == [1, 0, 100, 10]  # type: ignore[union-attr]
    assert (people.skipped, people.clipped) == (3, 2)


@pytest.mark.parametrize(
    ("content", "columns", "domain", "unusable"),
    [
        ("v,row\n1,0\n,1\nx,2\ny,3\n", PeopleColumns("v"), PRICE, "x"),
        ("v,row\n1,0\n,1\n", PeopleColumns("v"), PRICE, None),
        ("c,row\nred,0\n,1\n green,2\n", PeopleColumns("c"), COLOUR, " green"),
        ("a,b\n1,2\n3,\n4,high\n", PeopleColumns(), Vector(("a", "b"), PRICE), "high"),
        (BASKETS, PAIRS, BASKET, "beer"),
        ("user,key,value\nann,tea,1\nbob,,\ncat,milk,much\n", PAIRS, BASKET, "much"),
    ],
)
def test_of_the_rows_that_are_left_out_one_text_is_named(
    content: str, columns: PeopleColumns, domain: Domain, unusable: str | None, file: Path
) -> None:
    people = read(file, content, columns, domain)
    assert people.skipped > 0
    assert people.unusable == unusable


def test_a_text_of_several_lines_is_one_where_a_block_of_the_file_ends_too(file: Path) -> None:
    lines = "a\n" * 500
    people = read(file, "note,v\n" + f'"{lines}",1\nc,2\n' * 1_200, PeopleColumns("v"), PRICE)
    assert (people.count, people.skipped) == (2_400, 0)
    assert proposal(str(file), "note").categories == (lines, "c")


def test_an_empty_line_of_a_file_of_one_column_is_a_row_without_a_value(file: Path) -> None:
    people = read(file, "v\n5\n\n7\n\n\n", PeopleColumns("v"), PRICE)
    assert (people.values.tolist(), people.skipped) == ([5, 7], 3)  # type: ignore[union-attr]
    people = read(file, "v,row\n5,1\n\n7,2\n", PeopleColumns("v"), PRICE)
    assert (people.values.tolist(), people.skipped) == ([5, 7], 0)  # type: ignore[union-attr]


def test_a_category_called_na_is_a_category(file: Path) -> None:
    people = read(file, "c,row\nNA,0\nred,0\nNA,0\n,0\n", PeopleColumns("c"), COLOUR)
    assert (people.values.tolist(), people.skipped) == ([2, 0, 2], 1)  # type: ignore[union-attr]


def test_a_weight_makes_that_many_people_of_a_row(file: Path) -> None:
    columns = PeopleColumns("c", weight="n", group="g")
    people = read(file, "c,n,g\nred,3,n\ngreen,0,s\nNA,2,w\n", columns, COLOUR)
    assert people.values.tolist() == [0, 0, 0, 2, 2]  # type: ignore[union-attr]
    assert people.groups.to_pylist() == ["n"] * 3 + ["w"] * 2  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "time"), [("1985-04-06T01:00:00+01:00", 481_593_600_000), ("1795168800001", 1_795_168_800_001)]
)
def test_times_are_rfc_3339_or_milliseconds(text: str, time: int, file: Path) -> None:
    people = read(file, f"v,t\n1,{text}\n", PeopleColumns("v", time="t"), PRICE)
    assert people.times is not None and people.times.tolist() == [time]


def test_a_person_of_several_rows_has_their_pairs_and_none_where_no_key_is_the_studys(file: Path) -> None:
    people = read(file, BASKETS, PAIRS, BASKET)
    # In the order of their first rows; who has an empty key, or none of the study's, has no key.
    assert people.users is not None and people.users.to_pylist() == ["ann", "bob", "cat", "dan"]
    pairs = people.values
    assert (pairs.starts.tolist(), pairs.keys.tolist()) == ([0, 2, 3, 3, 3], [0, 2, 0])
    np.testing.assert_allclose(pairs.values, [0.5, 0.2, 1.0])
    assert (people.count, people.skipped, people.clipped) == (4, 1, 1)


def test_numbers_of_people_are_those_that_clients_report(file: Path) -> None:
    people = read(file, "x\n0.4\n0.5\nnone\n2.49\n99\n", PeopleColumns("x"), Numeric(0.0, 3.0, 1.0))
    assert np.asarray(people.values).tolist() == [0.0, 1.0, 2.0, 3.0]
    assert (people.skipped, people.clipped) == (1, 1)
