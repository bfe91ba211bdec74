"""What the doctor says of an engine: what is here, what is missing, and how to get it."""

from __future__ import annotations

import os
import pwd
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from ldpbeam.runners import dataflow
from ldpbeam.runners.flink.rest import Rest

SILENT = "localhost:1"  # a port that nobody listens on


@pytest.fixture(autouse=True)
def bare_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with this environment's Python and nothing else: no programs, caches or accounts."""
    for name in ("JAVA_HOME", "PUBSUB_EMULATOR_HOST", "GOOGLE_APPLICATION_CREDENTIALS"):
        monkeypatch.delenv(name, raising=False)
    programs = tmp_path / "bin"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path / "gcloud"))
    # Else it is asked over the network whether this is a machine of Google's.
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "venv" / "python"))
    (tmp_path / "venv").mkdir()
    (tmp_path / "venv" / "ldpbeam-worker").touch()
    return programs


@pytest.fixture
def program() -> Callable[..., Path]:
    """Makes a program that says something on standard error: (path, what)."""

    def make(path: Path, says: str = "") -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
        path.chmod(0o755)
        return path

    return make


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What a Flink cluster answers, by path."""
    answers: dict[str, Any] = {
        "config": {"flink-version": "1.19.3"},
        "taskmanagers": {"taskmanagers": [{"id": "one", "slotsNumber": 4}]},
    }
    monkeypatch.setattr(Rest, "get", lambda self, path: answers[path])
    return answers


JAVA_17 = 'openjdk version "17.0.9" 2023-10-17'


@pytest.mark.parametrize(
    ("line", "programs", "code", "printed"),
    [
        ("", {}, 0, ["ok       ldpbeam: cramjam ", "ok       ldpbeam[beam]: apache-beam "]),
        ("--runner direct", {}, 0, ["ok       temporary folder: "]),
        ("--runner flink", {}, 2,
         ["MISSING  Java\n         the job server needs Java 11 to 21: install a JDK",
          "MISSING  Flink\n         name a cluster, as in --flink-master localhost:8081; "]),
        (f"--runner flink --flink-master {SILENT}", {"bin/java": JAVA_17}, 2,
         [f"MISSING  Flink at {SILENT}\n         {SILENT}: no Flink cluster answers there"]),
    ],
)  # fmt: skip
def test_what_an_engine_needs_is_here_or_missing(
    line: str,
    programs: dict[str, str],
    code: int,
    printed: list[str],
    command: Any,
    tmp_path: Path,
    program: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for path, says in programs.items():
        program(tmp_path / path, says)
    words = line.replace("HERE", str(tmp_path)).split()
    for variable in (word for word in words if "=" in word):
        monkeypatch.setenv(*variable.split("="))
    ran = command("doctor", *(word for word in words if "=" not in word))
    assert ran.code == code
    for text in printed:
        assert text.replace("HERE", str(tmp_path)) in ran.out, ran.out
    assert ("MISSING" in ran.out) == (code == 2)


@pytest.mark.parametrize(
    ("package", "version", "code", "lines"),
    [
        ("confluent-kafka", None, 0,
         ["not here  ldpbeam[kafka]\n         pip install 'ldpbeam[kafka]' for confluent-kafka>=2.5\n"]),
        ("confluent-kafka", "1.9.2", 0, ["not here  ldpbeam[kafka]\n", " for confluent-kafka>=2.5\n"]),
        ("confluent-kafka", "2.10.0rc1", 0, ["ok       ldpbeam[kafka]: confluent-kafka 2.10.0rc1, "]),
        # A package that an extra of Beam has, and ldpbeam's own extra through it.
        ("docstring-parser", None, 0, ["not here  ldpbeam[yaml]\n", "docstring-parser"]),
        ("loky", None, 2, ["MISSING  ldpbeam\n         pip install 'ldpbeam' for loky>=3.5\n"]),
    ],
)  # fmt: skip
def test_what_is_missing_or_too_old_is_named_with_the_line_that_installs_it(
    package: str,
    version: str | None,
    code: int,
    lines: list[str],
    command: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    version_of = metadata.version

    def changed(name: str) -> str:
        if name != package:
            return version_of(name)
        if version is None:
            raise metadata.PackageNotFoundError(name)
        return version

    monkeypatch.setattr(metadata, "version", changed)
    ran = command("doctor")
    assert ran.code == code
    assert all(line in ran.out for line in lines), ran.out
    # What those need who work on ldpbeam is nothing to its users.
    assert "ldpbeam[test]" not in ran.out and "ldpbeam[docs]" not in ran.out


def test_an_account_without_a_name_gets_one_as_a_container_has_none(
    command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(number: int) -> None:
        raise KeyError(number)

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    for variable in ("USER", "HOME"):
        monkeypatch.setenv(variable, "to be restored")
        monkeypatch.delenv(variable)
    command("doctor")
    assert (os.environ["USER"], os.environ["HOME"]) == ("ldpbeam", "/")


@pytest.fixture
def java(bare_machine: Path, program: Any) -> Path:
    """One that Flink runs on."""
    return program(bare_machine / "java", JAVA_17)


NOT_READY = "MISSING  Flink at somewhere:8081\n         "


@pytest.mark.parametrize("home", [False, True], ids=["PATH", "JAVA_HOME"])
def test_the_java_of_the_job_server(
    home: bool, command: Any, cluster: dict[str, Any], java: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if home:
        # Beam does not look on PATH then, and neither does this.
        monkeypatch.setenv("JAVA_HOME", "/nowhere")
    ran = command("doctor", "--runner", "flink", "--flink-master", "somewhere:8081")
    assert ran.code == (2 if home else 0)
    assert ("MISSING  Java\n" if home else f"ok       Java: {java}\n") in ran.out, ran.out


@pytest.mark.usefixtures("java")
@pytest.mark.parametrize(
    ("version", "slots", "told"),
    [
        ("1.19.3", [4], ["ok       Flink at somewhere:8081: 1.19, 4 slots\n"]),
        ("1.13.6", [4], [f"{NOT_READY}somewhere:8081: the cluster is Flink 1.13", "1.19"]),
        ("1.19.3", [], [f"{NOT_READY}it has no slots: start a task manager"]),
    ],
    ids=["ready", "a version that Beam does not know", "no slots"],
)
def test_a_cluster(
    command: Any, cluster: dict[str, Any], version: str, slots: list[int], told: list[str]
) -> None:
    cluster["config"]["flink-version"] = version
    cluster["taskmanagers"]["taskmanagers"] = [{"id": "one", "slotsNumber": own} for own in slots]
    ran = command("doctor", "--runner", "flink", "--flink-master", "somewhere:8081")
    assert ran.code == (0 if told[0].startswith("ok") else 2)
    assert all(part in ran.out for part in told), ran.out


@pytest.mark.usefixtures("java")
def test_a_worker_that_is_not_installed(command: Any, cluster: dict[str, Any], bare_machine: Path) -> None:
    (bare_machine.parent / "venv" / "ldpbeam-worker").unlink()
    ran = command("doctor", "--runner", "flink", "--flink-master", "somewhere:8081")
    assert ran.code == 2
    assert "MISSING  ldpbeam-worker\n         pip install ldpbeam again" in ran.out


def test_dataflow_with_everything(command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataflow, "runner", lambda: None)
    ran = command("doctor", "--runner", "dataflow")
    assert ran.code == 0
    assert "ok       Beam's Google Cloud parts: " in ran.out


def test_dataflow_without_beams_parts_for_it(command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise ImportError("No module named 'google.cloud.dataflow'; pip install 'ldpbeam[gcp]'")

    monkeypatch.setattr(dataflow, "runner", refuse)
    ran = command("doctor", "--runner", "dataflow")
    assert ran.code == 2
    assert (
        "MISSING  Beam's Google Cloud parts\n         No module named 'google.cloud.dataflow'; pip" in ran.out
    )
