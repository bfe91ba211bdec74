"""The argument of ``ldpbeam completion``."""

from __future__ import annotations

from ldpbeam.pipelines.commands.arguments import Parser

#: The shells whose completion is tested or at least written by shtab.
SHELLS = ("bash", "zsh", "fish", "tcsh")


def add_options(parser: Parser) -> None:
    """Add the argument of the command to its parser."""
    group = parser.add_argument_group("which shell")
    group.add_argument("shell", choices=SHELLS, metavar="SHELL", help=f"one of {', '.join(SHELLS)}")
