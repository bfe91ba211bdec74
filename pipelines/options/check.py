"""The options of ``ldpbeam check``."""

from __future__ import annotations

from ldpbeam.pipelines.commands.arguments import Parser


def add_options(parser: Parser) -> None:
    """Add the options of the command to its parser."""
    group = parser.add_argument_group(
        "what is checked",
        "A condition is a number, > or <, and a threshold: 'mean > 4000', 'quantile 0.95 > 60', 'share of "
        "cash < 10%', 'share from 0 to 10 > 0.5', 'mean of KEY < 3'. Numbers have the names that ldpbeam "
        "diff prints. If several attributes have the number, the name of one stands first: 'price: mean > "
        "4000'. A number is certainly beyond the threshold if its whole interval is, and the interval is not "
        "flagged; possibly, if a part of the interval is. The exit code is 1 if any number is certainly "
        "beyond, else 0.",
    )
    group.add_argument("folder", metavar="OUT", help="the output folder of estimate, stream or rollup")
    group.add_argument(
        "conditions", nargs="+", metavar="CONDITION", help="what must not be, as 'mean > 4000'"
    )
    group.add_argument("--possibly", action="store_true", help="the exit code is 1 for possibly, too")
    group.add_argument("--estimate", metavar="NAME", help="only estimates of this name (default: all)")
    group.add_argument(
        "--latest", action="store_true", help="only the latest window of each attribute that has closed"
    )
