"""Which files a pattern matches, on this machine and where pyarrow lists the files."""

from __future__ import annotations

import errno
import glob
import itertools
import os
from pathlib import Path
from typing import Any

import pytest
from pyarrow.fs import LocalFileSystem

from ldpbeam.transforms import object_stores, patterns
from ldpbeam.transforms.patterns import matching
from ldpbeam.transforms.sources import files
from ldpbeam.transforms.storage import literal


@pytest.fixture(params=["this machine", "store"])
def anywhere(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of this machine, and one that is taken for an object store: pyarrow lists its files."""
    if request.param == "store":
        monkeypatch.setattr(patterns, "is_local", lambda path: False)
        here = LocalFileSystem()
        monkeypatch.setattr(object_stores, "_location", lambda path: (here, path.rstrip("/")))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def files_of(pattern: str) -> list[str]:
    """The files that a pattern in the folder matches, without the folder."""
    return [os.path.relpath(entry.path) for entry in matching(f"{Path.cwd()}/{pattern}")]


def write(*paths: Path) -> None:
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"{}\n")


def bytes_of_names(beyond_ascii: bool) -> list[str]:
    """Every byte that a name may have, as Python represents it: those beyond ASCII alone are no UTF-8."""
    return [os.fsdecode(bytes([byte])) for byte in range(1, 256 if beyond_ascii else 128) if byte != ord("/")]


def names_with(given: list[str]) -> list[str]:
    """The byte at the start, in the middle and at the end of a name, and alone."""
    return [
        name
        for byte in given
        for name in (f"{byte}x", f"x{byte}x", f"x{byte}", byte * (1 + (byte in "./")), "é" + byte)
        if name != ".."
    ]


def test_a_wildcard_stands_for_every_byte_that_a_name_may_have(anywhere: Path) -> None:
    # Names of objects are UTF-8.
    letters = bytes_of_names(beyond_ascii=patterns.is_local("in"))
    names = names_with(letters)
    write(*(anywhere / "in" / name for name in names))
    shown = sorted({f"in/{name}" for name in names if not name.startswith(".")})
    assert files_of("in/*") == files_of("in/**") == files_of("in/") == shown
    assert files_of("in/x?x") == sorted({f"in/x{byte}x" for byte in letters})
    assert files_of("in/x[!a]x") == sorted({f"in/x{byte}x" for byte in letters if byte != "a"})


def test_a_name_of_a_file_matches_that_file_alone(anywhere: Path) -> None:
    names = names_with(bytes_of_names(beyond_ascii=patterns.is_local("in")))
    write(*(anywhere / "in" / name for name in names))
    for name in names:
        assert files_of(literal(f"in/{name}")) == [f"in/{name}"], repr(name)
        assert [path for path, _ in files.match([f"{anywhere}/in/{name}"])] == [f"{anywhere}/in/{name}"]


def test_names_with_wildcards_in_them_and_folders_of_such_names(anywhere: Path) -> None:
    for name in ("[a]", "a", "*", "[", "a?b", "axb", "back\\slash", "line\nend"):
        write(anywhere / name / "1.avro")
        assert files_of(f"{literal(name)}/*.avro") == [f"{name}/1.avro"], name
    assert files_of("[*/1.avro") == ["[/1.avro", "[a]/1.avro"]


def test_patterns_match_what_they_match_in_a_shell(anywhere: Path) -> None:
    names = ["a", "b", "-", "ab", "a.b", ".a", "a]", "^", "\\", "[", "a*", "A"]
    write(*(anywhere / folder / name for folder in ("d", "d.e", ".f", "d/e") for name in names))
    texts = [
        "*", "?", "a", "b", "[ab]", "[!a]", "[^a]", "[a-c]", "[c-a]", "[]a]", "[!]a]", "[\\]", "[", "]", ".*",
    ]  # fmt: skip
    for pattern in map("".join, itertools.product(["d/", "*/", "d/*/", "?[.]e/"], texts, ["", *texts])):
        if "**" not in pattern:
            found = sorted(path for path in glob.glob(pattern) if Path(path).is_file())  # noqa: PTH207
            assert files_of(pattern) == found, pattern


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("**", ["1.avro", "a/1.avro", "a/b/1.avro", "a/b/2.avro", "c/1.avro"]),
        ("a**", ["a/1.avro", "a/b/1.avro", "a/b/2.avro"]),
        ("**/1.avro", ["a/1.avro", "a/b/1.avro", "c/1.avro"]),
        ("a/**/1*", ["a/b/1.avro"]),
        ("*/**2*", ["a/b/2.avro"]),
        ("**/.*", ["a/.hidden"]),
        (".**", [".dot/1.avro"]),
        ("a//1.*", ["a/1.avro"]),
        ("nowhere/*", []),
        ("1.avro/*", []),
    ],
)
def test_two_stars_stand_for_folders_too_and_no_star_for_a_dot(
    pattern: str, found: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names = ["1.avro", "a/1.avro", "a/b/1.avro", "a/b/2.avro", "c/1.avro", "a/.hidden", ".dot/1.avro"]
    write(*map(Path, names))
    assert files_of(pattern) == found


def test_links_are_followed_and_each_file_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(Path("2026/1.jsonl"), Path("elsewhere/2.jsonl"), Path("in/0.jsonl"))
    for link, to in (("mon", "2026"), ("today", "2026"), ("away", "elsewhere"), ("again", "in")):
        Path("in", link).symlink_to(tmp_path / to)
    once = ["in/again/0.jsonl", "in/away/2.jsonl", "in/mon/1.jsonl"]
    assert files_of("in/*/*") == [*once, "in/today/1.jsonl"]
    assert [path for path, _ in files.match(["in/*/*"])] == once
    # A folder inside of itself is not looked at again.
    assert {path.count("again") for path in files_of("in/**")} == {0, 1}


def test_a_link_that_leads_nowhere_is_a_malformed_file(tmp_path: Path) -> None:
    (tmp_path / "lost.jsonl").symlink_to(tmp_path / "nowhere")
    _, (bad,) = files.sniff_all(files.match([f"{tmp_path}/*.jsonl"]))
    assert (bad.path, "cannot be opened" in bad.problem) == (f"{tmp_path}/lost.jsonl", True)


def test_a_folder_that_may_not_be_entered_is_no_empty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "a" / "1.avro")
    stat = Path.stat

    def refuse(path: Path, **options: Any) -> os.stat_result:
        if path.parent.name == "a":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return stat(path, **options)

    # The administrator of a machine may enter every folder.
    monkeypatch.setattr(Path, "stat", refuse)
    for pattern in ("a/1.avro", "*/1.avro", "a/*"):
        with pytest.raises(PermissionError, match=f"the folder {tmp_path}/a may not be read"):
            matching(f"{tmp_path}/{pattern}")
