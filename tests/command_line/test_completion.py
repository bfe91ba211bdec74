"""Completion: bash completes commands, options, mechanisms and files with the script that is printed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ldpbeam.command_line.catalogue import COMMANDS
from ldpbeam.command_line.shared_options import SHELLS
from ldpbeam.estimators import registered_estimators
from ldpbeam.mechanisms import registered_mechanisms


@pytest.fixture(scope="module")
def script(command: Any) -> str:
    """What ``ldpbeam --completion bash`` prints."""
    ran = command("--completion", "bash")
    assert (ran.code, ran.err) == (0, "")
    return str(ran.out)


def completed(script: str, folder: Path, *words: str) -> set[str]:
    """What bash offers for the last of the words."""
    line = " ".join(f"'{word}'" for word in words)
    asked = f"COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _shtab_ldpbeam"
    ask = f"{script}\n{asked}; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    ran = subprocess.run(["bash", "-c", ask], cwd=folder, capture_output=True, text=True, check=True)
    return {word.strip() for word in ran.stdout.splitlines()}


def test_bash_completes_commands_and_options(script: str, tmp_path: Path) -> None:
    assert completed(script, tmp_path, "ldpbeam", "est") == {"estimate"}
    assert completed(script, tmp_path, "ldpbeam", "--c") == {"--completion"}
    assert set(COMMANDS) <= completed(script, tmp_path, "ldpbeam", "")
    assert completed(script, tmp_path, "ldpbeam", "estimate", "--max-b") == {"--max-bad-fraction"}
    assert completed(script, tmp_path, "ldpbeam", "perturb", "--format", "") == {"avro", "jsonl", "parquet"}


def test_bash_completes_mechanisms_estimators_and_files(script: str, tmp_path: Path) -> None:
    found = completed(script, tmp_path, "ldpbeam", "vectors", "--mechanism", "")
    assert found == set(registered_mechanisms())
    found = completed(script, tmp_path, "ldpbeam", "evaluate", "--estimators", "e")
    assert found == {name for name in registered_estimators() if name.startswith("e")}
    (tmp_path / "study.yaml").write_text("")
    (tmp_path / "studies").mkdir()
    assert "study.yaml" in completed(script, tmp_path, "ldpbeam", "explain", "--study", "stu")
    folders = completed(script, tmp_path, "ldpbeam", "estimate", "--output", "stu")
    assert {word.rstrip("/") for word in folders} == {"studies"}


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_has_a_script_that_names_all_commands(shell: str, command: Any, tmp_path: Path) -> None:
    ran = command("--completion", shell)
    assert (ran.code, ran.err) == (0, "")
    assert all(name in ran.out for name in COMMANDS)
    if shutil.which(shell) and shell != "tcsh":
        (tmp_path / "script").write_text(ran.out)
        subprocess.run([shell, "-n", str(tmp_path / "script")], check=True)
