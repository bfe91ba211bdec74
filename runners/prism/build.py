"""Prism with closed doors: built once, with Go, from Beam's own module and the patch next to this file.

The Prism that Beam releases always listens on every interface. The patch adds the option ``--job_socket``,
with which Prism listens on a Unix socket instead, until its standard input ends.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from ldpbeam.runners.cache import CACHE, cache, make
from ldpbeam.temporary import temporary_folder

#: The release that is patched; Python workers of other releases can use it.
BEAM = "2.77.0"
MODULE = f"github.com/apache/beam/sdks/v2@v{BEAM}"
#: The checksum of the module in Go's notation; a module with another checksum is refused.
MODULE_SUM = "h1:RsC61pHEvtySEHAURQyP/+CVOJm/hy5hewuG9JF0+Ow="
PATCH = Path(__file__).with_name("closed_doors.patch")
#: The build leaves out paths of this machine; without the C library (CGO_ENABLED=0), it runs on every Linux.
_BUILD = ("build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags=-s -w")


class BuildError(RuntimeError):
    """Prism cannot be built on this machine; the message says why."""


def place() -> Path:
    """The path in the cache of the binary of this release with this patch."""
    digest = hashlib.sha256(PATCH.read_bytes()).hexdigest()[:12]
    return cache() / "prism" / f"{BEAM}-{digest}" / "prism"


def build(say: Callable[[str], None] = print) -> Path:
    """The path of the binary in the cache, which is built if it is missing.

    If several processes call this at once, one builds and the others wait.

    Args:
        say: called with one line before the build starts.

    Raises:
        BuildError: if Go or git is missing or fails, or the cache cannot be written.
    """
    binary = place()
    if binary.is_file():
        return binary
    go, git = shutil.which("go"), shutil.which("git")
    if go is None or git is None:
        raise BuildError(f"there is no {'go' if go is None else 'git'} on PATH")
    try:
        binary.parent.parent.mkdir(parents=True, exist_ok=True)
        with binary.parent.with_name(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not binary.is_file():
                say(f"building Prism {BEAM} with closed doors (1 to 4 minutes, once) into {binary.parent}")
                make(binary.parent, lambda folder: _build(go, git, folder / binary.name))
    except OSError as error:
        raise BuildError(f"{binary.parent}: {error.strerror or error}; {CACHE} names another cache") from None
    return binary


def _build(go: str, git: str, binary: Path) -> None:
    # The user's own settings of Go must not change this build.
    environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "", "GOWORK": "off"}
    with temporary_folder() as temporary:
        source = temporary.resolve() / "source"
        source.mkdir()
        # The temporary folder may be inside a git repository, which git must ignore.
        environment["GIT_CEILING_DIRECTORIES"] = str(temporary)
        module = _downloaded(go, source, environment)
        for name in ("go.mod", "go.sum"):
            shutil.copyfile(module / name, source / name)
        shutil.copytree(module / "go", source / "go", copy_function=shutil.copyfile)
        for folder in [source / "go", *(f for f in (source / "go").rglob("*") if f.is_dir())]:
            folder.chmod(0o700)
        _run([git, "apply", str(PATCH)], source, environment)
        _run([go, *_BUILD, "-o", str(binary), "./go/cmd/prism"], source, environment)
    binary.chmod(0o755)


def _downloaded(go: str, folder: Path, environment: Mapping[str, str]) -> Path:
    """The folder of the module in Go's cache, after a check of its checksum.

    Raises:
        BuildError: if the download fails, or the module has another checksum.
    """
    said = _run([go, "mod", "download", "-json", MODULE], folder, environment)
    module = json.loads(said)
    if module.get("Sum") != MODULE_SUM:
        raise BuildError(f"{MODULE} has the checksum {module.get('Sum')}, and should have {MODULE_SUM}")
    return Path(module["Dir"])


def _run(command: list[str], folder: Path, environment: Mapping[str, str]) -> str:
    done = subprocess.run(
        command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    if done.returncode:
        lines = [line.strip() for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        raise BuildError(f"{Path(command[0]).name} {command[1]} said: {(lines or ['nothing'])[-1]}")
    return done.stdout
