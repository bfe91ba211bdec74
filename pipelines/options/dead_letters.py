"""The options of ``ldpbeam dead-letters``."""

from __future__ import annotations

from ldpbeam.pipelines.commands.arguments import Parser


def add_options(parser: Parser) -> None:
    """Add the options of the command to its parser."""
    group = parser.add_argument_group("what is shown")
    group.add_argument("folder", metavar="OUT", help="the output folder of estimate or stream")
    group.add_argument("--reason", metavar="REASON", help="only dead letters of this reason")
    group.add_argument(
        "--examples", type=int, default=3, metavar="N", help="how many of each reason (default: 3)"
    )
