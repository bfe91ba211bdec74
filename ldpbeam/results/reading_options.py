"""The options of the commands that read what runs wrote."""

from __future__ import annotations

from ldpbeam.command_line.arguments import Parser
from ldpbeam.command_line.shared_options import add_people_options


def show(parser: Parser) -> None:
    """Add the options of ``ldpbeam show``."""
    group = parser.add_argument_group("what to show")
    group.add_argument("folder", metavar="OUT", help="the output folder of estimate, stream or rollup")
    group.add_argument(
        "--csv",
        choices=("estimates", "distribution"),
        help="print a table as CSV, and nothing else: a row per estimate, or per bucket, category and key",
    )


def dead_letters(parser: Parser) -> None:
    """Add the options of ``ldpbeam dead-letters``."""
    group = parser.add_argument_group("what to show")
    group.add_argument("folder", metavar="OUT", help="the output folder of estimate or stream")
    group.add_argument("--reason", metavar="REASON", help="only dead letters of this reason")
    group.add_argument(
        "--examples", type=int, default=3, metavar="N", help="how many of each reason (default: 3)"
    )


def diff(parser: Parser) -> None:
    """Add the options of ``ldpbeam diff``."""
    group = parser.add_argument_group(
        "what to compare",
        "Compare two output folders, or two windows, groups or sides of a time in one. If the windows of "
        "two folders follow each other, each folder is added up first. The numbers of a kind are a family: "
        "all means, all variances, quantiles, ranges, shares, value buckets. The intervals of a family's "
        "differences hold together at 95%, and a number is higher or lower if its certain interval excludes "
        "zero: so in any family, at most 1 in 20 pairs of the same values has any such number. 'At any look' "
        "holds however often you look while a window fills, 'if smooth' if people are spread smoothly. The "
        "exit code is 1 if a number is higher or lower or an estimate is on one side only, else 0.",
    )
    group.add_argument("folders", nargs="+", metavar="OUT", help="two output folders, or one")
    sides = group.add_mutually_exclusive_group()
    sides.add_argument(
        "--before", metavar="TIME",
        help="a time, such as a release: compare all windows that end by it, added up, with all that begin "
        "at it or later",
    )  # fmt: skip
    sides.add_argument(
        "--windows", nargs=2, metavar=("A", "B"),
        help="two windows of one folder, each by its start or START/END, in RFC 3339",
    )  # fmt: skip
    sides.add_argument(
        "--groups", nargs="*", metavar="A",
        help="two groups of one folder, or more, of which every pair is compared; without names, all groups; "
        "'' stands for the reports without one",
    )  # fmt: skip
    group.add_argument(
        "--if-smooth", action="store_true",
        help="also exit with 1 for numbers that are higher or lower only if people are spread smoothly",
    )  # fmt: skip


def check(parser: Parser) -> None:
    """Add the options of ``ldpbeam check``."""
    group = parser.add_argument_group(
        "what to check",
        "A condition is a number, > or <, and a threshold: 'mean > 4000', 'quantile 0.95 > 60', 'share of "
        "cash < 10%', 'share from 0 to 10 > 0.5', 'mean of KEY < 3'. Numbers have the names that ldpbeam "
        "diff prints. If several attributes have the number, the name of one stands first: 'price: mean > "
        "4000'. A number is certainly beyond the threshold if its whole certain interval is, and nothing "
        "says that reports are false; possibly, if a part of an interval is. The exit code is 1 if any "
        "number is certainly beyond, else 0.",
    )
    group.add_argument("folder", metavar="OUT", help="the output folder of estimate, stream or rollup")
    group.add_argument(
        "conditions", nargs="+", metavar="CONDITION", help="a condition that must not hold, as 'mean > 4000'"
    )
    exits = group.add_mutually_exclusive_group()
    exits.add_argument("--possibly", action="store_true", help="also exit with 1 for what is possibly beyond")
    exits.add_argument(
        "--if-smooth", action="store_true",
        help="also exit with 1 for numbers that are beyond only if people are spread smoothly",
    )  # fmt: skip
    exits.add_argument(
        "--any-look", action="store_true",
        help="exit with 1 only for what is certain at any look: with 95%% intervals, checking early panes "
        "again and again gives a false alarm in at most 1 window in 20",
    )  # fmt: skip
    group.add_argument("--estimate", metavar="NAME", help="only estimates of this name (default: all)")
    group.add_argument(
        "--latest", action="store_true", help="only the latest window of each attribute that has closed"
    )


def report(parser: Parser) -> None:
    """Add the options of ``ldpbeam report``."""
    data = parser.add_argument_group("input and output")
    data.add_argument("outputs", nargs="+", metavar="OUT", help="output folders of runs")
    data.add_argument(
        "-o", "--output", default="report.html", metavar="FILE", help="the page (default: report.html)"
    )
    data.add_argument(
        "--event", action="append", default=[], metavar="TIME=NAME",
        help="mark a time, such as a release, in charts, and compare the windows before and after it; may be "
        "repeated. Events of the study are marked too",
    )  # fmt: skip
    truth = parser.add_argument_group("comparison with the truth")
    truth.add_argument("--truth", metavar="FILE", help="CSV file of people, drawn beside the estimates")
    truth.add_argument(
        "--attribute", metavar="NAME", help="the attribute of the values in --truth, if the study has several"
    )
    add_people_options(parser)
