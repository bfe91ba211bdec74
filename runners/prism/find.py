"""Which Prism there is, and whether it keeps its doors closed."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.prism_runner import PrismJobServer

from ldpbeam.runners.prism.build import BuildError, build, place

#: The package of the wheel that has a binary.
WHEEL = "ldpbeam_prism"
#: Seconds that a program has to say which options it has.
_ANSWER_SECONDS = 60.0


class Prism(NamedTuple):
    """A Prism that can be started.

    Attributes:
        path: of the binary.
        closed: whether it can serve on a Unix socket; if not, it listens on every interface.
    """

    path: str
    closed: bool


def recognised(path: str) -> Prism | None:
    """What a program says of its options; None if it is no Prism."""
    try:
        done = subprocess.run(
            [path, "-h"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_ANSWER_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    options = {line.split()[0] for line in (done.stdout + done.stderr).splitlines() if line.strip()}
    return Prism(path, closed="-job_socket" in options) if "-job_port" in options else None


def named(location: str) -> Prism:
    """The Prism that a person names: a file, or what Beam can fetch.

    Raises:
        FileNotFoundError: if it is not there.
        ValueError: if it is no Prism, or cannot be fetched.
    """
    if "://" not in location:
        if not Path(location).is_file():
            raise FileNotFoundError(f"{location}: there is no such file")
        if not os.access(location, os.X_OK) and not zipfile.is_zipfile(location):
            raise FileNotFoundError(f"{location}: this is no program")
    found = recognised(_unpacked(location))
    if found is None:
        raise ValueError(f"{location}: this is no Prism")
    return found


def _unpacked(location: str) -> str:
    if "://" not in location and not zipfile.is_zipfile(location):
        return location
    try:
        return str(PrismJobServer(PipelineOptions([f"--prism_location={location}"]))._get_executable_path())
    except Exception as error:  # each way to fetch it has errors of its own
        raise ValueError(f"{location}: {error}") from None


def here() -> Prism | None:
    """The best Prism of this machine: with closed doors if there is one, else as Beam releases it.

    Raises:
        ValueError: if the wheel's binary is damaged.
    """
    found = [prism for path in _places() if (prism := recognised(path)) is not None]
    return max(found, key=lambda prism: prism.closed, default=None)


def _places() -> Iterator[str]:
    wheel = of_wheel()
    if wheel is not None:
        yield wheel
    if place().is_file():
        yield str(place())
    on_path = shutil.which("prism")
    if on_path is not None:
        yield on_path
    cache = Path(PrismJobServer.BIN_CACHE)
    released = Path(PrismJobServer(PipelineOptions([])).path_to_binary()).stem
    yield from (str(cache / name) for name in ("prism", released) if (cache / name).is_file())


def of_wheel() -> str | None:
    """The binary of the installed wheel, None if there is none.

    Raises:
        ValueError: if it is not the one that was packed.
    """
    spec = importlib.util.find_spec(WHEEL)
    if spec is None or spec.origin is None:
        return None
    binary = Path(spec.origin).with_name("prism")
    try:
        packed = binary.with_name("prism.sha256").read_text().split()[0]
        whole = hashlib.sha256(binary.read_bytes()).hexdigest() == packed
    except (OSError, IndexError):
        whole = False
    if not whole:
        raise ValueError(f"{binary}: it is damaged; install the wheel ldpbeam-prism again")
    return str(binary)


def closed() -> Prism | None:
    """A Prism with closed doors: one that is here, or one that is built; None if it can be neither had.

    Raises:
        ValueError: if the wheel's binary is damaged.
    """
    found = here()
    if found is not None and found.closed:
        return found
    if shutil.which("go") is None:
        return None
    try:
        return recognised(str(build(_say)))
    except BuildError as error:
        _say(f"Prism could not be built: {error}")
        return None


def fetched() -> Prism | None:
    """Prism as Beam releases it: one that is here, or what Beam fetches; None where it cannot be had."""
    found = here()
    if found is not None:
        return found
    try:
        return recognised(PrismJobServer(PipelineOptions([]))._get_executable_path())
    except Exception:  # no network, no such release, no room: each its own error
        return None


def _say(sentence: str) -> None:
    print(f"ldpbeam: {sentence}", file=sys.stderr, flush=True)
