"""The options of the commands that write and understand a study, and of simulated clients."""

from __future__ import annotations

from argparse import SUPPRESS

from ldpbeam.command_line.arguments import Parser, within
from ldpbeam.command_line.shared_options import add_people_options, add_study_option


def init(parser: Parser) -> None:
    """Add the options of ``ldpbeam init``."""
    study = parser.add_argument_group("the study")
    study.add_argument(
        "data",
        nargs="?",
        metavar="FILE",
        help="CSV or Parquet file of values, which proposes a range or categories, and whether there are ids",
    )
    study.add_argument(
        "--attribute", metavar="NAME", help="the attribute's name; with a file, one of its columns"
    )
    study.add_argument(
        "--range",
        nargs=2,
        type=float,
        metavar=("LOW", "HIGH"),
        help="a range of numbers (with a file: that of its values, rounded outward)",
    )
    study.add_argument(
        "--categories", nargs="+", metavar="NAME", help="a list of categories (with a file: those in it)"
    )
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
        "--users", choices=("ids", "none"),
        help="whether reports have user ids (ids); with a file none, if no column of it has them",
    )  # fmt: skip
    study.add_argument(
        "--groups", metavar="FIELD",
        help="an estimate for each value of this field of reports; with a file, one of its columns "
        "(default: none)",
    )  # fmt: skip
    study.add_argument(
        "--name", help="the study's name (default: the file's, or the attribute's)", metavar="NAME"
    )
    written = parser.add_argument_group("output")
    written.add_argument(
        "-o", "--output", default="study.yaml", metavar="FILE",
        help="the study (default: study.yaml); its JSON Schema is written beside it",
    )  # fmt: skip
    # Accepted in scripts, and without effect: there are no questions.
    written.add_argument("--yes", action="store_true", help=SUPPRESS)


def explain(parser: Parser) -> None:
    """Add the options of ``ldpbeam explain``."""
    group = parser.add_argument_group("what to explain")
    one = group.add_mutually_exclusive_group(required=True)
    one.add_argument("--study", metavar="FILE", help="what this study will do")
    one.add_argument("--counts", metavar="FILE", help="print the SQL that counts the numbers of this study")
    one.add_argument("--registry", metavar="FILE", help="print an entry for registries of deployments")
    one.add_argument("--mechanisms", action="store_true", help="list all mechanisms, one per line")
    one.add_argument("--estimators", action="store_true", help="list all estimators, one per line")
    one.add_argument("--schema", action="store_true", help="print the JSON Schema of study files")


def perturb(parser: Parser) -> None:
    """Add the options of ``ldpbeam perturb``."""
    data = parser.add_argument_group("input and output")
    add_study_option(data)
    data.add_argument("--attribute", required=True, metavar="NAME", help="which attribute the values are of")
    data.add_argument("--input", required=True, metavar="FILE", help="CSV file of people, with a header line")
    data.add_argument("--output", required=True, metavar="FOLDER", help="folder for the files of reports")
    data.add_argument(
        "--format", choices=("parquet", "avro", "jsonl"), default="parquet",
        help="format of the files of reports (default: parquet)",
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
    clients.add_argument("--seed", type=within(int, 0), metavar="N", help="draw from a seed: for tests only")
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
