"""Command lines: our options with dashes (underscores accepted), Beam's as Beam spells them."""

from __future__ import annotations

import argparse
import dataclasses
import math
import re
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeVar

from ldpbeam.errors import UserError
from ldpbeam.nearest import nearest

_Value = TypeVar("_Value")
_Number = TypeVar("_Number", int, float)
#: The program name of the parser of Beam's options. Its errors do not point to --help, which Beam lacks.
_BEAM = "beam"
#: The runner in this process, which has no options of Beam.
LOCAL = "local"
#: The message of argparse about missing options.
_REQUIRED = re.compile("the following arguments are required: (.*)|one of the arguments (.*) is required")
#: The message of argparse for an option whose value is not a number.
_NO_NUMBER = re.compile(r"argument (\S+): invalid (int|float) value: '(.*)'", re.DOTALL)
#: The message of argparse for a number that :func:`within` refuses.
_OUT_OF_RANGE = re.compile(r"^argument (\S+): (\S+: (from \S+ to|\S+ or above))")


def within(kind: type[_Number], least: float, most: float = math.inf) -> Callable[[str], _Number]:
    """The type of an option that is a number in a range."""

    def read(text: str) -> _Number:
        number = kind(text)
        if not least <= number <= most:
            allowed = f"{least:g} or above" if most == math.inf else f"from {least:g} to {most:,}"
            raise argparse.ArgumentTypeError(f"{number}: {allowed}")
        return number

    # Argparse uses this name in its message if the text is not a number.
    read.__name__ = kind.__name__
    return read


class Parser(argparse.ArgumentParser):
    """A parser that raises UserError for a mistake, and accepts no abbreviated options."""

    def __init__(self, prog: str, description: str, example: str = "") -> None:
        super().__init__(
            prog=prog,
            description=f"{description[:1].upper()}{description[1:]}." if description else None,
            epilog=f"example:\n  {example}" if example else None,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
            add_help=False,
        )
        self._given: Sequence[str] = ()

    def format_help(self) -> str:
        """The help text; its first line names only required arguments."""
        self.usage = self._short_usage()
        return super().format_help()

    def _short_usage(self) -> str:
        parts = [self.prog]
        for action in self._actions:
            metavar = str(action.metavar or action.dest).replace("%", "%%")
            if not action.option_strings:
                parts.append(f"[{metavar}]" if action.nargs in ("?", "*") else metavar)
            elif action.required:
                parts.append(f"{action.option_strings[-1]} {metavar}")
        return " ".join([*parts, "[options]"])

    def error(self, message: str) -> NoReturn:
        """Raise UserError with argparse's message and a pointer to ``--help``."""
        required = _REQUIRED.fullmatch(message)
        if required is not None:
            names = required[1] or required[2]
            missing = [name for name in re.split("[,/ ]+", names) if name.startswith("-")]
            # The missing option may be there with a misspelt name: then the error names that one.
            unknown = [name for name in self._given if name.partition("=")[0] not in self.options]
            refuse([name for name in unknown if _is_near(name, missing)], missing)
            first = next(iter(self._given), "")
            if "--study" in missing and first.endswith((".yaml", ".yml", ".json")) and first[0] != "-":
                message += f"; write --study {first}"
        number = _NO_NUMBER.fullmatch(message)
        if number is not None:
            option, kind, given = number.groups()
            wanted = "a whole number in digits alone" if kind == "int" else "a number"
            message = f"{option} {given}: {wanted}, such as {'20000' if kind == 'int' else '0.5'}"
        message = _OUT_OF_RANGE.sub(r"\1 \2", message)
        raise UserError(f"{message}\nSee {self.prog} --help" if self.prog != _BEAM else message)

    @property
    def options(self) -> list[str]:
        """The names of all options, such as ``--study``, except those that help leaves out."""
        actions = self._option_string_actions.items()
        return [name for name, action in actions if action.help != argparse.SUPPRESS]

    def dashed(self, arguments: Sequence[str]) -> list[str]:
        """The arguments, with dashes for underscores in the names of our options."""
        result = []
        for argument in arguments:
            name, equals, value = argument.partition("=")
            dashed = name.replace("_", "-")
            ours = argument.startswith("--") and dashed in self._option_string_actions
            result.append(f"{dashed}{equals}{value}" if ours else argument)
        return result

    def parse(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Parse a command line with our options only.

        Raises:
            UserError: for an unknown option or a wrong value; it names the option.
        """
        options, unknown = self._parsed(arguments)
        refuse(unknown, self.options)
        return options

    def _parsed(self, arguments: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
        self._given = self.dashed(arguments)
        return self.parse_known_args(self._given)

    def parse_with_beam(self, arguments: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
        """Parse a command line that may also have Beam's options.

        Returns:
            Our options, and the arguments for Beam.

        Raises:
            UserError: for an option that neither we nor Beam know, with the nearest name; Beam only warns.
        """
        options, rest = self._parsed(arguments)
        if rest and options.runner == LOCAL:
            name = rest[0].partition("=")[0]
            if name in _beams_options():
                raise UserError(f"{name}: it is an option of Beam: name an engine, as in --runner direct")
            refuse(rest, self.options)
        if rest:
            beams = _beam_parser()
            _, unknown = beams.parse_known_args(rest)
            refuse(unknown, [*self.options, *beams.options])
        return options, rest


def _beams_options() -> list[str]:
    """The names of Beam's options; none if Beam is not installed."""
    try:
        return _beam_parser().options
    except ModuleNotFoundError:
        return []


def _beam_parser() -> Parser:
    from apache_beam.options.pipeline_options import PipelineOptions

    parser: Any = Parser(_BEAM, "")
    # Beam's classes declare some options twice.
    parser.conflict_handler = "resolve"
    parser.add_value_provider_argument = parser.add_argument
    for options in PipelineOptions.__subclasses__():
        if hasattr(options, "_add_argparse_args"):
            options._add_argparse_args(parser)
    for action in parser._actions:
        action.required = False
    return parser  # type: ignore[no-any-return]


def filled(kind: type[_Value], options: argparse.Namespace, **others: Any) -> _Value:
    """A dataclass whose fields have the values of options of the same name, or of ``others``.

    An option that only its parser checks needs a field in the dataclass, and no code that passes it on.
    """
    names = {field.name for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    return kind(**{name: value for name, value in vars(options).items() if name in names} | others)


def _is_near(argument: str, missing: Sequence[str]) -> bool:
    name = argument.partition("=")[0]
    return name.startswith("--") and nearest(name, missing) is not None


def refuse(unknown: Sequence[str], known: Sequence[str]) -> None:
    """Refuse unknown arguments, if there are any.

    Raises:
        UserError: for the first of them, with the nearest known name.
    """
    if not unknown:
        return
    name = unknown[0].partition("=")[0]
    if not name.startswith("-"):
        hint = "; files of reports are named with --input" if "--input" in known else ""
        raise UserError(f"unexpected argument {name!r}{hint}")
    near = nearest(name, known)
    hint = "" if near is None else f"; did you mean {near}?"
    raise UserError(f"unknown option {name}{hint}")
