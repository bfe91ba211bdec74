"""The options of ``ldpbeam doctor``."""

from __future__ import annotations

from ldpbeam.pipelines.commands.arguments import Parser
from ldpbeam.pipelines.options.shared import add_prism_location
from ldpbeam.runners.names import DATAFLOW, DIRECT, FLINK, PRISM


def add_options(parser: Parser) -> None:
    """Add the options of the command to its parser."""
    engine = parser.add_argument_group("engine")
    engine.add_argument(
        "--runner", choices=(DIRECT, PRISM, FLINK, DATAFLOW), default=DIRECT,
        help=f"the engine to look for (default: {DIRECT})",
    )  # fmt: skip
    add_prism_location(engine)
    engine.add_argument("--flink-master", metavar="HOST:PORT", help="the cluster, to see whether it answers")
    engine.add_argument("--pool", metavar="HOST:PORT", help="where a task manager finds its worker pool")
