"""The engines' names in options: importing them imports no engine."""

from __future__ import annotations

DIRECT = "direct"
FLINK = "flink"
DATAFLOW = "dataflow"
ENGINES = (DIRECT, FLINK, DATAFLOW)

#: Where Flink's workers run (:mod:`ldpbeam.runners.flink`).
FLINK_WORKERS = ("process", "pool", "docker", "loopback")
