"""The local engine of streams: Prism, Beam's portable engine, a process of its own beside this one.

Workers run in this process (``LOOPBACK``), so that it sees how far they are and can ask them to stop. Of the
local engines only Prism runs unbounded splittable reads, and so our own source; where it cannot be had,
``bundle_based`` takes its place. Prism and workers speak over Unix sockets in a folder that no other account
may enter, so that nobody else can give them work.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Sequence
from typing import Any

from apache_beam.runners.direct.direct_runner import BundleBasedDirectRunner
from apache_beam.runners.portability.prism_runner import PrismRunner
from apache_beam.runners.runner import PipelineRunner

from ldpbeam.runners import WATCHED_SECONDS
from ldpbeam.runners.prism import find
from ldpbeam.runners.prism.find import Prism
from ldpbeam.runners.prism.server import PrismServer
from ldpbeam.runners.sockets import private_folder, target
from ldpbeam.runners.worker_pool import WorkerPool

NAME = "prism"
#: How to get one with closed doors.
HOW = (
    "install Go, with which it is built once, or the wheel ldpbeam-prism, which `make prism-wheel` makes "
    "where there is Go"
)
#: Why the Prism that Beam releases is not taken without a word.
OPEN = (
    "is Prism as Beam releases it, which listens on every interface, without a password: whoever reaches "
    "this machine could run programs here"
)
#: Said once where Prism is missing.
WITHOUT_PRISM = (
    f"Prism, Beam's local engine for streams, is not here ({HOW}; --allow-open-ports takes Beam's own, "
    "which listens on every interface); without it messages are pulled ten at a time and acknowledged before "
    "they are processed, so a crash loses them, and a report older than its window and lateness counts as "
    "late, however long the queue"
)


def get(location: str | None, *, allow_open: bool) -> Prism | None:
    """The Prism that a run takes: as named, else with closed doors, else as Beam releases it if that may be.

    Args:
        location: as a person names it; None for the best there is.
        allow_open: whether one that listens on every interface may be fetched.

    Returns:
        None where there is none. One that listens on every interface may come even if it may not be fetched:
        it is for the caller to refuse.

    Raises:
        FileNotFoundError: if one is named that is not there.
        ValueError: if one is named that is no Prism, or the wheel's is damaged.
    """
    if location is not None:
        return find.named(location)
    return find.closed() or (find.fetched() if allow_open else find.here())


def runner(prism: Prism) -> PipelineRunner:
    """The engine, which runs each job on a Prism of its own."""
    return _OwnPrismRunner(prism)


class _OwnPrismRunner(PrismRunner):
    """Runs a job on a Prism and workers of its own, which end with it."""

    def __init__(self, prism: Prism) -> None:
        super().__init__()
        self._prism = prism

    def run_portable_pipeline(self, pipeline: Any, options: Any) -> Any:
        with contextlib.ExitStack() as started:
            folder = private_folder()
            started.callback(shutil.rmtree, folder, ignore_errors=True)
            self._server = PrismServer(self._prism, folder)
            started.callback(self._server.stop)
            self._pool = WorkerPool(target(folder / "workers"), options)
            started.callback(self._pool.stop)
            result = super().run_portable_pipeline(pipeline, options)
            # Beam calls these when the job has ended.
            result._cleanup_callbacks = [started.pop_all().close]
            return result

    def start_and_replace_loopback_environments(
        self, pipeline: Any, options: Any
    ) -> Sequence[Callable[[], None]]:
        self._pool.replace_loopback(pipeline)
        return []

    def default_job_server(self, options: Any) -> PrismServer:
        return self._server


def options(*, streaming: bool = False) -> Sequence[str]:
    """What Beam must be told to run a pipeline on Prism."""
    return [
        "--environment_type=LOOPBACK",
        *(["--streaming"] if streaming else []),
        # It would split a slow bundle of timers, and fire those again that are firing now
        # (https://github.com/apache/beam/issues/35771): whatever they say would count twice.
        "--experiments=prism_disable_sdf_split",
        f"--job_server_timeout={WATCHED_SECONDS}",
    ]


def bundle_based() -> PipelineRunner:
    """The engine in this process that can run streams, slowly and without our own source."""
    return BundleBasedDirectRunner()
