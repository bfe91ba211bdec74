"""The options of the commands that plan a study."""

from __future__ import annotations

from ldpbeam.command_line.arguments import Parser, within
from ldpbeam.command_line.shared_options import add_people_options, add_processes_option, add_study_option

#: The largest number of people that is named as enough.
MOST_USERS = 10**12
#: Simulations of more people take minutes.
MOST_SIMULATED = 10_000_000


def plan(parser: Parser) -> None:
    """Add the options of ``ldpbeam plan``."""
    question = parser.add_argument_group("what to plan")
    add_study_option(question)
    question.add_argument(
        "--users", type=within(int, 1, MOST_USERS), required=True, metavar="N",
        help="how many people will report",
    )  # fmt: skip
    question.add_argument(
        "--error", type=float, metavar="NUMBER",
        help="also say how many people an error of at most this needs, in the unit of the estimate",
    )  # fmt: skip
    question.add_argument("--attribute", metavar="NAME", help="only this attribute")


def evaluate(parser: Parser) -> None:
    """Add the options of ``ldpbeam evaluate``."""
    question = parser.add_argument_group("input and output")
    add_study_option(question)
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
    parser.set_defaults(epsilons=(), users=(10_000,), trials=5, mechanisms=(), estimators=())
    trials.add_argument(
        "--epsilons", nargs="+", type=float, metavar="E", help="epsilons to try; each applies to all services"
    )
    trials.add_argument(
        "--users",
        nargs="+",
        type=within(int, 1, MOST_SIMULATED),
        metavar="N",
        help="numbers of people (default: 10000)",
    )
    trials.add_argument(
        "--mechanisms", nargs="+", metavar="MECHANISM",
        help="these mechanisms in turn, with fresh noise, instead of the study's",
    )  # fmt: skip
    trials.add_argument(
        "--estimators", nargs="+", metavar="ESTIMATOR",
        help="these estimators instead of the study's estimates",
    )  # fmt: skip
    trials.add_argument(
        "--trials",
        type=within(int, 1, 100_000),
        metavar="N",
        help="how often each combination is repeated (default: 5)",
    )
    trials.add_argument(
        "--seed", type=within(int, 0), default=0, metavar="N", help="the first seed (default: 0)"
    )
    add_processes_option(trials)
