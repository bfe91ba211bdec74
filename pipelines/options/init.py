"""The options of ``ldpbeam init``."""

from __future__ import annotations

from ldpbeam.pipelines.commands.arguments import Parser


def add_options(parser: Parser) -> None:
    """Add the options of the command to its parser."""
    study = parser.add_argument_group(
        "what the study says",
        "What no option says is asked on a terminal; with --yes the proposals are taken.",
    )
    study.add_argument("data", nargs="?", metavar="FILE", help="CSV or Parquet file of values, for proposals")
    study.add_argument(
        "--attribute", metavar="NAME", help="what is asked about; with a file, one of its columns"
    )
    study.add_argument(
        "--range", nargs=2, type=float, metavar=("LOW", "HIGH"), help="it is a number in this range"
    )
    study.add_argument("--categories", nargs="+", metavar="NAME", help="it is one of these categories")
    study.add_argument(
        "--epsilon", type=float, metavar="E", help="the privacy budget of a report (default: 1)"
    )
    study.add_argument(
        "--services", nargs="+", metavar="NAME[=MECHANISM]",
        help="who collects it, and how (default: app, with square_wave for numbers and auto for categories)",
    )  # fmt: skip
    study.add_argument(
        "--windows", metavar="DURATION", help="windows of event time, as in 1h (default: none)"
    )
    study.add_argument(
        "--name", help="the study's name (default: the file's, or the attribute's)", metavar="NAME"
    )
    written = parser.add_argument_group("what is written")
    written.add_argument(
        "-o", "--output", default="study.yaml", metavar="FILE",
        help="the study (default: study.yaml); its JSON Schema is written beside it",
    )  # fmt: skip
    written.add_argument("--yes", action="store_true", help="ask nothing")
