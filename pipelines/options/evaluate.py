"""The options of ``ldpbeam evaluate``."""

from __future__ import annotations

from ldpbeam.pipelines.commands.arguments import Parser
from ldpbeam.pipelines.options.shared import add_people_options, add_processes_option
from ldpbeam.pipelines.trials.papers import PAPERS


def add_options(parser: Parser) -> None:
    """Add the options of the command to its parser."""
    question = parser.add_argument_group("what is evaluated, and where to", "One of --study and --paper.")
    question.add_argument("--study", metavar="FILE", help="the study file")
    question.add_argument("--paper", choices=tuple(PAPERS), help="a paper's experiment instead of a study")
    question.add_argument(
        "--attribute", metavar="NAME", help="which attribute; needed if the study has several"
    )
    question.add_argument(
        "--output", required=True, metavar="FOLDER", help="folder for trials, table and figures"
    )
    question.add_argument("--no-figures", action="store_true", help="write the table only")
    people = parser.add_argument_group("people")
    people.add_argument(
        "--population", nargs="+", default=[], metavar="NAME", help="named populations to draw people from"
    )
    people.add_argument("--data", metavar="FILE", help="CSV file of people to draw from, with a header line")
    add_people_options(parser)
    trials = parser.add_argument_group("trials")
    trials.add_argument(
        "--epsilon", nargs="+", type=float, metavar="E", help="epsilons to try, each for all services"
    )
    trials.add_argument(
        "--users", nargs="+", type=int, metavar="N", help="numbers of people (default: 10000)"
    )
    trials.add_argument(
        "--estimators",
        nargs="+",
        metavar="ESTIMATOR",
        help="these estimators instead of the study's estimates",
    )
    trials.add_argument(
        "--trials", type=int, metavar="N", help="how often each combination is repeated (default: 5)"
    )
    trials.add_argument("--seed", type=int, default=0, metavar="N", help="the first seed (default: 0)")
    add_processes_option(trials)
