"""Flink: batch runs on a cluster that the user names, which is asked for the other options of Beam."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ldpbeam.runners.flink.rest import FlinkError, Rest

if TYPE_CHECKING:
    from apache_beam.runners.runner import PipelineRunner

#: Milliseconds for which Python workers outlive a stage, so that the next stage can use them. Flink believes
#: that a killed worker is alive until no stage has asked for it for this long; each stage that asks fails. So
#: this must be shorter than the longest pause between two restarts of a job.
WORKERS_KEPT_MILLISECONDS = 3_000
#: Longer than any job. Beam stops watching a portable job after this many seconds, whatever its state, and
#: reports it as failed; Beam's default is a minute.
WATCHED_SECONDS = 10**9
#: Names with which Beam starts a cluster inside its job server.
_INSIDE = ("[local]", "[auto]")
_EXAMPLE = "--flink-master localhost:8081"


def runner() -> PipelineRunner:
    """The runner of Flink, which needs the options of :func:`options`."""
    # Imported here, because a worker must watch its parent before it imports Beam, which takes seconds.
    from ldpbeam.runners.flink.jobs import ClusterRunner

    return ClusterRunner()


def options(master: str | None, given: Sequence[str] = ()) -> list[str]:
    """The options of Beam for a pipeline on a cluster; the cluster is asked for its version and slots.

    Each task manager starts ``ldpbeam-worker``, which must have the same path on every machine as here,
    unless ``given`` has an ``--environment_type``.

    Args:
        master: ``host:port`` or the URL of the cluster's web page.
        given: the user's own options of Beam, which come after these.

    Raises:
        FlinkError: if no cluster answers, Beam has no job server for its version of Flink, or
            ``ldpbeam-worker`` is missing.
        ValueError: if ``master`` names no cluster.
    """
    named = cluster_named(master)
    version, slots = ask(named)
    arguments = [f"--flink_master={named}", f"--flink_version={version}"]
    # The job server runs for one job, too short for optimised machine code; this halves its start time.
    arguments.append("--job_server_jvm_properties=-XX:TieredStopAtLevel=1")
    arguments.append(f"--job_server_timeout={WATCHED_SECONDS}")
    if slots:
        # Without it the parallelism is 1, because Beam's job server does not know the cluster's default.
        arguments.append(f"--parallelism={sum(slots)}")
    # A Python process runs one thread at a time, so each slot has its own worker; 0 means one per core.
    arguments.append(f"--sdk_worker_parallelism={max(slots, default=0)}")
    arguments.append(f"--environment_cache_millis={WORKERS_KEPT_MILLISECONDS}")
    if not any(option.startswith("--environment_type") for option in given):
        command = worker()
        if not command.is_file():
            raise FlinkError(f"{command} is missing: install ldpbeam again (pip install)")
        config = json.dumps({"command": str(command)})
        arguments += ["--environment_type=PROCESS", f"--environment_config={config}"]
    return arguments


def worker() -> Path:
    """The command ``ldpbeam-worker`` of this environment, whether it is there or not."""
    return Path(sys.executable).with_name("ldpbeam-worker")


def cluster_named(master: str | None) -> str:
    """The cluster's address.

    Raises:
        ValueError: if there is none, or it asks for a cluster inside the job server.
    """
    if master is None:
        raise ValueError(f"name a cluster, as in {_EXAMPLE}; docs/flink.md says how to start one")
    if master in _INSIDE:
        raise ValueError(
            f"--flink-master {master}: no cluster is started for a run; start one as docs/flink.md says, and "
            f"name it, as in {_EXAMPLE}"
        )
    return master


def ask(master: str) -> tuple[str, list[int]]:
    """(Flink's major and minor version, the slots of each task manager) of a cluster.

    Raises:
        FlinkError: if no cluster answers, or Beam has no job server for its version.
    """
    from apache_beam.options.pipeline_options import FlinkRunnerOptions

    rest = Rest(master)
    version = ".".join(rest.version().split(".")[:2])
    known = FlinkRunnerOptions.PUBLISHED_FLINK_VERSIONS
    if version not in known:
        raise FlinkError(
            f"{master}: the cluster is Flink {version}, and this Beam is for Flink {', '.join(known)}"
        )
    return version, rest.slots()
