"""The options of the commands that ask: a study, what it can do, and simulated clients."""

from __future__ import annotations

from ldpbeam.pipelines.options.arguments import Parser
from ldpbeam.pipelines.options.shared import add_people_options, add_processes_option, add_study_option


def init(parser: Parser) -> None:
    """Add the options of ``ldpbeam init``."""
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
        "--groups", metavar="FIELD",
        help="an estimate for each value of this field of reports; with a file, one of its columns "
        "(default: none)",
    )  # fmt: skip
    study.add_argument(
        "--name", help="the study's name (default: the file's, or the attribute's)", metavar="NAME"
    )
    written = parser.add_argument_group("what is written")
    written.add_argument(
        "-o", "--output", default="study.yaml", metavar="FILE",
        help="the study (default: study.yaml); its JSON Schema is written beside it",
    )  # fmt: skip
    written.add_argument("--yes", action="store_true", help="ask nothing")


def explain(parser: Parser) -> None:
    """Add the options of ``ldpbeam explain``."""
    add_study_option(parser.add_argument_group("what is explained"))


def plan(parser: Parser) -> None:
    """Add the options of ``ldpbeam plan``."""
    question = parser.add_argument_group("what is planned")
    add_study_option(question)
    question.add_argument("--users", type=int, required=True, metavar="N", help="how many people will report")
    question.add_argument(
        "--error", type=float, metavar="NUMBER",
        help="also say how many people an error of at most this needs, in the unit of the estimate",
    )  # fmt: skip
    question.add_argument("--attribute", metavar="NAME", help="only this attribute")
    question.add_argument(
        "--designs", action="store_true",
        help="compare fresh noise, a split epsilon, a panel and remembered noise over many windows",
    )  # fmt: skip
    simulation = parser.add_argument_group("simulation")
    simulation.add_argument(
        "--simulate", nargs="*", metavar="POPULATION",
        help="also simulate people of these named populations (default: all, for the greatest error)",
    )  # fmt: skip
    simulation.add_argument(
        "--trials", type=int, default=5, metavar="N", help="simulations of each population (default: 5)"
    )
    simulation.add_argument(
        "--seed", type=int, default=0, metavar="N", help="the seed of simulations (default: 0)"
    )


def evaluate(parser: Parser) -> None:
    """Add the options of ``ldpbeam evaluate``."""
    question = parser.add_argument_group("what is evaluated, and where to")
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
    parser.set_defaults(epsilon=(), users=(10_000,), trials=5)
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


def perturb(parser: Parser) -> None:
    """Add the options of ``ldpbeam perturb``."""
    data = parser.add_argument_group("what is perturbed, and where to")
    add_study_option(data)
    data.add_argument("--attribute", required=True, metavar="NAME", help="which attribute the values are of")
    data.add_argument("--input", required=True, metavar="FILE", help="CSV file of people, with a header line")
    data.add_argument("--output", required=True, metavar="FOLDER", help="folder for the files of reports")
    data.add_argument(
        "--format", choices=("avro", "jsonl", "parquet"), default="avro",
        help="format of the files of reports (default: avro)",
    )  # fmt: skip
    data.add_argument(
        "--overwrite", action="store_true", help="replace reports of the same attribute and service"
    )
    add_people_options(parser)
    clients = parser.add_argument_group("clients")
    clients.add_argument("--services", nargs="+", metavar="NAME", help="only these services")
    clients.add_argument(
        "--versions", nargs="+", default=[], metavar="SERVICE=VERSION",
        help="the clients' version of a service whose versions are told apart by a field",
    )  # fmt: skip
    clients.add_argument("--round", type=int, metavar="N", help="PrivKVM: only the services of this round")
    clients.add_argument("--means", metavar="FILE", help="PrivKVM: estimates.jsonl of the round before")
    clients.add_argument("--start", metavar="TIME", help="the first event time, without --time-column")
    clients.add_argument(
        "--spread", default="1h", metavar="DURATION",
        help="event times lie within this of the first (default: 1h)",
    )  # fmt: skip
    clients.add_argument("--seed", type=int, metavar="N", help="draw from a seed: for tests only")
    clients.add_argument(
        "--device-key-file", metavar="FILE",
        help="services with a lifetime_epsilon: the key, 16 bytes or more, from which the key of each "
        "simulated user follows; whoever has it can undo the permanent noise",
    )  # fmt: skip


def vectors(parser: Parser) -> None:
    """Add the options of ``ldpbeam vectors``."""
    group = parser.add_argument_group("which vectors")
    group.add_argument("--mechanism", metavar="MECHANISM", help="print only the vectors of this mechanism")
    group.add_argument(
        "--memoised",
        action="store_true",
        help="those of clients that remember their noise (lifetime_epsilon)",
    )
