"""The settings of a cluster's processes on this machine: Java's options, memory, Flink's configuration."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

#: A month in milliseconds; Flink's scheduler refuses much longer times.
_MONTH = 30 * 24 * 3600 * 1000

#: Restarts after 1, 2, 4, 8, 8 and 8 seconds; the sequence starts again after five minutes without a failure.
RESTARTS = {
    "initial-backoff": "1 s",
    "backoff-multiplier": 2.0,
    "max-backoff": "8 s",
    "jitter-factor": 0.0,
    "attempts-before-reset-backoff": 6,
    "reset-backoff-threshold": "5 min",
}
#: The addresses on which a cluster listens, also one inside a job server.
ON_LOOPBACK = {
    "jobmanager.rpc.address": "localhost",
    "jobmanager.bind-host": "localhost",
    "rest.address": "localhost",
    "rest.bind-address": "localhost",
    "taskmanager.host": "localhost",
    "taskmanager.bind-host": "localhost",
}

# Flink uses these packages by reflection, which Java 17 forbids by default.
_OPENED = (
    "lang lang.reflect net io nio text time util util.concurrent util.concurrent.atomic util.concurrent.locks"
)
JAVA = (
    "--add-exports=java.base/sun.net.util=ALL-UNNAMED",
    "--add-exports=java.management/sun.management=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    *(f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in _OPENED.split()),
)
#: Megabytes through which data for Python workers passes, one shard of users at a time.
_OFF_HEAP = 768
# Flink's start scripts compute these from one number. Without them a task manager does not start.
_MEMORY = {
    "cpu.cores": "1.0",
    "memory.task.heap.size": "400m",
    "memory.task.off-heap.size": f"{_OFF_HEAP}m",
    "memory.framework.heap.size": "128m",
    "memory.framework.off-heap.size": "128m",
    "memory.managed.size": "256m",
    "memory.jvm-metaspace.size": "256m",
    "memory.jvm-overhead.min": "128m",
    "memory.jvm-overhead.max": "128m",
}
#: Megabytes of buffers between tasks per slot; with half as many, a study with windows does not start.
_NETWORK = 128
_LOGGING = """\
rootLogger.level = INFO
rootLogger.appenderRef.file.ref = File
appender.file.name = File
appender.file.type = File
appender.file.append = true
appender.file.fileName = ${sys:log.file}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{HH:mm:ss,SSS} %-5p %-40.40c{1.} - %m%n
"""


def of_cluster(folder: Path, rest_port: int, rpc_port: int, slots: int) -> dict[str, object]:
    """Flink's configuration of a cluster.

    Args:
        folder: the cluster's folder.
        rest_port: the port of the web page and the REST API.
        rpc_port: the port on which the job manager listens for task managers.
        slots: the slots of each task manager.
    """
    temporary = str(folder / "tmp")
    return {
        **ON_LOOPBACK,
        "jobmanager.rpc.port": rpc_port,
        "rest.port": rest_port,
        "jobmanager.memory.process.size": "1g",
        "taskmanager.numberOfTaskSlots": slots,
        "io.tmp.dirs": temporary,
        "web.tmpdir": temporary,
        "state.checkpoints.dir": (folder / "checkpoints").as_uri(),
        # A job that lost its task manager waits for another one instead of using up its attempts. A job that
        # lost a Python worker fails until Flink knows that the worker has ended. A job that always fails has
        # used up its attempts after half a minute.
        "resourcemanager.standalone.start-up-time": _MONTH,
        "restart-strategy.type": "exponential-delay",
        **{f"restart-strategy.exponential-delay.{name}": value for name, value in RESTARTS.items()},
        # By default, Flink notices a killed task manager after fifty seconds.
        "heartbeat.interval": 1000,
        "heartbeat.timeout": 6000,
        # Jobs have no classes of their own.
        "classloader.resolve-order": "parent-first",
    }


def of_task_manager(name: str, slots: int) -> tuple[list[str], list[str]]:
    """(Java's options, Flink's arguments) of a task manager with a name and a number of slots."""
    network = _NETWORK * slots
    settings = {
        "resource-id": name,
        **_MEMORY,
        "memory.network.min": f"{network}m",
        "memory.network.max": f"{network}m",
    }
    # Direct memory: the buffers, Flink's own off-heap memory, and the task's.
    direct = network + 128 + _OFF_HEAP
    java = ["-Xms528m", "-Xmx528m", "-XX:MaxMetaspaceSize=256m", f"-XX:MaxDirectMemorySize={direct}m"]
    return java, [part for key, value in settings.items() for part in ("-D", f"taskmanager.{key}={value}")]


def write_settings(conf: Path, settings: Mapping[str, object]) -> None:
    """Write the configuration of Flink and of its logs into a folder that only this account may enter."""
    conf.mkdir(mode=0o700, exist_ok=True)
    lines = [f"{key}: {json.dumps(value)}\n" for key, value in settings.items()]
    # The file has the passwords of keys, so only this account may read it.
    (conf / "config.yaml").unlink(missing_ok=True)
    with os.fdopen(os.open(conf / "config.yaml", os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
        file.writelines(lines)
    (conf / "log4j.properties").write_text(_LOGGING)
