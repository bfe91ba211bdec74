"""All commands, by purpose.

No module imports a command: this list names its functions as text, and they are imported when a user types
the command's name. A new command is one entry here, a function that adds its options, and a function of the
parsed options that returns an exit code. For a mistake in them, or in what they name, it raises UserError or
StudyError.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from ldpbeam.command_line.arguments import Parser
from ldpbeam.command_line.shared_options import add_printing_options
from ldpbeam.errors import StudyError, UserError
from ldpbeam.printing import printing

#: The printing options of a command that takes a while.
_ALL = ("json", "quiet", "verbose")


@dataclass(frozen=True)
class Command:
    """A command that a user types.

    Attributes:
        name: its name.
        summary: what it does, in one line.
        example: one command line with it, or several.
        function: the module and the function that runs it, as in ``ldpbeam.results.diff:diff_command``.
        options: the same for the function that adds its options to a parser; empty if it has none. The module
            imports nothing that computes.
        takes_beams: whether it accepts options of Beam, which are the function's second argument.
        printing: those of ``--json``, ``--quiet`` and ``--verbose`` that it has.
    """

    name: str
    summary: str
    example: str
    function: str
    options: str = ""
    takes_beams: bool = False
    printing: Sequence[str] = ()

    def parser(self) -> Parser:
        """The parser of the command line after the command's name."""
        parser = Parser(f"ldpbeam {self.name}", self.summary, self.example)
        if self.options:
            named(self.options)(parser)
        add_printing_options(parser, self.printing)
        return parser

    def run(self, arguments: list[str]) -> int:
        """Parse the arguments, run the command, and return its exit code.

        Raises:
            UserError: for a mistake in the arguments or in what they name.
        """
        parser = self.parser()
        given = parser.parse_with_beam(arguments) if self.takes_beams else (parser.parse(arguments),)
        run: Callable[..., int] = _kept(self.function)
        try:
            with printing(given[0]):
                return run(*given)
        except StudyError as error:
            raise UserError(str(error)) from None


def named(text: str) -> Any:
    """The function that a text names by module and name; the module is imported here."""
    module, _, name = text.partition(":")
    return getattr(import_module(module), name)


def _kept(text: str) -> Any:
    """The function of :func:`named`, imported without the garbage collector.

    Modules stay until the process ends. If the collector looked at them again and again, it would take a
    quarter of the time of a small run.
    """
    if text.partition(":")[0] in sys.modules:
        return named(text)
    collecting = gc.isenabled()
    gc.disable()
    try:
        return named(text)
    finally:
        gc.freeze()
        if collecting:
            gc.enable()


