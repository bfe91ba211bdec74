"""The options of ``ldpbeam vectors``."""

from __future__ import annotations

from ldpbeam.pipelines.commands.arguments import Parser


def add_options(parser: Parser) -> None:
    """Add the options of the command to its parser."""
    group = parser.add_argument_group("which vectors")
    group.add_argument("--mechanism", metavar="MECHANISM", help="print only the vectors of this mechanism")
