"""The command ``ldpbeam``."""

from __future__ import annotations

import difflib
import json
import logging
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from ldpbeam.pipelines.arguments import Parser
from ldpbeam.pipelines.errors import DONE, TOO_MANY_BAD, WRONG, UserError
from ldpbeam.schemas.study import Study
from ldpbeam.schemas.study_file import StudyError, read_study


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; gives its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    commands: dict[str, tuple[Callable[[Parser, list[str]], int], str]] = {
        "perturb": (_perturb, "what clients would send, as files of reports"),
        "estimate": (_estimate, "reports in files to estimates"),
        "explain": (_explain, "what a study will do, in plain sentences"),
        "schema": (_schema, "the JSON Schema of study files"),
        "mechanisms": (_mechanisms, "every mechanism, a line each"),
        "estimators": (_estimators, "every estimator, a line each"),
    }
    if not given or given[0] in ("-h", "--help"):
        print("usage: ldpbeam COMMAND [options]\n\nEstimates from reports perturbed under local")
        print("differential privacy. Commands:\n")
        for name, (_, summary) in commands.items():
            print(f"  {name:<12}{summary}")
        print("\nldpbeam COMMAND --help tells a command's options.")
        return DONE if given else WRONG
    name, *rest = given
    # Beam and what it imports say much that is nobody's concern here.
    logging.getLogger().setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", "Possible nested set", FutureWarning)
    try:
        if name not in commands:
            near = difflib.get_close_matches(name, commands, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(commands)}"
            raise UserError(f"unknown command {name!r}; {hint}")
        function, summary = commands[name]
        return function(Parser(f"ldpbeam {name}", summary), rest)
    except (UserError, StudyError) as error:
        print(f"ldpbeam: {error}", file=sys.stderr)
        return WRONG
    except BrokenPipeError:
        sys.stderr.close()
        return DONE


def _study(path: str, attribute: str | None = None) -> Study:
    study = read_study(path)
    if attribute is not None and attribute not in study.attributes:
        raise UserError(f"--attribute {attribute}: the study has {', '.join(study.attributes)}")
    return study


def _time(option: str, text: str | None) -> int | None:
    if text is None:
        return None
    from pydantic import TypeAdapter, ValidationError

    from ldpbeam.schemas.reports import EARLIEST, LATEST
    from ldpbeam.schemas.times import Time

    try:
        time = int(text) if text.isascii() and text.isdigit() else TypeAdapter(Time).validate_python(text)
    except ValidationError:
        raise UserError(f"{option} {text}: write a time with its zone, as in 2026-11-20T10:00:00Z") from None
    if not EARLIEST <= time < LATEST:
        raise UserError(f"{option} {text}: outside the years 1900 to 2199")
    return int(time)


def _duration(option: str, text: str) -> int:
    from pydantic import TypeAdapter, ValidationError

    from ldpbeam.schemas.times import Duration

    try:
        return int(TypeAdapter(Duration).validate_python(text))
    except ValidationError:
        raise UserError(f"{option} {text}: write a whole number and a unit, as in 90s or 1h") from None


def _people_options(parser: Parser) -> None:
    parser.add_argument("--value-column", help="column of the true values")
    parser.add_argument("--time-column", help="column of the event times (RFC 3339 or epoch ms)")
    parser.add_argument("--weight-column", help="column that says how many people a row stands for")
    parser.add_argument("--group-column", help="column of the study's groups")


