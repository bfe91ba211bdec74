"""The options of ``ldpbeam show``."""

from __future__ import annotations

from ldpbeam.pipelines.commands.arguments import Parser


def add_options(parser: Parser) -> None:
    """Add the options of the command to its parser."""
    group = parser.add_argument_group("what is shown")
    group.add_argument("folder", metavar="OUT", help="the output folder of estimate, stream or rollup")
    group.add_argument(
        "--csv",
        choices=("estimates", "distribution"),
        help="print a table as CSV, and nothing else: a row per estimate, or per bucket, category and key",
    )
