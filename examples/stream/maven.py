"""Jars of Maven's repository, downloaded once into a cache: ``LDPBEAM_CACHE``, or ``~/.cache/ldpbeam``.

``python maven.py FILE.xml`` downloads what a pom depends on.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from ports import NoServerError

#: Maven would wait half an hour for a silent server; its versions name the limit differently.
PATIENCE = (
    "-Dmaven.wagon.rto=60000",
    "-Dmaven.wagon.http.retryHandler.count=5",
    "-Daether.connector.requestTimeout=60000",
    "-Daether.connector.http.retryHandler.count=5",
)


def jars(pom: Path) -> Path:
    """The folder of all jars that a pom depends on.

    Raises:
        NoServerError: if Maven is missing or fails.
    """
    named = os.environ.get("LDPBEAM_CACHE")
    # Beam's servers send the jars of their class path with every job, but none below such a folder.
    cache = Path(named or Path.home() / ".cache" / "ldpbeam", "gradle", "wrapper").absolute()
    folder = cache / f"{pom.stem}-{hashlib.sha256(pom.read_bytes()).hexdigest()[:12]}"
    if not folder.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        # The folder appears when it is complete: several processes may want it at once.
        with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=cache) as temporary:
            new = Path(temporary, "jars")
            _download(pom, new)
            try:
                new.rename(folder)
            except OSError:
                if not folder.is_dir():
                    raise
    return folder


def _download(pom: Path, folder: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise NoServerError("there is no mvn on PATH: apt-get install maven, with Java 11 or 17")
    command = [maven, "--batch-mode", "--quiet", f"--file={pom}", "-Dmaven.artifact.threads=16", *PATIENCE]
    command += ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={folder}"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        said = [line.strip() for line in (done.stdout + done.stderr).splitlines() if "ERROR" in line]
        raise NoServerError(f"mvn could not fetch the jars of {pom.name}: {(said or ['it said nothing'])[0]}")


if __name__ == "__main__":
    print(jars(Path(sys.argv[1])))
