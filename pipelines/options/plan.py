"""The options of ``ldpbeam plan``."""

from __future__ import annotations

from ldpbeam.pipelines.commands.arguments import Parser
from ldpbeam.pipelines.options.shared import add_study_option


def add_options(parser: Parser) -> None:
    """Add the options of the command to its parser."""
    question = parser.add_argument_group("what is planned")
    add_study_option(question)
    question.add_argument("--users", type=int, required=True, metavar="N", help="how many people will report")
    question.add_argument(
        "--error", type=float, metavar="NUMBER",
        help="also say how many people an error of at most this needs, in the unit of the estimate",
    )  # fmt: skip
    question.add_argument("--attribute", metavar="NAME", help="only this attribute")
    simulation = parser.add_argument_group("simulation")
    simulation.add_argument(
        "--simulate", nargs="*", metavar="POPULATION",
        help="also simulate people of these named populations (default: the domain's first population)",
    )  # fmt: skip
    simulation.add_argument(
        "--trials", type=int, default=5, metavar="N", help="simulations of each population (default: 5)"
    )
    simulation.add_argument(
        "--seed", type=int, default=0, metavar="N", help="the seed of simulations (default: 0)"
    )
