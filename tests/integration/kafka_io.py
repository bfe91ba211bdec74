"""Beam's reader of Kafka, which is Java, without Docker: task managers start its worker as a process.

As a program, this file is that worker.
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

from maven import jars
from ports import held_port, port_of
from support.waiting import wait_until

from ldpbeam.runners.flink import boot

#: In the environment of the worker: its class path.
CLASS_PATH = "LDPBEAM_TEST_CLASS_PATH"


@contextlib.contextmanager
def expansion_service() -> Iterator[str]:
    """The address of what puts the reader into a pipeline, for as long as the block lasts.

    Raises:
        NoServerError: if the jars cannot be had.
    """
    with held_port() as held, tempfile.TemporaryDirectory() as folder:
        # The service sends what is on its class path with each job, and insists on something: this folder.
        class_path = f"{jars(Path(__file__).with_suffix('.xml'))}/*:{folder}"
        port = port_of(held)
        worker = Path(folder, "worker")
        worker.write_text(f'#!/bin/sh\nexec {sys.executable} {__file__} "$@"\n')
        worker.chmod(0o755)
        config = json.dumps({"command": str(worker), "env": {CLASS_PATH: class_path}})
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
