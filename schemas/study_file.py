"""Reading a study file: every mistake becomes one message with its place."""

from __future__ import annotations

import difflib
import hashlib
import re
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from ldpbeam.schemas.study import (
    AttributeModel,
    DomainModel,
    EstimateModel,
    GroupsModel,
    ServiceModel,
    Study,
    VersionModel,
    WindowsModel,
)

_MODELS = (
    Study,
    AttributeModel,
    DomainModel,
    ServiceModel,
    VersionModel,
    EstimateModel,
    WindowsModel,
    GroupsModel,
)
_KEYS = sorted({key for model in _MODELS for key in model.model_fields})


class StudyError(ValueError):
    """A study file that is wrong; its text says where, what was found and what is allowed."""


def read_study(path: str | Path) -> Study:
    """The study in a YAML file.

    Raises:
        StudyError: if there is no such file, or it is no valid study.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise StudyError(f"{path}: cannot be read: {error}") from None
    return parse_study(text, str(path))


def parse_study(text: str, name: str = "study") -> Study:
    """The study in a YAML text; ``name`` is what messages call it.

    Raises:
        StudyError: if it is no valid study.
    """
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or str(error)
        raise StudyError(f"{name}{line}: this is not YAML: {problem}") from None
    if not isinstance(node, yaml.MappingNode):
        raise StudyError(f"{name}: a study is a mapping that starts with 'study: NAME'")
    _refuse_twice(node, name)
    data = yaml.safe_load(text)
    try:
        return Study.model_validate(data)
    except ValidationError as error:
        raise StudyError("\n".join(_message(problem, node, name) for problem in error.errors())) from None


def fingerprint(study: Study) -> str:
    """32 hexadecimal digits of everything the study says."""
    return hashlib.sha256(study.model_dump_json().encode()).hexdigest()[:32]


def _refuse_twice(node: yaml.Node, name: str) -> None:
    """YAML's reader keeps the last of two equal keys: two epsilons would silently become one."""
    if isinstance(node, yaml.MappingNode):
        seen: dict[str, int] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if key.value in seen:
                raise StudyError(
                    f"{name}:{line}: {key.value!r} stands twice (first on line {seen[key.value]})"
                )
            seen[key.value] = line
            _refuse_twice(value, name)
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            _refuse_twice(value, name)


def _message(problem: Any, root: yaml.Node, name: str) -> str:
    place = [part for part in problem["loc"] if not _is_union_tag(part)]
    text = re.sub(r"^(Value error|Assertion failed), ", "", problem["msg"])
    if not place and (inner := re.match(r"(attributes\.[^:]+): ", text)):
        # Checks over the whole study name the place themselves.
        place, text = inner[1].split("."), text[inner.end() :]
    found = problem.get("input")
    shown = ""
    if problem["type"] == "extra_forbidden":
        near = difflib.get_close_matches(str(place[-1]), _KEYS, n=1)
        text, found = f"unknown key{f'; did you mean {near[0]!r}?' if near else ''}", {}
    if not isinstance(found, dict | Study) and problem["type"] != "missing":
        shown = f", found {found!r}"
    where = ".".join(map(str, place))
    return f"{name}:{_line(root, place)}: {where or 'study'}: {text}{shown}"


def _is_union_tag(part: object) -> bool:
    return isinstance(part, str) and re.fullmatch(r"(list|dict|int|str|constrained).*", part) is not None


def _line(node: yaml.Node, place: list[Any]) -> int:
    """The line of the deepest part of a place that the file has."""
    line = node.start_mark.line + 1
    for part in place:
        found = None
        if isinstance(node, yaml.MappingNode):
            found = next(((k, v) for k, v in node.value if k.value == str(part)), None)
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            found = (node.value[part], node.value[part])
        if found is None:
            break
        line, node = found[0].start_mark.line + 1, found[1]
    return line
