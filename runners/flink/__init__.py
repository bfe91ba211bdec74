"""Flink: batch runs on a cluster, or on the small one inside Beam's job server.

The user names the cluster. This module asks the cluster for the other options of Beam, or knows them.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ldpbeam.runners import WATCHED_SECONDS
from ldpbeam.runners.flink.cluster_keys import cluster_at
from ldpbeam.runners.flink.parts import FLINK_MINOR, FlinkError, fetch
from ldpbeam.runners.flink.processes import lost
from ldpbeam.runners.flink.rest import ANEW, Rest
from ldpbeam.runners.names import FLINK_WORKERS

if TYPE_CHECKING:
    from apache_beam.runners.runner import PipelineRunner

#: The master that stands for a cluster inside the job server, which ends with the job server.
LOCAL = "[local]"
#: Milliseconds for which Python workers outlive a stage, so that the next stage can use them. Flink believes
#: that a killed worker is alive until no stage has asked for it for this long; each stage that asks fails. So
#: this must be shorter than the longest pause between two restarts of a job.
WORKERS_KEPT_MILLISECONDS = 3_000


def runner() -> PipelineRunner:
    """The runner of Flink, which needs the options of :func:`options`."""
    # Imported here, because a worker must watch its parent before it imports Beam, which takes seconds.
    from ldpbeam.runners.flink.jobs import ClusterRunner

    return ClusterRunner()


def options(
    master: str,
    *,
    workers: str | None = None,
    pool: str | None = None,
    parallelism: int | None = None,
) -> list[str]:
    """The options of Beam for a pipeline on a cluster; the cluster is asked for its version and slots.

    Args:
        master: ``host:port`` or the URL of the cluster's web page, or ``[local]``.
        workers: the kind of Python workers. ``process``, the default on clusters: each task manager starts
            ``ldpbeam-worker``, which must have the same path on every machine as here. ``loopback``, the
            default for ``[local]``: this process; the job ends with it. ``pool``: a worker pool next to each
            task manager (``python -m apache_beam.runners.worker.worker_pool_main --service_port=50000
            --container_executable=.../ldpbeam-worker``). ``docker``: containers of Beam's image, or of the
            one that ``--environment_config`` names; they cannot reach the Unix sockets of a cluster on this
            machine.
        pool: ``host:port`` where every task manager finds its own pool.
        parallelism: the number of subtasks of a stage; by default the cluster's number of slots.

    Raises:
        FlinkError: if no cluster answers, one of its processes has ended, Beam has no job server for its
            version of Flink, or the small job server cannot be downloaded.
        ValueError: if ``workers`` and ``pool`` do not fit each other, or not the cluster.
    """
    if workers == "docker" and _is_ours(master):
        raise ValueError(
            "workers in containers cannot reach the Unix sockets of a cluster on this machine: use process "
            "or loopback"
        )
    version, slots = _ask(master)
    workers = workers or default_workers(master)
    arguments = [f"--flink_master={master}", *_environment(workers, pool)]
    arguments.append(f"--flink_version={version}")
    if _is_ours(master):
        small = fetch(lambda line: print(f"ldpbeam: {line}", file=sys.stderr)).job_server
        arguments.append(f"--flink_job_server_jar={small}")
    if master != LOCAL:
        # The job server runs for one job, too short for optimised machine code; this halves its start time.
        arguments.append("--job_server_jvm_properties=-XX:TieredStopAtLevel=1")
    if parallelism or sum(slots):
        # Without it the parallelism is 1, because Beam's job server does not know the cluster's default.
        arguments.append(f"--parallelism={parallelism or sum(slots)}")
    arguments.append(f"--job_server_timeout={WATCHED_SECONDS}")
    if workers != "loopback":
        # A Python process runs one thread at a time, so each slot has its own worker; 0 means one per core.
        arguments.append(f"--sdk_worker_parallelism={max(slots, default=0)}")
        arguments.append(f"--environment_cache_millis={WORKERS_KEPT_MILLISECONDS}")
    return arguments


def default_workers(master: str) -> str:
    """The default kind of Python workers for a master."""
    # For [local], the start of separate processes takes longer than they save: 36 s instead of 31 s for five
    # million reports on two cores.
    return "loopback" if master == LOCAL else "process"


def open_ports(master: str, workers: str | None = None) -> str | None:
    """The ports of a run that other users could reach, as part of a sentence; None if there are none.

    Args:
        master: as for :func:`options`.
        workers: as for :func:`options`.
    """
    if not _is_ours(master):
        return (
            f"the cluster at {master}, and Beam's job server for it on this machine, let anybody who reaches "
            "their ports run programs"
        )
    if workers == "pool":
        return "a worker pool of Beam lets anybody who reaches its port run programs"
    return None


def _is_ours(master: str) -> bool:
    """Whether this account started the cluster with ldpbeam, so that it serves no other account."""
    return master == LOCAL or cluster_at(master) is not None


def _ask(master: str) -> tuple[str, list[int]]:
    """(Flink's major and minor version, the slots of each task manager) of a master."""
    from apache_beam.options.pipeline_options import FlinkRunnerOptions

    if master == LOCAL:
        return FLINK_MINOR, []
    folder = cluster_at(master)
    gone = [] if folder is None else lost(folder)
    if gone:
        raise FlinkError(f"{master}: {' and '.join(gone)} of the cluster ended: {ANEW}")
    rest = Rest(master)
    version = ".".join(rest.version().split(".")[:2])
    known = FlinkRunnerOptions.PUBLISHED_FLINK_VERSIONS
    if version not in known:
        raise FlinkError(
            f"{master}: the cluster is Flink {version}, and this Beam is for Flink {', '.join(known)}"
        )
    return version, rest.slots()


def _environment(workers: str, pool: str | None) -> list[str]:
    if workers not in FLINK_WORKERS:
        raise ValueError(f"workers {workers!r}: one of {', '.join(FLINK_WORKERS)}")
    if (workers == "pool") != (pool is not None):
        raise ValueError("workers in a pool need the pool's address (host:port), and other workers have none")
    if workers == "process":
        command = Path(sys.executable).with_name("ldpbeam-worker")
        if not command.is_file():
            raise FlinkError(f"{command} is missing: install ldpbeam again (pip install)")
        config = json.dumps({"command": str(command)})
        return ["--environment_type=PROCESS", f"--environment_config={config}"]
    if workers == "pool":
        return ["--environment_type=EXTERNAL", f"--environment_config={pool}"]
    return [f"--environment_type={workers.upper()}"]
