"""The search for a Prism, and the check whether it can listen on a Unix socket only."""

from __future__ import annotations

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

#: The name of the package, installed from a wheel, that has a binary.
WHEEL = "ldpbeam_prism"
#: The seconds that a program has to print its options.
_ANSWER_SECONDS = 60.0


class Prism(NamedTuple):
    """A Prism that can be started.

    Attributes:
        path: the path of the binary.
        closed: whether it can listen on a Unix socket only; if not, it listens on every interface.
    """

    path: str
    closed: bool


def recognised(path: str) -> Prism | None:
    """The Prism at a path, recognised by the options it prints; None if the program is not Prism."""
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
    """The Prism that the user names: a file, or an address from which Beam can download it.

    Raises:
        FileNotFoundError: if the file does not exist or is not a program.
        ValueError: if the program is not Prism, or cannot be downloaded.
    """
    if "://" not in location:
        if not Path(location).is_file():
            raise FileNotFoundError(f"{location}: there is no such file")
        if not os.access(location, os.X_OK) and not zipfile.is_zipfile(location):
            raise FileNotFoundError(f"{location}: the file is not a program")
    prism = recognised(_unpacked(location))
    if prism is None:
        raise ValueError(f"{location}: the program is not Prism")
    return prism


def _unpacked(location: str) -> str:
    if "://" not in location and not zipfile.is_zipfile(location):
        # A name alone would be looked for on the search path of programs.
        return str(Path(location).absolute())
    try:
        return str(PrismJobServer(PipelineOptions([f"--prism_location={location}"]))._get_executable_path())
    except Exception as error:  # each way to download it raises its own errors
        raise ValueError(f"{location}: {error}") from None


def here() -> Prism | None:
    """The best Prism on this machine: one that can listen on a Unix socket only, else Beam's release.

    Returns:
        None if there is no Prism on this machine.
    """
    prisms = [prism for path in _places() if (prism := recognised(path)) is not None]
    return max(prisms, key=lambda prism: prism.closed, default=None)


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
    """The path of the installed wheel's binary; None if the wheel is not installed."""
    spec = importlib.util.find_spec(WHEEL)
    return None if spec is None or spec.origin is None else str(Path(spec.origin).with_name("prism"))


def closed() -> Prism | None:
    """A Prism that can listen on a Unix socket only: one on this machine, or one that this function builds.

    Returns:
        None if there is none and it cannot be built.
    """
    prisms = here()
    if prisms is not None and prisms.closed:
        return prisms
    if shutil.which("go") is None:
        return None
    try:
        return recognised(str(build(_say)))
    except BuildError as error:
        _say(f"Prism could not be built: {error}")
        return None


def fetched() -> Prism | None:
    """The best Prism on this machine, else Beam's release, which is downloaded; None if that fails."""
    prism = here()
    if prism is not None:
        return prism
    try:
        return recognised(PrismJobServer(PipelineOptions([]))._get_executable_path())
    except Exception:  # no network, no such release, no disk space: each raises its own error
        return None


def _say(sentence: str) -> None:
    print(f"ldpbeam: {sentence}", file=sys.stderr, flush=True)
