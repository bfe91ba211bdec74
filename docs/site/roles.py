"""Cross-references of docstrings, such as :class:`ldpbeam.Study`, as plain code."""

from __future__ import annotations

import re
from typing import Any

import griffe

ROLE = re.compile(r":(?:class|func|meth|mod|data|attr):`~?([^`]+)`")


class Roles(griffe.Extension):
    """Replaces roles of reStructuredText, which Markdown does not have, by the name that they show."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of an object."""
        if obj.docstring is not None:
            obj.docstring.value = ROLE.sub(_shown, obj.docstring.value).replace("::\n\n    ", ":\n\n    ")


def _shown(match: re.Match[str]) -> str:
    name = match[1]
    return f"`{name.rpartition('.')[2] if match[0].partition('`')[2].startswith('~') else name}`"
