"""What the doctor looks for of an engine: programs, libraries, servers that answer, and accounts."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from ldpbeam.runners import dataflow, flink
from ldpbeam.runners.flink.rest import FlinkError
from ldpbeam.runners.installed import Check, version_of
from ldpbeam.runners.names import DATAFLOW, FLINK
from ldpbeam.runners.wheels import ours, plugins, wheel_of
from ldpbeam.temporary import temporary_folder

#: The versions of Java that Flink runs on.
JAVA = range(11, 22)


def of_engine(runner: str, master: str | None) -> Iterator[Check]:
    """Check what an engine needs; the arguments are those of :func:`ldpbeam.runners.doctor.checks_of`."""
    if runner == FLINK:
        yield from _of_flink(master)
    elif runner == DATAFLOW:
        yield from _of_dataflow()


def _of_flink(master: str | None) -> Iterator[Check]:
    yield _java()
    yield _cluster(master)
    worker = flink.worker()
    yield Check(
        "ldpbeam-worker",
        str(worker) if worker.is_file() else None,
        "pip install ldpbeam again; it must lie at this path on every machine of the cluster",
    )


def _cluster(master: str | None) -> Check:
    what = "Flink" if master is None else f"Flink at {master}"
    try:
        version, slots = flink.ask(flink.cluster_named(master))
    except (FlinkError, ValueError) as error:
        return Check(what, None, str(error))
    return Check(
        what,
        f"{version}, {sum(slots)} slots" if slots else None,
        "it has no slots: start a task manager",
    )


def _java() -> Check:
    """The Java with which Beam starts the job server: that of ``JAVA_HOME``, else the one on PATH."""
    home = os.environ.get("JAVA_HOME")
    command = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    advice = f"the job server needs Java {JAVA.start} to {JAVA.stop - 1}: install a JDK"
    if command is None:
        return Check("Java", None, advice)
    where = f"{command} (JAVA_HOME)" if home else command
    try:
        said = subprocess.run([command, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Check("Java", None, f"{where} cannot be run ({error}); {advice}")
    version = re.search(r'version "((\d+)[^"]*)"', said.stderr)
    if version is None:
        return Check("Java", None, f"{where} does not say its version; {advice}")
    if int(version[2]) not in JAVA:
        return Check("Java", None, f"{where} is Java {version[1]}; {advice}")
    return Check("Java", version[1])


def _of_dataflow() -> Iterator[Check]:
    try:
        dataflow.runner()
        yield Check("Beam's Google Cloud parts", version_of("google-cloud-dataflow-client") or "here")
    except ImportError as error:
        yield Check("Beam's Google Cloud parts", None, str(error))
    yield _credentials()
    # A temporary folder that cannot be used has been named already.
    with contextlib.suppress(OSError), temporary_folder() as folder:
        yield _staged("what workers install", partial(ours, folder))
        for plugin in plugins():
            yield _staged(f"plugin {plugin.name}", partial(wheel_of, plugin, folder))
    yield Check(
        "what a run is told",
        "--project, --region, --temp-location gs://BUCKET/FOLDER; files are on gs:// too",
    )


def _staged(what: str, make: Callable[[], Path]) -> Check:
    try:
        return Check(what, make().name)
    except ValueError as error:
        return Check(what, None, str(error))


def _credentials() -> Check:
    try:
        import google.auth
        from google.auth.exceptions import GoogleAuthError
    except ImportError:
        return Check(
            "credentials", None, "pip install 'ldpbeam[gcp]', then gcloud auth application-default login"
        )
    try:
        credentials, project = google.auth.default()
    except GoogleAuthError as error:
        return Check("credentials", None, f"gcloud auth application-default login ({error})")
    return Check("credentials", f"{type(credentials).__name__}{f' of {project}' if project else ''}")
