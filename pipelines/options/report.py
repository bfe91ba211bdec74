"""The options of ``ldpbeam report``."""

from __future__ import annotations

from ldpbeam.pipelines.commands.arguments import Parser


def add_options(parser: Parser) -> None:
    """Add the options of the command to its parser."""
    data = parser.add_argument_group("what the page is about, and where it goes")
    data.add_argument("outputs", nargs="+", metavar="OUT", help="output folders of runs")
    data.add_argument(
        "-o", "--output", default="report.html", metavar="FILE", help="the page (default: report.html)"
    )