#: The commands under the headings of ``ldpbeam --help``.
SECTIONS: Mapping[str, tuple[Command, ...]] = {
    "Write and understand a study": (
        Command(
            "init", "write a commented study, from options or from a table",
            "ldpbeam init people.csv --attribute price --epsilon 1",
            "ldpbeam.pipelines.commands.init:init_command", "ldpbeam.pipelines.options.studies:init",
            printing=("json",),
        ),
        Command(
            "explain", "say what a study will do; or list all mechanisms, estimators and keys",
            "ldpbeam explain --study study.yaml",
            "ldpbeam.pipelines.commands.lists:explain_command", "ldpbeam.pipelines.options.studies:explain",
            printing=("json",),
        ),
        Command(
            "plan", "say how precise a study's estimates will be, before any report is collected",
            "ldpbeam plan --study study.yaml --users 10000 --error 0.5",
            "ldpbeam.planning.plan:plan_command", "ldpbeam.planning.planning_options:plan", printing=_ALL,
        ),
        Command(
            "evaluate", "measure how accurate estimators are, by epsilon and number of people",
            "ldpbeam evaluate --study study.yaml --epsilons 0.5 1 2 --users 10000 --output evaluated",
            "ldpbeam.planning.evaluate:evaluate_command",
            "ldpbeam.planning.planning_options:evaluate", printing=_ALL,
        ),
    ),
    "Simulate clients": (
        Command(
            "perturb", "write what clients would send, as files of reports",
            "ldpbeam perturb --study study.yaml --attribute price --value-column price --input people.csv "
            "--output reports",
            "ldpbeam.pipelines.commands.perturb:perturb_command", "ldpbeam.pipelines.options.studies:perturb",
            printing=_ALL,
        ),
        Command(
            "vectors", "print test vectors for clients in any language, as JSON",
            "ldpbeam vectors --mechanism grr",
            "ldpbeam.pipelines.commands.lists:vectors_command", "ldpbeam.pipelines.options.studies:vectors",
        ),
    ),
    "Estimate": (
        Command(
            "estimate", "estimate from reports in files",
            "ldpbeam estimate --study study.yaml --input 'reports/*' --output out",
            "ldpbeam.pipelines.commands.estimate:estimate_command",
            "ldpbeam.pipelines.options.estimate:add_options", takes_beams=True, printing=_ALL,
        ),
        Command(
            "stream", "estimate each window from reports as they arrive, until stopped (Ctrl-C)",
            "ldpbeam stream --study study.yaml --subscription projects/demo-project/subscriptions/reports "
            "--output out",
            "ldpbeam.pipelines.commands.stream:stream_command",
            "ldpbeam.pipelines.options.stream:add_options", printing=_ALL,
        ),
        Command(
            "rollup", "estimate from the statistics of several windows or runs together",
            "ldpbeam rollup --study study.yaml --statistics 'out/statistics/*' --window 1d --output days",
            "ldpbeam.pipelines.commands.rollup:rollup_command", "ldpbeam.pipelines.options.merged:rollup",
            printing=_ALL,
        ),
    ),
    "Read the results": (
        Command(
            "show", "print the results of a finished run: estimates with intervals, reports, tests",
            "ldpbeam show out",
            "ldpbeam.results.show:show_command",
            "ldpbeam.results.reading_options:show", printing=("json", "quiet"),
        ),
        Command(
            "ledger", "print what users spent over periods, in all windows, services and attributes",
            "ldpbeam ledger out",
            "ldpbeam.pipelines.commands.ledger:ledger_command", "ldpbeam.pipelines.options.merged:ledger",
            printing=("json",),
        ),
        Command(
            "dead-letters", "say why reports could not be used, with examples of where they are",
            "ldpbeam dead-letters out --reason unknown_service",
            "ldpbeam.results.dead_letters:dead_letters_command",
            "ldpbeam.results.reading_options:dead_letters",
            printing=("json",),
        ),
        Command(
            "diff", "compare two runs, windows or groups, and say what differs by more than its error",
            "ldpbeam diff yesterday today",
            "ldpbeam.results.diff:diff_command", "ldpbeam.results.reading_options:diff", printing=("json",),
        ),
        Command(
            "check", "compare the numbers of a run with thresholds; the exit code is the answer",
            "ldpbeam check out 'mean > 4000' 'quantile 0.95 > 12000' --latest",
            "ldpbeam.results.check:check_command",
            "ldpbeam.results.reading_options:check", printing=("json",),
        ),
        Command(
            "report", "write one HTML page of the outputs of runs, with charts",
            "ldpbeam report out -o report.html",
            "ldpbeam.results.report:report_command", "ldpbeam.results.reading_options:report",
            printing=("json", "verbose"),
        ),
    ),
    "Maintain": (
        Command(
            "tidy", "merge the files of a stream's old windows",
            "ldpbeam tidy out --older-than 30d",
            "ldpbeam.pipelines.commands.tidy:tidy_command", "ldpbeam.pipelines.options.merged:tidy",
            printing=("json", "quiet"),
        ),
        Command(
            "doctor", "say what an engine needs, whether it is installed, and how to get it",
            "ldpbeam doctor --runner flink --flink-master localhost:8081",
            "ldpbeam.runners.doctor:doctor_command",
            "ldpbeam.runners.request:doctor", printing=("json",),
        ),
    ),
}  # fmt: skip

#: An option instead of a command's name: ``ldpbeam --completion SHELL``.
COMPLETION = Command(
    "--completion", "print a script with which a shell completes commands, options, names and files",
    "ldpbeam --completion bash > ~/.local/share/bash-completion/completions/ldpbeam",
    "ldpbeam.command_line.completion:completion_command", "ldpbeam.command_line.shared_options:completion",
)  # fmt: skip
COMMANDS: Mapping[str, Command] = {
    command.name: command for commands in SECTIONS.values() for command in commands
}