def _perturb(parser: Parser, arguments: list[str]) -> int:
    parser.add_argument("--study", required=True, help="the study file")
    parser.add_argument("--attribute", required=True, help="which attribute the values are of")
    parser.add_argument("--input", required=True, help="CSV file of people, with a header line")
    parser.add_argument("--output", required=True, help="folder for the files of reports")
    _people_options(parser)
    parser.add_argument("--user-column", help="column of the user ids; else each row is a new user")
    parser.add_argument("--format", choices=("avro", "jsonl", "parquet"), default="avro")
    parser.add_argument("--services", nargs="+", help="only these services")
    parser.add_argument(
        "--versions", nargs="+", default=[], metavar="SERVICE=VERSION",
        help="the clients' version of a service whose versions are told apart by a field",
    )  # fmt: skip
    parser.add_argument("--start", help="the first event time, without --time-column")
    parser.add_argument("--spread", default="1h", help="event times lie within this of the first")
    parser.add_argument("--seed", type=int, help="draw from a seed: for tests only")
    parser.add_argument(
        "--overwrite", action="store_true", help="replace reports of the same attribute and service"
    )
    options = parser.parse(arguments)
    from ldpbeam.pipelines.people import PeopleColumns, read_people
    from ldpbeam.pipelines.perturb import make_room, simulate, write_reports

    study = _study(options.study, options.attribute)
    attribute = study.attribute(options.attribute)
    if options.value_column is None:
        raise UserError("--value-column is missing: which column has the true values?")
    if options.weight_column and options.user_column:
        raise UserError("a weight makes several people of a row: leave out --user-column")
    if options.seed is not None and options.seed < 0:
        raise UserError(f"--seed {options.seed}: from 0 up")
    services = list(dict.fromkeys(options.services or attribute.services))
    for service in services:
        if service not in attribute.services:
            raise UserError(
                f"--services {service}: there are {', '.join(attribute.services)}; spaces between them"
            )
    versions = dict(entry.partition("=")[::2] for entry in options.versions)
    for service in versions:
        known = study.attributes[options.attribute].services.get(service)
        if known is None or not known.version_field:
            raise UserError(f"--versions {service}: it has no versions told apart by a field")
    if options.group_column and study.groups is None:
        raise UserError("--group-column: the study has no groups")
    start = _time("--start", options.start)
    if start is not None and options.time_column is not None:
        raise UserError("--start and --time-column both say when: give one of them")
    if start is None and options.time_column is None:
        by_time = any(
            model.versions and not model.version_field
            for model in study.attributes[options.attribute].services.values()
        )
        if study.windows is not None or by_time:
            raise UserError("the study looks at event times: give --time-column, or --start and --spread")
        start = 0
    columns = PeopleColumns(
        options.value_column, options.user_column, options.time_column,
        options.weight_column, options.group_column,
    )  # fmt: skip
    people = read_people(options.input, columns, attribute.domain)
    folder = Path(options.output)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"--output: {error}") from None
    for service in services:
        make_room(folder, options.attribute, service, options.overwrite)
    if options.seed is not None:
        print("drawn from a seed: for tests only, these reports protect nobody")
    for sent in simulate(
        study,
        attribute,
        people,
        services=services,
        versions=versions,
        start=start or 0,
        spread=_duration("--spread", options.spread),
        seed=options.seed,
    ):
        paths = write_reports(folder, sent, options.format)
        print(f"{len(sent.payloads):,} reports to {sent.service}: {paths[0]}"
              + (f" and {len(paths) - 1} more" if len(paths) > 1 else ""))  # fmt: skip
    if people.skipped:
        print(f"{people.skipped:,} rows have no usable value and were left out")
    if people.clipped:
        print(f"{people.clipped:,} values lie outside the domain and were clipped to it")
    return DONE


def _estimate(parser: Parser, arguments: list[str]) -> int:
    parser.add_argument("--study", required=True, help="the study file")
    parser.add_argument("--input", required=True, nargs="+", help="files of reports, or globs")
    parser.add_argument("--output", required=True, help="folder for everything the run writes")
    parser.add_argument("--attribute", help="attribute of reports that do not name one")
    parser.add_argument("--service", help="service of reports that do not name one")
    parser.add_argument(
        "--from", dest="start", metavar="TIME", help="leave out reports before this event time"
    )
    parser.add_argument("--to", dest="stop", metavar="TIME", help="leave out reports from this event time on")
    parser.add_argument("--runner", default="direct", help="direct, or a runner Beam knows")
    parser.add_argument("--on-bad-file", choices=("stop", "skip"), default="stop")
    parser.add_argument("--keep-bad-records", action="store_true", help="dead letters have the whole record")
    parser.add_argument("--max-bad-fraction", type=float, default=0.01, help="more: exit code 3")
    parser.add_argument("--overwrite", action="store_true", help="replace another run's outputs")
    parser.add_argument("--user-id-key-file", help="replace user keys by their HMAC with this key")
    parser.add_argument("--partitions", type=int, help="partitions of users; results do not change")
    parser.add_argument("--estimate-on", choices=("driver", "worker"), default="driver")
    parser.add_argument("--truth", help="CSV file of people: print errors against it")
    _people_options(parser)
    parser.epilog = "Every option that Beam takes passes through, as Beam writes it."
    options, beam_arguments = parser.parse_with_beam(arguments)
    return estimate_command(options, beam_arguments)


