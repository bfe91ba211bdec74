"""What the doctor looks for of an engine: programs, libraries, and a cluster that answers."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from ldpbeam.runners import dataflow, flink
from ldpbeam.runners.flink.rest import FlinkError
from ldpbeam.runners.installed import Check, version_of
from ldpbeam.runners.request import DATAFLOW, FLINK


def of_engine(runner: str, master: str | None) -> Iterator[Check]:
    """Check what an engine needs; the arguments are those of :func:`ldpbeam.runners.doctor.checks_of`."""
    if runner == FLINK:
        home = os.environ.get("JAVA_HOME")
        # Beam starts the job server with this Java, and does not look on PATH where JAVA_HOME is set.
        java = shutil.which(str(Path(home) / "bin" / "java") if home else "java")
        yield Check("Java", java, "the job server needs Java 11 to 21: install a JDK")
        yield _cluster(master)
        worker = flink.worker()
        yield Check(
            "ldpbeam-worker",
            str(worker) if worker.is_file() else None,
            "pip install ldpbeam again; it must lie at this path on every machine of the cluster",
        )
    elif runner == DATAFLOW:
        try:
            dataflow.runner()
            yield Check("Beam's Google Cloud parts", version_of("google-cloud-dataflow-client") or "here")
        except ImportError as error:
            yield Check("Beam's Google Cloud parts", None, str(error))


def _cluster(master: str | None) -> Check:
    what = "Flink" if master is None else f"Flink at {master}"
    try:
        version, slots = flink.ask(flink.cluster_named(master))
    except (FlinkError, ValueError) as error:
        return Check(what, None, str(error))
    found = f"{version}, {sum(slots)} slots" if slots else None
    return Check(what, found, "it has no slots: start a task manager")
