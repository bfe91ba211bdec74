"""What an engine needs, whether it is here, and how to get it."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from ldpbeam.runners import dataflow, direct, flink, prism
from ldpbeam.runners.flink.parts import FlinkError, cached
from ldpbeam.runners.flink.rest import Rest
from ldpbeam.runners.wheels import checkout, plugins

#: The versions of Java that Flink runs on.
JAVA = range(11, 22)


class Check(NamedTuple):
    """One thing an engine needs.

    Attributes:
        what: it.
        found: what is here, None if it is missing.
        advice: how to get it, or what is without it; empty where nothing needs to be said.
        needed: whether nothing runs without it.
    """

    what: str
    found: str | None
    advice: str = ""
    needed: bool = True


def checks(runner: str, master: str | None = None, pool: str | None = None) -> Iterator[Check]:
    """Everything that is looked at for an engine, in the order of need."""
    yield Check("Python", ".".join(map(str, sys.version_info[:3])))
    yield Check("Beam", metadata.version("apache-beam"))
    if runner == direct.NAME:
        yield from _of_direct()
    elif runner == flink.NAME:
        yield from _of_flink(master or flink.LOCAL, pool)
    else:
        yield from _of_dataflow()


def _of_direct() -> Iterator[Check]:
    yield Check(
        "Prism (streams)",
        prism.find(None),
        f"go install github.com/apache/beam/sdks/v2/go/cmd/prism@v{metadata.version('apache-beam')}, or let "
        "Beam fetch it at the first stream; without it streams run on a slow engine",
        needed=False,
    )
    yield from _of_pubsub()


def _of_pubsub() -> Iterator[Check]:
    yield Check(
        "google-cloud-pubsub (streams)",
        _version("google-cloud-pubsub"),
        "pip install 'ldpbeam[pubsub]'",
        needed=False,
    )
    host = os.environ.get("PUBSUB_EMULATOR_HOST")
    if host is not None:
        yield Check(
            f"Pub/Sub server at {host}",
            "answers" if _listens(host) else None,
            "start it, or unset PUBSUB_EMULATOR_HOST for Google's",
        )


def _of_flink(master: str, pool: str | None) -> Iterator[Check]:
    parts = cached()
    yield Check(
        "Beam's Flink job server",
        None if parts is None else str(parts.job_server),
        "python -m ldpbeam.runners.flink.cluster up fetches a small one; with open internet Beam fetches its "
        "own at the first run",
        needed=False,
    )
    yield Check("Java", java(), f"the job server needs Java {JAVA.start} to {JAVA.stop - 1}: install a JDK")
    if master != flink.LOCAL:
        try:
            rest = Rest(master)
            yield Check(f"Flink at {master}", f"{rest.version()}, {sum(rest.slots())} slots")
        except (FlinkError, OSError, ValueError) as error:
            yield Check(f"Flink at {master}", None, f"{error}; make flink-up starts a local one")
    worker = Path(sys.executable).with_name("ldpbeam-worker")
    yield Check(
        "ldpbeam-worker (--workers process)",
        str(worker) if worker.is_file() else None,
        "pip install ldpbeam again; it must lie at this path on every machine of the cluster",
        needed=pool is None,
    )
    if pool is not None:
        yield Check(
            f"worker pool at {pool}",
            "answers" if _listens(pool) else None,
            "start one beside each task manager: "
            "python -m apache_beam.runners.worker.worker_pool_main --service_port=50000",
        )
    yield from _of_pubsub()


def _of_dataflow() -> Iterator[Check]:
    gcp = _version("google-cloud-dataflow-client") and _version("google-apitools")
    yield Check("Beam's Google Cloud parts", gcp, "pip install 'ldpbeam[gcp]'")
    yield Check("credentials", _credentials(), "gcloud auth application-default login")
    setup = checkout()
    yield Check("what workers install", str(setup) if setup else "a wheel of the installed package")
    for package in plugins():
        yield Check(f"plugin {package.name}", f"{package.version}, staged as a wheel")
    yield Check("options", dataflow.NAME, "--project, --region and --temp-location gs://BUCKET/FOLDER")


def java() -> str | None:
    """The version of Java on PATH or in ``JAVA_HOME``, None if there is none that Flink runs on."""
    home = os.environ.get("JAVA_HOME")
    command = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if command is None:
        return None
    try:
        said = subprocess.run([command, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except OSError:
        return None
    version = re.search(r'version "((\d+)[^"]*)"', said.stderr)
    return version[1] if version and int(version[2]) in JAVA else None


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _listens(place: str) -> bool:
    host, _, port = place.rpartition(":")
    try:
        with socket.create_connection((host or "localhost", int(port)), timeout=3):
            return True
    except (OSError, ValueError):
        return False


def _credentials() -> str | None:
    try:
        import google.auth
        from google.auth.exceptions import DefaultCredentialsError
    except ImportError:
        return None
    try:
        found, project = google.auth.default()
    except DefaultCredentialsError:
        return None
    return f"{type(found).__name__}{f' of {project}' if project else ''}"
