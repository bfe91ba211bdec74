"""The engines' names in options: importing them imports no engine."""

from __future__ import annotations

#: This process, without an engine.
LOCAL = "local"
DIRECT = "direct"
PRISM = "prism"
FLINK = "flink"
DATAFLOW = "dataflow"
ENGINES = (LOCAL, DIRECT, PRISM, FLINK, DATAFLOW)

#: Where Flink's workers run (:mod:`ldpbeam.runners.flink`).
FLINK_WORKERS = ("process", "pool", "docker", "loopback")
