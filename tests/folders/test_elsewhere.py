"""Output folders elsewhere than on this machine: the same files, written and read through Beam."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from apache_beam.io.filesystem import FileMetadata
from apache_beam.io.localfilesystem import LocalFileSystem
from support.studies import SMALL

from ldpbeam.transforms.patterns import matching
from ldpbeam.transforms.storage import delete, exists, split

SCHEME = "elsewhere"


def local(url: str) -> str:
    return url.removeprefix(f"{SCHEME}://")


class Elsewhere(LocalFileSystem):  # type: ignore[misc]
    """The local files under URLs. Beam finds a file system by its scheme."""

    @classmethod
    def scheme(cls) -> str:
        return SCHEME

    def exists(self, path: str) -> bool:
        return bool(super().exists(local(path)))

    def mkdirs(self, path: str) -> None:
        super().mkdirs(local(path))

    def create(self, path: str, *given: Any, **options: Any) -> Any:
        return super().create(local(path), *given, **options)

    def open(self, path: str, *given: Any, **options: Any) -> Any:
        return super().open(local(path), *given, **options)

    def rename(self, sources: list[str], targets: list[str]) -> None:
        super().rename([*map(local, sources)], [*map(local, targets)])

    def metadata(self, path: str) -> FileMetadata:
        return self._elsewhere(super().metadata(local(path)))

    def _url_dirname(self, path: str) -> str:
        return path.rpartition("/")[0]

    def _list(self, folder: str) -> Any:
        return map(self._elsewhere, super()._list(local(folder)))

    def delete(self, paths: list[str]) -> None:
        # Beam's file systems take patterns.
        for pattern in paths:
            folder, _, name = local(pattern).rpartition("/")
            (path,) = Path(folder).glob(name)
            path.unlink()

    def _elsewhere(self, found: FileMetadata) -> FileMetadata:
        return FileMetadata(f"{SCHEME}://{found.path}", found.size_in_bytes, found.last_updated_in_seconds)


def test_a_run_elsewhere_leaves_the_same_files_and_commands_read_them(
    tmp_path: Path, command: Any, write_lines: Any
) -> None:
    study, sent = tmp_path / "study.yaml", tmp_path / "sent.jsonl"
    study.write_text(SMALL)
    reports = [
        {"user_id": str(n), "attribute": "x", "service": "ab"[n % 2], "payload": n / 8} for n in range(8)
    ]
    write_lines(sent, [*reports, {"user_id": "none"}])
    here, there = tmp_path / "here", tmp_path / "there"
    url = f"{SCHEME}://{there}"
    given = ["--study", study, "--input", sent, "--max-bad-fraction", "1", "--output"]
    assert command("estimate", *given, here).code == command("estimate", *given, url).code == 0
    files = sorted(path.relative_to(here) for path in here.rglob("*") if path.is_file())
    assert files == sorted(path.relative_to(there) for path in there.rglob("*") if path.is_file())
    unlike = [str(name) for name in files if (here / name).read_bytes() != (there / name).read_bytes()]
    assert unlike == []
    assert command("check", url, "mean > 0") == command("check", here, "mean > 0")
    assert command("dead-letters", url) == command("dead-letters", here)


def test_files_elsewhere_are_matched_named_and_deleted(tmp_path: Path) -> None:
    for name in ("a.txt", "b[1].txt", "c.csv"):
        (tmp_path / name).write_text("")
    url = f"{SCHEME}://{tmp_path}"
    assert [split(entry.path) for entry in matching(f"{url}/*.txt")] == [(url, "a.txt"), (url, "b[1].txt")]
    assert [entry.path for entry in matching(f"{url}/b[[]1].txt")] == [f"{url}/b[1].txt"]
    delete([f"{url}/b[1].txt", f"{url}/gone"])
    assert not exists(f"{url}/b[1].txt") and exists(f"{url}/a.txt")
