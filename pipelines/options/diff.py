"""The options of ``ldpbeam diff``."""

from __future__ import annotations

from ldpbeam.pipelines.commands.arguments import Parser


def add_options(parser: Parser) -> None:
    """Add the options of the command to its parser."""
    group = parser.add_argument_group(
        "what is compared",
        "A difference is beyond the error if it is more than z times the root of the sum of both squared "
        "standard errors. z is such that of two runs of people with the same values, at most 1 in 100 pairs "
        "has any such difference: it grows with the number of numbers that are compared. Standard errors "
        "are those of the means, and for other numbers half the width of their intervals, divided by the "
        "normal quantile of their level. The exit code is 1 if a difference is beyond the error or an "
        "estimate is in one folder only, else 0.",
    )
    group.add_argument("folders", nargs=2, metavar="OUT", help="two output folders")
