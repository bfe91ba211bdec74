"""``ldpbeam --completion``: the script with which a shell completes commands, options, names and files."""

from __future__ import annotations

import argparse
from typing import Any

import shtab

from ldpbeam.command_line.catalogue import COMMANDS, COMPLETION
from ldpbeam.command_line.shared_options import SHELLS
from ldpbeam.errors import DONE
from ldpbeam.estimators import registered_estimators
from ldpbeam.mechanisms.registry import registered_mechanisms


def completion_command(options: argparse.Namespace) -> int:
    """Print the script of a shell, with the mechanisms and estimators that are installed now."""
    print(shtab.complete(_all_commands(), options.shell))
    return DONE


def _all_commands() -> argparse.ArgumentParser:
    """One parser with a subparser for each command; an option's metavar determines its completions."""
    root = argparse.ArgumentParser("ldpbeam")
    root.add_argument("--version", action="version", version="", help="print the version and exit")
    root.add_argument("--completion", choices=SHELLS, help=COMPLETION.summary)
    made: Any = lambda *, prog, made: made  # noqa: E731 - the parser is made already
    every: Any = root.add_subparsers(parser_class=made)
    names = {"MECHANISM": list(registered_mechanisms()), "ESTIMATOR": list(registered_estimators())}
    paths = {"FILE": shtab.FILE, "FOLDER": shtab.DIRECTORY}
    for command in COMMANDS.values():
        parser = command.parser()
        for action in parser._actions:
            metavar = str(action.metavar)
            if metavar in names:
                action.choices = names[metavar]
            elif metavar in paths:
                action.complete = paths[metavar]  # type: ignore[attr-defined]
        every.add_parser(command.name, help=command.summary, made=parser)
    return root
