"""The command ``ldpbeam``."""

from __future__ import annotations

import logging
import os
import pwd
import sys
import warnings
from collections.abc import Sequence
from importlib import metadata
from importlib.abc import MetaPathFinder

from ldpbeam.command_line.catalogue import COMMANDS, COMPLETION, SECTIONS
from ldpbeam.command_line.standard_streams import standard_streams
from ldpbeam.errors import (
    BUG,
    DONE,
    INSTALLS_BEAM,
    INTERRUPTED,
    OF_THE_MACHINE,
    WRONG,
    UserError,
    machine_problem,
    meant_or_known,
)
from ldpbeam.interrupts import interrupted_once
from ldpbeam.log_lines import LOG_JSON, lines, traceback_text
from ldpbeam.printing import fail

#: The characters that an error message keeps as they are: it may have several lines.
_LINES = "\n"


class _NotForArrow(MetaPathFinder):
    """Lets everybody import pandas except Arrow, which does so with its first array to know pandas tables.

    That takes a quarter of a second, and no command has such tables. A plug-in may have them.
    """

    def find_spec(self, fullname: str, *_: object) -> None:
        if fullname == "pandas":
            frame = sys._getframe(1)
            while frame.f_back is not None and frame.f_code.co_filename.startswith("<frozen importlib"):
                frame = frame.f_back
            # Arrow is compiled, so the frame is that of its caller.
            if str(frame.f_globals.get("__name__")).partition(".")[0] in ("ldpbeam", "pyarrow"):
                raise ModuleNotFoundError("commands have no tables of pandas", name="pandas")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command of ``ldpbeam`` and return its exit code (:mod:`ldpbeam.errors`)."""
    if arguments is None:  # else this is no process of its own
        sys.meta_path.insert(0, _NotForArrow())
    _know_the_account()
    given = list(sys.argv[1:] if arguments is None else arguments)
    # This comes before options are parsed, because mistakes in these are lines of the log, too.
    log_json = any(argument.replace("_", "-") == LOG_JSON for argument in given)
    with standard_streams(log_json=log_json), interrupted_once():
        try:
            return _run(given)
        except Exception as error:
            log = lines()
            if log is None:
                raise
            log.line("error", f"a bug of ldpbeam: {error!r}", traceback=traceback_text(error))
            return BUG


def _know_the_account() -> None:
    """Name an account that the system does not know, such as that of a container: Altair needs the name."""
    try:
        pwd.getpwuid(os.geteuid())
    except KeyError:
        os.environ.setdefault("USER", "ldpbeam")
        os.environ.setdefault("HOME", "/")


def _run(given: list[str]) -> int:
    # Beam and its dependencies log much that a user does not need.
    logging.getLogger().setLevel(logging.ERROR)
    # A worker's error, or a lost connection to the engine, is raised again where the pipeline runs.
    for worker in ("common", "worker.data_plane", "worker.sdk_worker"):
        logging.getLogger(f"apache_beam.runners.{worker}").setLevel(logging.CRITICAL)
    warnings.filterwarnings("ignore", "Possible nested set", FutureWarning)
    name = given[0] if given else ""
    try:
        try:
            return _done(name, given)
        finally:
            # A full disk shows here, and not when Python ends.
            print(end="", flush=True)
    except UserError as error:
        fail(str(error), keep=_LINES)
        return WRONG
    except KeyboardInterrupt as error:
        # The line end comes first because the terminal has printed ^C.
        advice = str(error) or "run the same command to start it again"
        print(file=sys.stderr)
        fail(f"{name} was interrupted; {advice}")
        return INTERRUPTED
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "apache_beam":
            raise
        fail(f"{name} needs Apache Beam for an engine: {INSTALLS_BEAM}")
        return WRONG
    except OF_THE_MACHINE as error:
        fail(machine_problem(error) or "")
        return WRONG


def _done(name: str, given: list[str]) -> int:
    """Do what the command line says, and return the exit code.

    Raises:
        UserError: for a mistake in it or in what it names.
    """
    if name in ("", "-h", "--help"):
        _print_help()
        return DONE if given else WRONG
    if name == "--version":
        print(f"ldpbeam {metadata.version('ldpbeam')}")
        return DONE
    for argument in given:
        if any("\ud800" <= letter <= "\udfff" for letter in argument):
            raise UserError(f"{argument}: this is not UTF-8; rename the file or folder")
    if name == COMPLETION.name:
        return COMPLETION.run(given[1:])
    if name not in COMMANDS:
        raise UserError(f"unknown command {name!r}; {meant_or_known(name, COMMANDS)}")
    return COMMANDS[name].run(given[1:])


def _print_help() -> None:
    print("usage: ldpbeam COMMAND [options]\n")
    print("Estimates from reports perturbed under local differential privacy.")
    for heading, commands in SECTIONS.items():
        print(f"\n{heading}:")
        for command in commands:
            print(f"  {command.name:<14}{command.summary}")
    print("\nldpbeam COMMAND --help prints a command's options, ldpbeam --version the version, and")
    print("ldpbeam --completion SHELL the completion for a shell.")


if __name__ == "__main__":
    sys.exit(main())
