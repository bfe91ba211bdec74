"""The options of ``ldpbeam report``."""

from __future__ import annotations

from ldpbeam.pipelines.commands.arguments import Parser
from ldpbeam.pipelines.options.shared import add_people_options


def add_options(parser: Parser) -> None:
    """Add the options of the command to its parser."""
    data = parser.add_argument_group("what the page is about, and where it goes")
    data.add_argument("outputs", nargs="+", metavar="OUT", help="output folders of runs")
    data.add_argument(
        "-o", "--output", default="report.html", metavar="FILE", help="the page (default: report.html)"
    )
    data.add_argument("--export", metavar="FOLDER", help="also write each chart here, as SVG and as PNG")
    truth = parser.add_argument_group("comparison with the truth")
    truth.add_argument("--truth", metavar="FILE", help="CSV file of people, drawn beside the estimates")
    truth.add_argument(
        "--attribute", metavar="NAME", help="what the values of --truth are of, if the study has several"
    )
    add_people_options(parser)
