"""The parts of Flink and Beam that are fetched, once, into the cache."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from ldpbeam.runners.flink import parts
from ldpbeam.runners.flink.parts import FlinkError

pytestmark = pytest.mark.usefixtures("own_cache")


def test_lines_of_a_manifest_are_short_and_go_on() -> None:
    entries = {"Main-Class": "a.B", "Class-Path": " ".join(f"folder/jar-{n}.jar" for n in range(40)), "X": ""}
    text = parts.manifest(entries)
    assert all(len(line) <= 72 for line in text.split(b"\r\n"))
    assert text.endswith(b"\r\n")
    unfolded = text.replace(b"\r\n ", b"").decode().splitlines()
    assert dict(line.split(": ", 1) for line in unfolded) == entries


def test_the_job_server_names_jars_beside_it(tmp_path: Path) -> None:
    jar = tmp_path / "job-server.jar"
    parts.write_job_server(jar, [Path("a", "flink.jar"), Path("b.jar")])
    with zipfile.ZipFile(jar) as archive:
        assert archive.namelist() == ["META-INF/MANIFEST.MF"]
        found = archive.read("META-INF/MANIFEST.MF").decode()
    assert "Class-Path: a/flink.jar b.jar\r\n" in found
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["job-server.jar"]


def fill_flink(folder: Path) -> None:
    lib = folder / "pyflink" / "lib"
    lib.mkdir(parents=True)
    (lib / "flink.jar").touch()


def fill_beam(folder: Path) -> None:
    (folder / "beam.jar").touch()


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """The classes that are compiled here, without a compiler."""

    def touch(path: Path, class_path: list[Path]) -> None:
        assert class_path
        path.parent.mkdir()
        path.touch()

    monkeypatch.setattr(parts, "_compile", touch)


def test_parts_are_fetched_once(own_cache: Path, compiled: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "_fetch_flink", fill_flink)
    monkeypatch.setattr(parts, "_fetch_beam", fill_beam)
    said: list[str] = []
    fetched = parts.fetch(said.append)
    assert len(said) == 2
    assert all(" MB, once)" in line and str(own_cache) in line for line in said)
    assert fetched.flink.is_dir() and (fetched.beam / "beam.jar").is_file()
    with zipfile.ZipFile(fetched.job_server) as archive:
        text = archive.read("META-INF/MANIFEST.MF").decode()
    entries = text.replace("\r\n ", "").split("Class-Path: ")[1].split()
    # Ours takes the place of a class of Beam's.
    assert [Path(entry).name for entry in entries] == [fetched.closed.name, "flink.jar", "beam.jar"]
    assert fetched.class_path.split(":")[0] == str(fetched.closed)
    assert all((fetched.folder / entry).is_file() for entry in entries)
    # Of jars below such a folder Beam sends none to the cluster.
    assert all("gradle/wrapper" in entry for entry in entries)
    assert parts.fetch(said.append) == parts.cached() == fetched
    assert len(said) == 2


def test_what_was_interrupted_is_fetched_again(
    own_cache: Path, compiled: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(folder: Path) -> None:
        fill_beam(folder)
        raise KeyboardInterrupt

    monkeypatch.setattr(parts, "_fetch_flink", fill_flink)
    monkeypatch.setattr(parts, "_fetch_beam", interrupted)
    with pytest.raises(KeyboardInterrupt):
        parts.fetch(lambda _: None)
    assert parts.cached() is None
    left = sorted(path.name for path in own_cache.rglob("*") if path.name.startswith((".", "beam")))
    assert left == []
    monkeypatch.setattr(parts, "_fetch_beam", fill_beam)
    said: list[str] = []
    parts.fetch(said.append)
    assert len(said) == 1
    assert "Beam's" in said[0]


def test_two_fetch_at_once(compiled: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def slower(folder: Path) -> None:
        # Another process is done while this one is still at it.
        other = folder.parent.parent / folder.name
        fill_beam(folder)
        other.mkdir()
        fill_beam(other)

    monkeypatch.setattr(parts, "_fetch_flink", fill_flink)
    monkeypatch.setattr(parts, "_fetch_beam", slower)
    assert (parts.fetch(lambda _: None).beam / "beam.jar").is_file()


def test_without_maven(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "_fetch_flink", fill_flink)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(FlinkError, match="no mvn on PATH: install Maven"):
        parts.fetch(lambda _: None)


def test_without_a_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "_fetch_flink", fill_flink)
    monkeypatch.setattr(parts, "_fetch_beam", fill_beam)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(FlinkError, match="no javac on PATH: install a JDK, 11 or 17, as a JRE alone has no"):
        parts.fetch(lambda _: None)
    compiler = tmp_path / "bin" / "javac"
    compiler.write_text("#!/bin/sh\necho 'A.java:1: error: cannot find symbol' >&2\nexit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", str(compiler.parent))
    with pytest.raises(
        FlinkError, match=r"could not be compiled; javac said: A.java:1: error: cannot find s"
    ):
        parts.fetch(lambda _: None)
    assert parts.cached() is None


def test_without_a_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = tmp_path / "bin" / "python"
    python.write_text(
        "#!/bin/sh\necho 'WARNING: again' >&2\necho 'ERROR: no route to the index' >&2\nexit 1\n"
    )
    python.chmod(0o755)
    with pytest.raises(FlinkError, match=r"could not be fetched; python said: ERROR: no route to the index$"):
        parts.fetch(lambda _: None)


def test_a_cache_that_cannot_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv(parts.CACHE, str(tmp_path / "file"))
    with pytest.raises(FlinkError, match="LDPBEAM_CACHE names another cache"):
        parts.fetch(lambda _: None)
