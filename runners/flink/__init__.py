"""Flink: batch, and streams with checkpoints, on a cluster or on the small one that comes with it.

A person names the cluster; the rest of what Beam must be told is asked of it, or known here.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ldpbeam.runners import WATCHED_SECONDS
from ldpbeam.runners.flink.keys import cluster_at
from ldpbeam.runners.flink.parts import FLINK_MINOR, FlinkError, fetch
from ldpbeam.runners.flink.processes import lost
from ldpbeam.runners.flink.rest import ANEW, Rest

if TYPE_CHECKING:
    from apache_beam.runners.runner import PipelineRunner

NAME = "flink"
#: The master that is no cluster: one that the job server holds in itself, and that ends with it.
LOCAL = "[local]"
WORKERS = ("process", "pool", "docker", "loopback")
#: Milliseconds between two checkpoints of a stream; what it read is acknowledged after each.
CHECKPOINT_MILLISECONDS = 2000
#: What stands in this environment and workers need in theirs.
PASSED_ON = ("PUBSUB_EMULATOR_HOST",)
#: Milliseconds that Python workers outlive a stage, so that the next one need not start them anew. One that
#: was killed is taken for alive until no stage has asked for it for so long, and each that asks fails: it
#: must be less than the longest pause between two restarts of a job.
WORKERS_KEPT_MILLISECONDS = 3_000


def runner() -> PipelineRunner:
    """The engine; :func:`options` tell it all else."""
    # Imported where it is needed: a worker watches its parent before it imports Beam, which takes seconds.
    from ldpbeam.runners.flink.jobs import ClusterRunner

    return ClusterRunner()


def options(
    master: str,
    *,
    workers: str | None = None,
    pool: str | None = None,
    streaming: bool = False,
    parallelism: int | None = None,
    savepoint: str | None = None,
    job_server_jar: str | None = None,
) -> list[str]:
    """What Beam must be told to run a pipeline on a cluster, which is asked what it is.

    Args:
        master: ``host:port`` or the URL of the cluster's web page, or ``[local]``.
        workers: who runs Python. ``process``, the default on clusters: each task manager starts
            ``ldpbeam-worker``, which must be at the same path as here on every machine. ``loopback``, the
            default for ``[local]``: this process, whose end is the job's. ``pool``: a worker pool beside each
            task manager (``python -m apache_beam.runners.worker.worker_pool_main --service_port=50000
            --container_executable=.../ldpbeam-worker``). ``docker``: containers of Beam's image, or the one
            that ``--environment_config`` names; not for clusters of this machine, whose Unix sockets
            they cannot reach.
        pool: ``host:port`` where every task manager finds its own pool.
        streaming: whether the pipeline is unbounded.
        parallelism: subtasks of a stage; by default as many as the cluster has slots.
        savepoint: where the state is that a stream goes on with, as Flink names it; None to begin.
        job_server_jar: Beam's job server. By default Beam fetches the one that fits the cluster; on a cluster
            of :mod:`ldpbeam.runners.flink.cluster`, which has Beam's jars beside its own, and for
            ``[local]``, it is the small one in the cache, which is fetched if it is not there.

    Raises:
        FlinkError: if no cluster answers, a process of it was lost, Beam has no job server for its version
            of Flink, or the small one cannot be fetched.
        ValueError: if ``workers`` and ``pool`` do not go together, or not with the cluster.
    """
    if workers == "docker" and _is_ours(master):
        raise ValueError(
            "workers in containers cannot reach the Unix sockets of a cluster on this machine: use process "
            "or loopback"
        )
    about = _ask(master)
    workers = workers or default_workers(master)
    jar = job_server_jar or about.job_server_jar
    found = [f"--flink_master={master}", *_environment(workers, pool)]
    if about.flink_version is not None:
        found.append(f"--flink_version={about.flink_version}")
    if jar is not None:
        found.append(f"--flink_job_server_jar={jar}")
    if master != LOCAL:
        # It lives for one job, too short for good machine code: half the time to its start.
        found.append("--job_server_jvm_properties=-XX:TieredStopAtLevel=1")
    if parallelism or about.slots:
        # Else it is 1: Beam's job server does not see the cluster's own default.
        found.append(f"--parallelism={parallelism or about.slots}")
    found.append(f"--job_server_timeout={WATCHED_SECONDS}")
    if workers != "loopback":
        # Python runs one thing at a time, so each slot has a worker of its own; 0: one a core.
        found.append(f"--sdk_worker_parallelism={about.slots_of_one or 0}")
    if not streaming and workers != "loopback":
        found.append(f"--environment_cache_millis={WORKERS_KEPT_MILLISECONDS}")
    if savepoint is not None:
        # Of the job server, which is asked for its options; Beam's own in Python lack it.
        found.append(f"--savepoint_path={savepoint}")
    if streaming:
        # Stages of a stream all last as long as the job does; workers that outlived it would hold what they
        # have not acknowledged.
        found += [
            "--streaming",
            f"--checkpointing_interval={CHECKPOINT_MILLISECONDS}",
            # Else the first bundle may never end, and the source is never opened.
            "--finish_bundle_before_checkpointing",
        ]
    return found


def default_workers(master: str) -> str:
    """Who runs Python where nobody says."""
    # For [local] a process of its own takes longer to start than it saves: 36 s against 31 s for five million
    # reports on two cores.
    return "loopback" if master == LOCAL else "process"


def open_ports(master: str, workers: str | None = None) -> str | None:
    """What others could reach of a run: a part of a sentence, None if nothing.

    Args:
        master: as for :func:`options`.
        workers: likewise.
    """
    if not _is_ours(master):
        return (
            f"the cluster at {master}, and Beam's job server for it on this machine, run what anybody sends "
            "who reaches their ports"
        )
    if workers == "pool":
        return "a worker pool of Beam runs what anybody sends who reaches its port"
    return None


def _is_ours(master: str) -> bool:
    """Whether it was started by ldpbeam in this account, and so serves nobody else."""
    return master == LOCAL or cluster_at(master) is not None


class _About(NamedTuple):
    """What there is to know of a master; None where the job server knows it itself.

    Attributes:
        flink_version: major and minor.
        slots: of the whole cluster.
        slots_of_one: the most that one task manager has.
        job_server_jar: the one that the cluster needs, None for Beam's own.
    """

    flink_version: str | None
    slots: int | None
    slots_of_one: int | None
    job_server_jar: Path | None


def _ask(master: str) -> _About:
    from apache_beam.options.pipeline_options import FlinkRunnerOptions

    if master == LOCAL:
        return _About(FLINK_MINOR, None, None, _small_job_server())
    folder = cluster_at(master)
    gone = [] if folder is None else lost(folder)
    if gone:
        raise FlinkError(f"{master}: {' and '.join(gone)} of the cluster ended: {ANEW}")
    rest = Rest(master)
    version = ".".join(rest.version().split(".")[:2])
    known = FlinkRunnerOptions.PUBLISHED_FLINK_VERSIONS
    if version not in known:
        raise FlinkError(f"{master}: the cluster is Flink {version}, this Beam knows {', '.join(known)}")
    slots = rest.slots()
    jar = None if folder is None else _small_job_server()
    return _About(version, sum(slots) or None, max(slots, default=None), jar)


def _small_job_server() -> Path:
    return fetch(lambda line: print(f"ldpbeam: {line}", file=sys.stderr)).job_server


def _environment(workers: str, pool: str | None) -> list[str]:
    if workers not in WORKERS:
        raise ValueError(f"workers {workers!r}: one of {', '.join(WORKERS)}")
    if (workers == "pool") != (pool is not None):
        raise ValueError("workers in a pool need its address, and no others do: host:port")
    if workers == "process":
        command = Path(sys.executable).with_name("ldpbeam-worker")
        if not command.is_file():
            raise FlinkError(f"{command} is missing: install ldpbeam again (pip install)")
        passed_on = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
        config = json.dumps({"command": str(command), "env": passed_on})
        return ["--environment_type=PROCESS", f"--environment_config={config}"]
    if workers == "pool":
        return ["--environment_type=EXTERNAL", f"--environment_config={pool}"]
    return [f"--environment_type={workers.upper()}"]