def estimate_command(options: Any, beam_arguments: list[str]) -> int:
    """Run ``ldpbeam estimate`` with parsed options; gives its exit code."""
    study = _study(options.study, options.attribute)
    if options.partitions is not None and not 1 <= options.partitions <= 65536:
        raise UserError(f"--partitions {options.partitions}: from 1 to 65536")
    if not 0 <= options.max_bad_fraction <= 1:
        raise UserError(f"--max-bad-fraction {options.max_bad_fraction}: from 0 to 1")
    if options.truth and not options.value_column:
        raise UserError("--truth needs --value-column: which column has the true values?")
    from ldpbeam.pipelines import compare, tables
    from ldpbeam.pipelines import estimate as stages
    from ldpbeam.pipelines.people import PeopleColumns, read_people
    from ldpbeam.pipelines.stream import BatchJob
    from ldpbeam.transforms.windows import beam_windows

    console = Console()
    try:
        beam_windows(study.windows, joined=study.group_users)
    except ValueError as error:
        raise UserError(f"{options.study}: {error}") from None
    people = None
    if options.truth:
        if len(study.attributes) > 1 and not options.attribute:
            raise UserError("--truth needs --attribute: the study has several")
        truth_of = options.attribute or next(iter(study.attributes))
        columns = PeopleColumns(
            options.value_column,
            None,
            options.time_column,
            options.weight_column,
            options.group_column,
        )
        people = read_people(options.truth, columns, study.attribute(truth_of).domain)
    span = _time("--from", options.start), _time("--to", options.stop)
    if span[0] is not None and span[1] is not None and span[0] >= span[1]:
        raise UserError(f"--from {options.start} is not before --to {options.stop}")
    every = {service for model in study.attributes.values() for service in model.services}
    if options.service is not None and options.service not in every:
        raise UserError(f"--service {options.service}: the study has {', '.join(sorted(every))}")
    if any(argument.partition("=")[0] == "--streaming" for argument in beam_arguments):
        raise UserError("--streaming: this command reads files to their end, and is not a streaming one")
    good, bad = stages.find_input(options.input, options.on_bad_file)
    job = BatchJob(
        study=study,
        files=good,
        bad_files=bad,
        output=options.output,
        run=stages.run_name(study, options.input, *span, options.attribute, options.service),
        attribute=options.attribute,
        service=options.service,
        start=span[0],
        stop=span[1],
        keep_bad_records=options.keep_bad_records,
        user_id_key=stages.read_key(options.user_id_key_file),
        partitions=options.partitions,
        estimate_on=options.estimate_on,
    )
    stages.check_output(job, options.overwrite)
    pipeline = stages.assemble(job, options.runner, beam_arguments)
    stages.claim_output(job, options.input)
    stages.run_stream(pipeline, console)
    found = stages.read_accounting(job)
    records = stages.estimate_all(job, console)
    ledger = stages.write_ledger(job)
    errors = None
    if people is not None:
        errors = [compare.errors_of(r, study, people) if r["attribute"] == truth_of else {} for r in records]
    tables.print_estimates(console, records, errors)
    over = sum(entry["users_over_cap"] for entry in ledger)
    if over:
        what = "user-windows" if study.windows else "users"
        print(f"{over:,} {what} spent more than the study's epsilon_cap of {study.epsilon_cap:g}")
    print(tables.accounting_line(found))
    print(f"estimates, statistics and accounting are in {options.output}")
    if found["dead_letters"]:
        tables.print_reasons(console, found)
    if found["in"] and found["dead_letters"] > options.max_bad_fraction * found["in"]:
        share = found["dead_letters"] / found["in"]
        print(
            f"ldpbeam: {share:.2%} of the input is bad, more than --max-bad-fraction "
            f"{options.max_bad_fraction:g}; the outputs are written, look at them with care",
            file=sys.stderr,
        )
        return TOO_MANY_BAD
    return DONE


def _explain(parser: Parser, arguments: list[str]) -> int:
    parser.add_argument("--study", required=True, help="the study file")
    from ldpbeam.pipelines.explain import explain

    for place, sentence in enumerate(explain(_study(parser.parse(arguments).study)), 1):
        print(f"{place}. {sentence}")
    return DONE


def _schema(parser: Parser, arguments: list[str]) -> int:
    parser.parse(arguments)
    print(json.dumps(Study.model_json_schema(), indent=2))
    return DONE


def _mechanisms(parser: Parser, arguments: list[str]) -> int:
    parser.parse(arguments)
    from ldpbeam.mechanisms import registered_mechanisms

    for name, mechanism in registered_mechanisms().items():
        print(f"{name:<22}{mechanism.domain_type.__name__.lower():<12}{mechanism.summary}")
    return DONE


def _estimators(parser: Parser, arguments: list[str]) -> int:
    parser.parse(arguments)
    from ldpbeam.estimators import ESTIMATORS

    for name, estimator in ESTIMATORS.items():
        print(f"{name:<22}{estimator.summary}")
    return DONE


if __name__ == "__main__":
    sys.exit(main())
