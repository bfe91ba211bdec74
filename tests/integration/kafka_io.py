"""Beam's reader of Kafka, which is Java, without Docker: task managers start its worker as a process.

The jars are downloaded once into the cache. As a program, this file is that worker.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from support.waiting import wait_until

from ldpbeam.runners import maven
from ldpbeam.runners.cache import cache, make
from ldpbeam.runners.flink import boot
from ldpbeam.runners.flink.parts import BEAM, FlinkError, fetch

KAFKA = "3.9.1"
#: In the environment of the worker: its class path.
CLASS_PATH = "LDPBEAM_TEST_CLASS_PATH"


def jars() -> Path:
    """The folder of the jars.

    Raises:
        FlinkError: if Maven is missing or fails.
    """
    folder = cache() / "kafka-io" / f"{BEAM}-{KAFKA}"
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        make(folder, _download)
    return folder


def _download(folder: Path) -> None:
    pom = Path(__file__).with_suffix(".xml")
    try:
        command = maven.copying(pom, folder, f"-Dbeam.version={BEAM}", f"-Dkafka.version={KAFKA}")
    except FileNotFoundError as error:
        raise FlinkError(str(error)) from None
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        raise FlinkError(f"Beam's reader of Kafka could not be fetched; mvn said: {done.stdout[:500]}")


@contextlib.contextmanager
def expansion_service() -> Iterator[str]:
    """The address of what puts the reader into a pipeline, for as long as the block lasts.

    Raises:
        FlinkError: if the jars cannot be had.
    """
    # The jar that is compiled here first: its channels lead to Unix sockets.
    class_path = f"{fetch().closed}:{jars()}/*"
    with socket.socket() as probe, tempfile.TemporaryDirectory() as folder:
        probe.bind(("localhost", 0))
        port = probe.getsockname()[1]
        worker = Path(folder, "worker")
        worker.write_text(f'#!/bin/sh\nexec {sys.executable} {__file__} "$@"\n')
        worker.chmod(0o755)
        config = json.dumps({"command": str(worker), "env": {CLASS_PATH: class_path}})
        probe.close()
        command = ["java", "-cp", class_path, "org.apache.beam.sdk.expansion.service.ExpansionService"]
        command += [str(port), "--javaClassLookupAllowlistFile=*", "--defaultEnvironmentType=PROCESS"]
        with subprocess.Popen([*command, f"--defaultEnvironmentConfig={config}"]) as service:
            try:
                wait_until(lambda: _listens(port), lambda: "the expansion service")
                yield f"localhost:{port}"
            finally:
                service.kill()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("localhost", port)) == 0


def _work() -> None:
    """Become a worker of Java, as :mod:`ldpbeam.runners.flink.boot` becomes one of Python."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--id")
    parser.add_argument("--provision_endpoint")
    given, _ = parser.parse_known_args()
    os.environ.update(boot._environment(given.id, given.provision_endpoint), HARNESS_ID=given.id)
    os.execvp("java", ["java", "-cp", os.environ[CLASS_PATH], "org.apache.beam.fn.harness.FnHarness"])


if __name__ == "__main__":
    _work()
