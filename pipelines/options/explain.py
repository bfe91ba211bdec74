"""The options of ``ldpbeam explain``."""

from __future__ import annotations

from ldpbeam.pipelines.commands.arguments import Parser
from ldpbeam.pipelines.options.shared import add_study_option


def add_options(parser: Parser) -> None:
    """Add the options of the command to its parser."""
    add_study_option(parser.add_argument_group("what is explained"))
