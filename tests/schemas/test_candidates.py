"""Tables of candidates: what is read of them, and one sentence for each kind of mistake."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ldpbeam.cells import clock_of
from ldpbeam.errors import UserError
from ldpbeam.schemas.files.candidates import read_table
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.study import Study
from ldpbeam.transforms.candidates import LOG, check_tables, names_of

DAY = 86_400_000
PLACES = 4
HEAD = "since,until,place,name\n"
ROWS = HEAD + "1970-01-01T00:00:00Z,1970-01-02T00:00:00Z,0,tea\n1970-01-01T00:00:00Z,,2,rum\n"

#: The contents of a file, and what is said of it.
MISTAKES = {
    "no line end": (ROWS[:-1], "its last line has no end, so it may be half written"),
    "no place": ("since,name\n,tea\n", "its columns are place, name and"),
    "misspelt": (HEAD.replace("until", "untill"), "found 'since', 'untill', 'place', 'name'"),
    "twice": ("place,name,name\n", "each once; found 'place', 'name', 'name'"),
    "semicolons": (ROWS.replace(",", ";"), "its columns are place, name and"),
    "short row": (ROWS + "1\n", "this is not a table of candidates"),
    "no text": (b"place,name\n0,\xff\xfe\n", "this is not a table of candidates"),
    "word": ("place,name\nfirst,tea\n", "row 1: a place is a whole number from 0 on, found 'first'"),
    "beyond": ("place,name\n3,tea\n4,rum\n", "row 2: the study has 4 places, 0 to 3, found '4'"),
    "no name": ("place,name\n0,\n", "row 1: a name must not be empty"),
    "others": ("place,name\n0,others\n", "row 1: this is what all places without a name are called"),
    "long": (f"place,name\n0,{'x' * 1_000_000}\n", "row 1: a name has at most 1,000 letters, found 'xxx"),
    "escape": ("place,name\n0,te\x1ba\n", r"row 1: a name has no control characters, found 'te\x1ba'"),
    "turned": ("place,name\n0,te\u202ea\n", r"a name has no control characters, found 'te\u202ea'"),
    "no zone": (f"{HEAD}1970-01-01,,0,tea\n", "row 1: write a time with its zone"),
    "backwards": (f"{HEAD}1970-01-02T00:00:00Z,1970-01-01T00:00:00Z,0,tea\n", "since is not before until"),
    "name twice": (ROWS + "1970-01-01T12:00:00Z,,3,tea\n", "row 3 and row 1: name 'tea' has two places"),
    "place twice": (ROWS + "2026-01-01T00:00:00Z,,2,gin\n", "row 3 and row 2: place 2 has two names"),
}  # fmt: skip


@pytest.mark.parametrize(("given", "says"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_in_a_table_is_one_sentence(given: str | bytes, says: str) -> None:
    data = given if isinstance(given, bytes) else given.encode()
    with pytest.raises(UserError) as error:
        read_table([("names.csv", data)], PLACES, None)
    assert str(error.value).startswith("names.csv: ")
    assert says in str(error.value)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 400


def test_rows_of_two_files_may_not_share_a_time() -> None:
    other = "place,name\n1,tea\n"
    with pytest.raises(UserError, match=r"^b\.csv: row 1 and row 1 of a\.csv: name 'tea' has two places"):
        read_table([("a.csv", ROWS.encode()), ("b.csv", other.encode())], PLACES, None)


def test_a_window_has_the_names_of_the_times_that_hold_all_of_it() -> None:
    table = read_table([("names.csv", b"\xef\xbb\xbf" + ROWS.encode())], PLACES, None)
    first = table.of_window((0, DAY), PLACES)
    assert first is not None
    assert (first.names, first.place_of_name) == (("tea", "rum", "others"), (0, 2))
    later = table.of_window((DAY, 2 * DAY), PLACES)
    assert later is not None
    assert (later.names, later.place_of_name) == (("rum", "others"), (2,))
    assert table.of_window((-1, DAY), PLACES) is None
    assert table.of_window(None, PLACES) is None


def test_names_of_all_places_leave_no_others_and_times_may_be_of_the_study_s_zone() -> None:
    lines = "".join(f"1970-01-01T00:00:00,,{place},<b>{place}</b>\n" for place in range(PLACES))
    table = read_table([("names.csv", (HEAD + lines).encode())], PLACES, clock_of("Europe/Berlin"))
    hour = 3_600_000
    every = table.of_window((-hour, 0), PLACES)
    assert every is not None
    assert every.names == ("<b>0</b>", "<b>1</b>", "<b>2</b>", "<b>3</b>")
    assert table.of_window((-2 * hour, 0), PLACES) is None


def study(folder: Path, candidates: str = "names", places: object = PLACES) -> Study:
    return parse_study(
        "study: polls\nusers: none\nattributes:\n  saw:\n"
        f"    domain: {{candidates: {candidates}, places: {places}}}\n"
        "    services: {device: {mechanism: grr, epsilon: 1}}\nwindows: {size: 1d}\n",
        str(folder / "study.yaml"),
    )


def test_a_folder_is_looked_at_again_and_only_whole_files_are_read(tmp_path: Path) -> None:
    polls, folder = study(tmp_path), tmp_path / "names"
    folder.mkdir()
    check_tables(polls)
    assert names_of(polls, "saw", (0, DAY)) is None
    for name in (".day.csv.tmp", ".day.csv", "day.csv.part"):
        (folder / name).write_text("place,name\n0,te")
    assert names_of(polls, "saw", (0, DAY)) is None
    (folder / ".day.csv").write_text(ROWS)
    (folder / ".day.csv").rename(folder / "day.csv")
    known = names_of(polls, "saw", (0, DAY))
    assert known is not None
    assert known.names == ("tea", "rum", "others")


def test_a_broken_table_has_no_names_until_it_is_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(LOG, "warning", lambda text, *values: said.append(text % values))
    polls, path = study(tmp_path, "names.csv"), tmp_path / "names.csv"
    path.write_text(ROWS[:-1])
    assert names_of(polls, "saw", (0, DAY)) is None
    assert names_of(polls, "saw", (0, DAY)) is None
    (once,) = said
    assert "may be half written" in once
    with pytest.raises(UserError, match="may be half written"):
        check_tables(polls)
    path.write_text(ROWS)
    assert names_of(polls, "saw", (0, DAY)) is not None


def test_links_to_files_are_followed_and_a_fifo_is_not_opened(tmp_path: Path) -> None:
    (tmp_path / "real.csv").write_text(ROWS)
    (tmp_path / "link.csv").symlink_to("real.csv")
    assert names_of(study(tmp_path, "link.csv"), "saw", (0, DAY)) is not None
    (tmp_path / "gone.csv").symlink_to("nowhere.csv")
    os.mkfifo(tmp_path / "pipe.csv")
    for name, says in (
        ("gone.csv", "No such file"),
        ("pipe.csv", "it is a FIFO"),
        ("missing.csv", "there is no such file or folder of candidates"),
    ):
        with pytest.raises(UserError, match=says):
            check_tables(study(tmp_path, name))
