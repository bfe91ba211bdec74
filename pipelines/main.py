"""The command ``ldpbeam``."""

from __future__ import annotations

import difflib
import json
import logging
import sys
import warnings
from collections.abc import Callable, Sequence
from importlib import metadata
from typing import Any

from ldpbeam.pipelines.commands.arguments import Parser
from ldpbeam.pipelines.errors import DONE, INTERRUPTED, OF_THE_MACHINE, WRONG, UserError, machine_problem
from ldpbeam.pipelines.terminal import shown
from ldpbeam.plugins import BrokenPlugin
from ldpbeam.schemas.study.models import StudyModel
from ldpbeam.schemas.study.yaml_file import StudyError

_PYTHONS_OWN = warnings.formatwarning
#: The characters that an error message keeps as they are: it may have several lines.
_LINES = "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command of ``ldpbeam`` and return its exit code (:mod:`ldpbeam.pipelines.errors`)."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    commands: dict[str, tuple[Callable[[Parser, list[str]], int], str]] = {
        "perturb": (_perturb, "what clients would send, as files of reports"),
        "estimate": (_estimate, "reports in files to estimates"),
        "stream": (_stream, "reports as they arrive on Pub/Sub to estimates as windows close"),
        "rollup": (_rollup, "statistics of many windows or runs to estimates of them together"),
        "doctor": (_doctor, "what an engine needs, whether it is here, and how to get it"),
        "plan": (_plan, "how precise a study's estimates will be, before any report is collected"),
        "evaluate": (_evaluate, "estimators on populations or on data, over epsilons and sizes"),
        "explain": (_explain, "what a study will do, in plain sentences"),
        "schema": (_schema, "the JSON Schema of study files"),
        "vectors": (_vectors, "test vectors for clients in any language, as JSON"),
        "mechanisms": (_mechanisms, "all mechanisms, one per line"),
        "estimators": (_estimators, "all estimators, one per line"),
    }
    if not given or given[0] in ("-h", "--help"):
        print("usage: ldpbeam COMMAND [options]\n\nEstimates from reports perturbed under local")
        print("differential privacy. Commands:\n")
        for name, (_, summary) in commands.items():
            print(f"  {name:<12}{summary}")
        print("\nldpbeam COMMAND --help prints a command's options, ldpbeam --version the version.")
        return DONE if given else WRONG
    if given[0] == "--version":
        print(f"ldpbeam {metadata.version('ldpbeam')}")
        return DONE
    name, *rest = given
    # Beam and its dependencies log much that a user does not need.
    logging.getLogger().setLevel(logging.ERROR)
    # A worker's error is raised again where the pipeline is run, and printed there.
    for worker in ("common", "worker.sdk_worker"):
        logging.getLogger(f"apache_beam.runners.{worker}").setLevel(logging.CRITICAL)
    warnings.filterwarnings("ignore", "Possible nested set", FutureWarning)
    warnings.filterwarnings("always", category=BrokenPlugin)
    warnings.formatwarning = _formatted
    try:
        for argument in given:
            if any("\ud800" <= letter <= "\udfff" for letter in argument):
                raise UserError(f"{argument}: this is not UTF-8; rename the file or folder")
        if name not in commands:
            near = difflib.get_close_matches(name, commands, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(commands)}"
            raise UserError(f"unknown command {name!r}; {hint}")
        function, summary = commands[name]
        return function(Parser(f"ldpbeam {name}", summary), rest)
    except (UserError, StudyError) as error:
        print(f"ldpbeam: {shown(str(error), keep=_LINES)}", file=sys.stderr)
        return WRONG
    except KeyboardInterrupt:
        # The line end comes first because the terminal has printed ^C.
        print(f"\nldpbeam: {name} was interrupted; the same command starts it again", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()
        return DONE
    except OF_THE_MACHINE as error:
        print(f"ldpbeam: {shown(machine_problem(error) or '')}", file=sys.stderr)
        return WRONG


def _formatted(message: Warning | str, category: type[Warning], *where: Any, **line: Any) -> str:
    if issubclass(category, BrokenPlugin):
        return f"ldpbeam: warning: {message}\n"
    return _PYTHONS_OWN(message, category, *where, **line)


def _perturb(parser: Parser, arguments: list[str]) -> int:
    # Imported here because importing Beam takes a second, and ldpbeam --help should not.
    from ldpbeam.pipelines.commands.perturb import perturb_command

    return perturb_command(parser, arguments)


def _estimate(parser: Parser, arguments: list[str]) -> int:
    from ldpbeam.pipelines.commands.estimate import estimate_command

    return estimate_command(parser, arguments)


def _stream(parser: Parser, arguments: list[str]) -> int:
    from ldpbeam.pipelines.commands.stream import stream_command

    return stream_command(parser, arguments)


def _rollup(parser: Parser, arguments: list[str]) -> int:
    from ldpbeam.pipelines.commands.rollup import rollup_command

    return rollup_command(parser, arguments)


def _doctor(parser: Parser, arguments: list[str]) -> int:
    from ldpbeam.pipelines.commands.doctor import doctor_command

    return doctor_command(parser, arguments)


def _explain(parser: Parser, arguments: list[str]) -> int:
    parser.add_argument("--study", required=True, help="the study file")
    from ldpbeam.pipelines.commands.explain import explain
    from ldpbeam.pipelines.commands.options import study_of

    for place, sentence in enumerate(explain(study_of(parser.parse(arguments).study)), 1):
        print(f"{place}. {shown(sentence)}")
    return DONE


def _plan(parser: Parser, arguments: list[str]) -> int:
    from ldpbeam.pipelines.commands.plan import plan_command

    return plan_command(parser, arguments)


def _evaluate(parser: Parser, arguments: list[str]) -> int:
    from ldpbeam.pipelines.commands.evaluate import evaluate_command

    return evaluate_command(parser, arguments)


def _schema(parser: Parser, arguments: list[str]) -> int:
    parser.parse(arguments)
    print(json.dumps(StudyModel.model_json_schema(), indent=2))
    return DONE


def _vectors(parser: Parser, arguments: list[str]) -> int:
    from ldpbeam.pipelines.commands.vectors import vectors_command

    return vectors_command(parser, arguments)


def _mechanisms(parser: Parser, arguments: list[str]) -> int:
    parser.parse(arguments)
    from ldpbeam.mechanisms.registry import KINDS, registered_mechanisms

    for name, mechanism in registered_mechanisms().items():
        print(f"{name:<22}{KINDS[mechanism.domain_type]:<18}{mechanism.summary}")
    return DONE


def _estimators(parser: Parser, arguments: list[str]) -> int:
    parser.parse(arguments)
    from ldpbeam.estimators import registered_estimators

    for name, estimator in registered_estimators().items():
        print(f"{name:<22}{estimator.summary}")
    return DONE


if __name__ == "__main__":
    sys.exit(main())
