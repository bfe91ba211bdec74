"""All commands, by what one does with them.

A new command is one line here, a function in a module beside this one that adds its options (if it has any),
and a module in :mod:`ldpbeam.pipelines.commands` with a function that takes the parsed options and returns an
exit code. For a mistake in them, or in what they name, the function raises UserError or StudyError.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType

from ldpbeam.errors import UserError
from ldpbeam.pipelines.options import estimate, machine, results, stream, studies
from ldpbeam.pipelines.options.arguments import Parser
from ldpbeam.pipelines.options.shared import add_printing_options
from ldpbeam.printing import printing

#: The printing of a command that takes a while.
_ALL = ("json", "quiet", "verbose")
_COMMANDS = "ldpbeam.pipelines.commands"


def _no_options(parser: Parser) -> None:
    """Add nothing."""


@dataclass(frozen=True)
class Command:
    """A command that a user types.

    Attributes:
        name: its name.
        summary: what it does, in one line.
        example: a command line of it, or several.
        function: the module in ``ldpbeam.pipelines.commands`` and the function that runs it, as in
            ``diff:diff_command``. It is imported when the command runs.
        add_options: adds the command's own options to its parser.
        takes_beams: whether options of Beam pass through; the function gets them as its second argument.
        printing: which of ``--json``, ``--quiet`` and ``--verbose`` it has.
    """

    name: str
    summary: str
    example: str
    function: str
    add_options: Callable[[Parser], None] = _no_options
    takes_beams: bool = False
    printing: Sequence[str] = ()

    def parser(self) -> Parser:
        """The parser of the command line after the command's name."""
        parser = Parser(f"ldpbeam {self.name}", self.summary, self.example)
        self.add_options(parser)
        add_printing_options(parser, self.printing)
        return parser

    def run(self, arguments: list[str]) -> int:
        """Parse the arguments, run the command, and return its exit code.

        Raises:
            UserError: for a mistake in the arguments or in what they name.
        """
        parser = self.parser()
        given = parser.parse_with_beam(arguments) if self.takes_beams else (parser.parse(arguments),)
        module, _, function = self.function.partition(":")
        run: Callable[..., int] = getattr(_imported(f"{_COMMANDS}.{module}"), function)
        from ldpbeam.schemas.study.yaml_file import StudyError

        try:
            with printing(given[0]):
                return run(*given)
        except StudyError as error:
            raise UserError(str(error)) from None


def _imported(name: str) -> ModuleType:
    """A command's module.

    What it imports stays until the process ends. The garbage collector would look at it many times, for a
    quarter of the time of a small run.
    """
    if name not in sys.modules:
        collecting = gc.isenabled()
        gc.disable()
        try:
            import_module(name)
        finally:
            gc.freeze()
            if collecting:
                gc.enable()
    return sys.modules[name]


#: The commands under the headings of ``ldpbeam --help``.
SECTIONS: Mapping[str, tuple[Command, ...]] = {
    "Write and understand a study": (
        Command(
            "init", "asks a few questions, or reads a table, and writes a commented study",
            "ldpbeam init people.csv --attribute price --epsilon 1 --yes",
            "init:init_command", studies.init, printing=("json",),
        ),
        Command(
            "explain", "what a study will do, in plain sentences",
            "ldpbeam explain --study study.yaml",
            "lists:explain_command", studies.explain, printing=("json",),
        ),
        Command(
            "plan", "how precise a study's estimates will be, before any report is collected",
            "ldpbeam plan --study study.yaml --users 10000 --error 0.5",
            "plan:plan_command", studies.plan, printing=_ALL,
        ),
        Command(
            "evaluate", "how accurate estimators are, by epsilon and number of people",
            "ldpbeam evaluate --study study.yaml --epsilon 0.5 1 2 --users 10000 --output evaluated",
            "evaluate:evaluate_command", studies.evaluate, printing=_ALL,
        ),
        Command(
            "mechanisms", "all mechanisms, one per line", "ldpbeam mechanisms", "lists:mechanisms_command",
            printing=("json",),
        ),
        Command(
            "estimators", "all estimators, one per line", "ldpbeam estimators", "lists:estimators_command",
            printing=("json",),
        ),
        Command("schema", "the JSON Schema of study files", "ldpbeam schema", "lists:schema_command"),
    ),
    "Be the clients": (
        Command(
            "perturb", "what clients would send, as files of reports",
            "ldpbeam perturb --study study.yaml --attribute price --value-column price --input people.csv "
            "--output reports",
            "perturb:perturb_command", studies.perturb, printing=_ALL,
        ),
        Command(
            "vectors", "test vectors for clients in any language, as JSON",
            "ldpbeam vectors --mechanism grr",
            "lists:vectors_command", studies.vectors,
        ),
    ),
    "Estimate": (
        Command(
            "estimate", "estimates from reports in files",
            "ldpbeam estimate --study study.yaml --input 'reports/*' --output out",
            "estimate:estimate_command", estimate.add_options, takes_beams=True, printing=_ALL,
        ),
        Command(
            "stream", "estimates of each window from reports as they arrive, until it is stopped (Ctrl-C)",
            "ldpbeam stream --study study.yaml --subscription projects/demo-project/subscriptions/reports "
            "--output out",
            "stream:stream_command", stream.add_options, takes_beams=True, printing=_ALL,
        ),
        Command(
            "rollup", "estimates from the statistics of several windows or runs together",
            "ldpbeam rollup --study study.yaml --statistics 'out/statistics/*' --window 1d --output days",
            "rollup:rollup_command", results.rollup, printing=_ALL,
        ),
    ),
    "Read the results": (
        Command(
            "show", "everything of a finished run: estimates with intervals, reports, tests",
            "ldpbeam show out",
            "show:show_command", results.show, printing=("json", "quiet"),
        ),
        Command(
            "ledger", "what users spent over periods, in all windows, services and attributes",
            "ldpbeam ledger out",
            "ledger:ledger_command", results.ledger, printing=("json", "quiet", "verbose"),
        ),
        Command(
            "dead-letters", "why reports could not be used, with examples of where they are",
            "ldpbeam dead-letters out --reason unknown_service",
            "dead_letters:dead_letters_command", results.dead_letters, printing=("json",),
        ),
        Command(
            "diff", "what two runs, windows or groups differ in, and whether by more than its error",
            "ldpbeam diff yesterday today",
            "diff:diff_command", results.diff, printing=("json",),
        ),
        Command(
            "check", "whether numbers of a run are beyond thresholds, as an exit code",
            "ldpbeam check out 'mean > 4000' 'quantile 0.95 > 12000' --latest",
            "check:check_command", results.check, printing=("json",),
        ),
        Command(
            "report", "one HTML page of the outputs of runs, with charts",
            "ldpbeam report out -o report.html",
            "report:report_command", results.report, printing=("json", "verbose"),
        ),
    ),
    "Look after this machine": (
        Command(
            "doctor", "what an engine needs, whether it is installed, and how to get it",
            "ldpbeam doctor --runner prism",
            "doctor:doctor_command", machine.doctor, printing=("json",),
        ),
        Command(
            "completion", "what a shell needs to complete commands, options, names and files",
            "ldpbeam completion bash > ~/.local/share/bash-completion/completions/ldpbeam",
            "completion:completion_command", machine.completion,
        ),
    ),
}  # fmt: skip

COMMANDS: Mapping[str, Command] = {
    command.name: command for commands in SECTIONS.values() for command in commands
}
