"""The local engine of streams: Prism, Beam's portable engine, a process of its own beside this one.

Workers run in this process (``LOOPBACK``), so that it sees how far they are and can ask them to stop. Of the
local engines only Prism runs unbounded splittable reads, and so our own source; where it cannot be had,
``bundle_based`` takes its place.
"""

from __future__ import annotations

import os
import shutil
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.direct.direct_runner import BundleBasedDirectRunner
from apache_beam.runners.portability.job_server import StopOnExitJobServer
from apache_beam.runners.portability.prism_runner import PrismJobServer, PrismRunner
from apache_beam.runners.runner import PipelineRunner
from apache_beam.version import __version__

from ldpbeam.runners import WATCHED_SECONDS

NAME = "prism"
#: What Go makes it of.
INSTALL = f"go install github.com/apache/beam/sdks/v2/go/cmd/prism@v{__version__}"
#: How to get it.
HOW = f"install it with `{INSTALL}`, or name it with --prism-location"
#: Said once where Prism is missing.
WITHOUT_PRISM = (
    f"Prism, Beam's local engine for streams, is not here and could not be fetched ({HOW}); "
    "without it messages are pulled ten at a time and acknowledged before they are processed, so a crash "
    "loses them, and a report older than its window and lateness counts as late, however long the queue"
)


def find(location: str | None) -> str | None:
    """Where Prism is: as given, on PATH, or in Beam's cache; None if nowhere.

    Raises:
        FileNotFoundError: if a location is given and no program is there.
    """
    if location is not None:
        if "://" not in location:
            if not Path(location).is_file():
                raise FileNotFoundError(f"{location}: there is no such file")
            if not os.access(location, os.X_OK) and not zipfile.is_zipfile(location):
                raise FileNotFoundError(f"{location}: this is no program")
        return location
    on_path = shutil.which("prism")
    if on_path is not None:
        return on_path
    installed = Path(PrismJobServer.BIN_CACHE) / "prism"
    return str(installed) if installed.is_file() else None


def fetch() -> str | None:
    """Prism of Beam's version from where Beam fetches it, or its cache; None where it cannot be had."""
    try:
        fetched: str = PrismJobServer(PipelineOptions([]))._get_executable_path()
    except Exception:  # no network, no such release, no room: each its own error
        return None
    return fetched


def runner() -> PipelineRunner:
    """The engine; :func:`options` tell it where Prism is."""
    return _OwnPrismRunner()


class _OwnPrismRunner(PrismRunner):
    """Runs a job on a Prism of its own: one that is shared ends with the first run that does."""

    def default_job_server(self, options: PipelineOptions) -> StopOnExitJobServer:
        return StopOnExitJobServer(_PrismServer(options))


class _PrismServer(PrismJobServer):
    """Prism, which ends with the thread that started it, and so with this process, however that ends."""

    def subprocess_cmd_and_endpoint(self) -> tuple[list[Any], str]:
        command, endpoint = super().subprocess_cmd_and_endpoint()
        # Of util-linux; elsewhere a Prism whose process was killed stays.
        setpriv = shutil.which("setpriv")
        return [*([setpriv, "--pdeathsig", "KILL"] if setpriv else []), *command], endpoint


def options(location: str, *, streaming: bool = False) -> Sequence[str]:
    """What Beam must be told to run a pipeline on the Prism that is there."""
    return [
        f"--prism_location={location}",
        "--environment_type=LOOPBACK",
        *(["--streaming"] if streaming else []),
        "--prism_log_level=error",
        # It would split a slow bundle of timers, and fire those again that are firing now
        # (https://github.com/apache/beam/issues/35771): whatever they say would count twice.
        "--experiments=prism_disable_sdf_split",
        f"--job_server_timeout={WATCHED_SECONDS}",
    ]


def bundle_based() -> PipelineRunner:
    """The engine in this process that can run streams, slowly and without our own source."""
    return BundleBasedDirectRunner()
