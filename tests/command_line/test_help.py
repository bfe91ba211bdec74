"""Help: every command and every option has a text, and asking for it imports nothing that computes."""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
from typing import Any

import pytest

from ldpbeam.command_line.catalogue import COMMANDS, COMPLETION, SECTIONS, Command, named

#: What takes a second to import, or is not needed before the options are known.
HEAVY = ("numpy", "scipy", "pyarrow", "apache_beam", "pydantic", "yaml", "rich")
ALL = [*COMMANDS.values(), COMPLETION]
every_command = pytest.mark.parametrize("command", ALL, ids=[command.name for command in ALL])


def test_help_imports_nothing_that_computes() -> None:
    code = (
        "import sys\n"
        "from ldpbeam.command_line.main import main\n"
        f"for arguments in {[['--help'], ['--version'], *([name, '--help'] for name in COMMANDS)]!r}:\n"
        "    try:\n"
        "        assert main(arguments) == 0\n"
        "    except SystemExit as ended:\n"
        "        assert not ended.code\n"
        f"    imported = set({HEAVY!r}) & set(sys.modules)\n"
        "    assert not imported, (arguments, imported)\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert all(f"usage: ldpbeam {name} " in ran.stdout for name in COMMANDS)


def test_the_commands_are_listed_by_what_one_does_with_them(command: Any) -> None:
    assert command().code == 2
    ran = command("--help")
    assert (ran.code, ran.err) == (0, "")
    assert command("-h") == ran
    for heading, commands in SECTIONS.items():
        listed = ran.out.split(f"\n{heading}:\n")[1].partition("\n\n")[0].splitlines()
        assert [line.split(maxsplit=1) for line in listed] == [[c.name, c.summary] for c in commands]
    assert max(map(len, ran.out.splitlines())) <= 110
    assert len(COMMANDS) == sum(map(len, SECTIONS.values()))


@every_command
def test_every_option_has_a_text_and_a_group(command: Command) -> None:
    parser = command.parser()
    for action in parser._actions:
        assert action.help, action.dest
        own = action.option_strings and action.nargs != 0 and action.choices is None
        assert not own or action.metavar, f"{action.dest} has argparse's metavar"
    titles = [group.title for group in parser._action_groups if group._group_actions]
    assert not {"options", "optional arguments"} & set(titles)
    assert titles[-1] == "printing"


@every_command
def test_the_help_names_what_must_be_given_and_an_example(command: Command) -> None:
    text = command.parser().format_help()
    usage = text.splitlines()[0]
    start = f"usage: ldpbeam {command.name} "
    assert usage.startswith(start)
    needed = [a.option_strings[-1] for a in command.parser()._actions if a.required and a.option_strings]
    assert [word for word in usage[len(start) :].split() if word.startswith("--")] == needed
    assert text.endswith(f"example:\n  {command.example}\n")


@every_command
def test_the_example_is_a_command_line_of_the_command(command: Command) -> None:
    program, name, *arguments = shlex.split(re.split(" > (?=[^']*$)", command.example)[0])
    assert (program, name) == ("ldpbeam", command.name)
    assert isinstance(command.parser().parse(arguments), argparse.Namespace)


@every_command
def test_what_runs_the_command_is_there(command: Command) -> None:
    assert callable(named(command.function))
