"""The engines' names in options: importing them imports no engine."""

from __future__ import annotations

from ldpbeam.command_line.arguments import LOCAL as LOCAL

DIRECT = "direct"
FLINK = "flink"
DATAFLOW = "dataflow"
ENGINES = (LOCAL, DIRECT, FLINK, DATAFLOW)
