"""The command with which Maven downloads jars, and gives up on a server that has fallen silent."""

from __future__ import annotations

import shutil
from pathlib import Path

#: Maven would wait half an hour for a silent server; its versions name the limit differently.
_PATIENCE = (
    "-Dmaven.wagon.rto=60000",
    "-Dmaven.wagon.http.retryHandler.count=5",
    "-Daether.connector.requestTimeout=60000",
    "-Daether.connector.http.retryHandler.count=5",
)


def copying(pom: Path, folder: Path, *options: str) -> list[str]:
    """The command that downloads what a pom depends on.

    Args:
        pom: the path of the pom.
        folder: the folder for the jars.
        options: further options of Maven.

    Raises:
        FileNotFoundError: if there is no Maven.
    """
    maven = shutil.which("mvn")
    if maven is None:
        raise FileNotFoundError(
            "there is no mvn on PATH: install Maven and Java 11 or 17 (on Debian: apt-get install maven)"
        )
    return [
        maven, "--batch-mode", "--quiet", f"--file={pom}", "-Dmaven.artifact.threads=16", *_PATIENCE,
        "dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={folder}", *options,
    ]  # fmt: skip
