"""The options of ``ldpbeam doctor``."""

from __future__ import annotations

from ldpbeam.command_line.arguments import Parser
from ldpbeam.runners.names import ENGINES, LOCAL


def doctor(parser: Parser) -> None:
    """Add the options of ``ldpbeam doctor``."""
    engine = parser.add_argument_group("engine")
    engine.add_argument(
        "--runner", choices=ENGINES, default=LOCAL,
        help=f"the engine to look for (default: {LOCAL})",
    )  # fmt: skip
    engine.add_argument("--flink-master", metavar="HOST:PORT", help="the cluster, to see whether it answers")
