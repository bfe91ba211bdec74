"""Options that commands of several rooms have, and those of ``ldpbeam --completion``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from ldpbeam.command_line.arguments import Parser, within


def add_study_option(group: argparse._ArgumentGroup, note: str = "") -> None:
    """Add the option that names the study file."""
    group.add_argument("--study", required=True, metavar="FILE", help=f"the study file{note and f'; {note}'}")


def add_processes_option(group: argparse._ArgumentGroup) -> None:
    """Add the option for the number of processes that compute estimates."""
    group.add_argument(
        "--processes", type=within(int, 1, 1024), metavar="N",
        help="how many processes compute estimates; results do not change (default: one per core; a small "
        "run starts none)",
    )  # fmt: skip


#: The columns of a file of people, by the name of each option without its ``_column``.
PEOPLE_COLUMNS = {
    "value": "the true values (not for a vector, whose columns have its coordinates' names)",
    "key": "the keys of the values, one row per key and user",
    "user": "the user ids (default: each row is another user)",
    "time": "the event times (RFC 3339 or epoch milliseconds)",
    "weight": "how many people a row represents",
    "group": "the group of each person",
}


def add_people_options(parser: Parser) -> None:
    """Add the options that name the columns of a file of people."""
    group = parser.add_argument_group("columns of the file of people")
    for name, column in PEOPLE_COLUMNS.items():
        group.add_argument(f"--{name}-column", metavar="COLUMN", help=column)


_PRINTING = {
    "json": "print the result as JSON (docs/commands.md), and nothing else on stdout",
    "quiet": "print no notes and no progress; warnings and errors remain",
    "verbose": "also print what the engine logs, and how long each step took",
}


def add_printing_options(parser: Parser, names: Sequence[str]) -> None:
    """Add ``--help``, and those of ``--json``, ``--quiet`` and ``--verbose`` that a command has."""
    group = parser.add_argument_group("printing")
    for name in names:
        group.add_argument(f"--{name}", action="store_true", help=_PRINTING[name])
    group.add_argument("-h", "--help", action="help", help="print this and exit")


#: The shells whose completion is tested or at least written by shtab.
SHELLS = ("bash", "zsh", "fish", "tcsh")


def completion(parser: Parser) -> None:
    """Add the argument of ``ldpbeam --completion``."""
    group = parser.add_argument_group("which shell")
    group.add_argument("shell", choices=SHELLS, metavar="SHELL", help=f"one of {', '.join(SHELLS)}")
