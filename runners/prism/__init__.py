"""The local engine of streams: Prism, Beam's portable engine, as a separate process.

Workers run in this process (``LOOPBACK``), so that it can observe and stop them. Prism is the only local
engine that runs unbounded splittable reads, which ldpbeam's own source needs. Prism and workers communicate
over Unix sockets in a folder that no other account may enter, so that no other account can give them work.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

from apache_beam.runners.portability.prism_runner import PrismRunner
from apache_beam.runners.runner import PipelineRunner

from ldpbeam.runners import WATCHED_SECONDS
from ldpbeam.runners.prism import find
from ldpbeam.runners.prism.find import Prism
from ldpbeam.runners.prism.server import PrismServer
from ldpbeam.runners.sockets import private_folder, target
from ldpbeam.runners.worker_pool import WorkerPool

#: How to get a Prism that listens on a Unix socket only.
HOW = (
    "install Go, with which it is built once, or the wheel ldpbeam-prism, which `make prism-wheel` makes "
    "where there is Go"
)
#: Why the Prism that Beam releases is used only if the user allows it.
OPEN = (
    "is Prism as Beam releases it, which listens on every interface, without a password: whoever reaches "
    "this machine could run programs here"
)
#: What a run says that needs Prism and finds none.
MISSING = (
    f"Prism, Beam's local engine of streams, is not here; {HOW} (--allow-open-ports takes Beam's own, which "
    "listens on every interface)"
)


def get(location: str | None, *, allow_open: bool) -> Prism | None:
    """The Prism for a run: the named one, else one that listens on a Unix socket only, else Beam's release.

    Args:
        location: the file or address that the user names; None for the best one available.
        allow_open: whether Beam's release, which listens on every interface, may be downloaded.

    Returns:
        The Prism, or None if there is none. Beam's release is also returned if it is on this machine and
        ``allow_open`` is false; the caller must refuse it.

    Raises:
        FileNotFoundError: if the named file does not exist or is not a program.
        ValueError: if the named program is not Prism.
    """
    if location is not None:
        return find.named(location)
    return find.closed() or (find.fetched() if allow_open else find.here())


def runner(prism: Prism) -> PipelineRunner:
    """The runner, which starts a Prism for each job."""
    return _OwnPrismRunner(prism)


class _OwnPrismRunner(PrismRunner):
    """A runner that starts a Prism and workers for each job, and ends them with the job."""

    def __init__(self, prism: Prism) -> None:
        super().__init__()
        self._prism = prism

    def run_portable_pipeline(self, pipeline: Any, options: Any) -> Any:
        with contextlib.ExitStack() as started:
            folder = started.enter_context(private_folder())
            self._server = PrismServer(self._prism, folder)
            started.callback(self._server.stop)
            self._pool = WorkerPool(target(folder / "workers"), options)
            started.callback(self._pool.stop)
            result = super().run_portable_pipeline(pipeline, options)
            # Beam calls these callbacks when the job has ended.
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
    """The options of Beam for a pipeline on Prism."""
    return [
        "--environment_type=LOOPBACK",
        *(["--streaming"] if streaming else []),
        # Otherwise Prism would split a slow bundle of timers and fire the running timers again
        # (https://github.com/apache/beam/issues/35771): their output would count twice.
        "--experiments=prism_disable_sdf_split",
        f"--job_server_timeout={WATCHED_SECONDS}",
    ]
