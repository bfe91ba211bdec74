"""A manifest that cannot be used ends a start by name, and nothing is deleted."""

from __future__ import annotations

from pathlib import Path

import pytest

from ldpbeam.errors import UserError
from ldpbeam.pipelines.spool.manifest import Manifest, read_manifest, write_manifest

KEPT = Manifest("of", number=3, position={"next": 5}, watermark=7, counts={"in": 2}, windows={"waiting": []})


def test_what_was_written_is_read_again(tmp_path: Path) -> None:
    write_manifest(str(tmp_path), KEPT)
    assert read_manifest(str(tmp_path), "of") == KEPT
    assert (tmp_path / "manifest.json").stat().st_mode & 0o777 == 0o600


def test_a_folder_without_a_manifest_has_none(tmp_path: Path) -> None:
    assert read_manifest(str(tmp_path), "of") is None


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (b'"number": 3', b'"number": 4', "hash"),
        (b'"format": 1', b'"format": 2', "newer version"),
        (b'"format": 1', b'"form": 1', "no header"),
        (b'"study": "of", "sha', b'"study": "on", "sha', "another study"),
    ],
)
def test_a_manifest_that_cannot_be_used_is_named(tmp_path: Path, old: bytes, new: bytes, said: str) -> None:
    write_manifest(str(tmp_path), KEPT)
    path = tmp_path / "manifest.json"
    changed = path.read_bytes().replace(old, new)
    path.write_bytes(changed)
    with pytest.raises(UserError, match=said) as raised:
        read_manifest(str(tmp_path), "of")
    assert str(path) in str(raised.value)
    assert path.read_bytes() == changed


@pytest.mark.parametrize("length", [0, 1, 20, 150])
def test_a_manifest_that_was_cut_short_is_named(tmp_path: Path, length: int) -> None:
    write_manifest(str(tmp_path), KEPT)
    path = tmp_path / "manifest.json"
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(UserError, match="damaged"):
        read_manifest(str(tmp_path), "of")
