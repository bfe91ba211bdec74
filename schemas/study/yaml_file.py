"""Reading a study, from a file or from Python values: every mistake becomes one message with its place."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np
import yaml
from pydantic import ValidationError
from yaml.representer import SafeRepresenter

from ldpbeam.errors import StudyError
from ldpbeam.mechanisms.mechanism import LARGEST_EPSILON
from ldpbeam.nearest import did_you_mean
from ldpbeam.schemas.files.local_files import refuse_special
from ldpbeam.schemas.study.channel_tables import read_tables
from ldpbeam.schemas.study.compile import compile_study
from ldpbeam.schemas.study.models import StudyModel
from ldpbeam.schemas.study.parts import Model
from ldpbeam.schemas.study.service_models import BY_FIELD
from ldpbeam.study import Study

#: Numbers that YAML 1.1 reads as others than people do: octal, binary, hexadecimal, sexagesimal, with _.
_ODD_NUMBER = re.compile(r"[-+]?(0[0-9_]|0[bxBX]|[0-9.]*(_|[0-9]:))")
#: The most problems of a study in one message.
MOST_PROBLEMS = 100


def read_study(path: str | Path) -> Study:
    """The study in a YAML file.

    Raises:
        StudyError: if there is no such file, or it is no valid study.
    """
    try:
        refuse_special(str(path))
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise StudyError(f"{path}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise StudyError(f"{path}: cannot be read: a study is text in UTF-8, and this file is not") from None
    return parse_study(text, str(path))


def parse_study(text: str, name: str = "study") -> Study:
    """The study in a YAML text; ``name`` is what messages call it.

    Raises:
        StudyError: if it is no valid study.
    """
    try:
        node, data = _load(text, name)
    except RecursionError:
        raise StudyError(f"{name}: it is nested too deeply, or an alias stands for itself") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or str(error).partition("\n")[0]
        if "'\\t'" in problem:
            problem = "a tab; indent with spaces"
        raise StudyError(f"{name}{line}: this is not YAML: {problem}") from None
    return _study(data, node, name)


def study_of(values: Mapping[str, Any], name: str = "study") -> Study:
    """The study in Python values: mappings, sequences, texts and numbers, as its YAML would have them.

    Durations may be timedeltas, times datetimes with a zone, and days of events dates.

    Raises:
        StudyError: if it is no valid study.
    """
    data = _plain(values, name)
    # Nodes that have no lines: the places of a message are looked up in them.
    return _study(data, SafeRepresenter().represent_data(data), name)


def _plain(value: Any, name: str) -> Any:
    """A Python value as YAML would have loaded it.

    Raises:
        StudyError: if it has a value of a type that a study has not.
    """
    if isinstance(value, Mapping):
        return {str(key): _plain(inner, name) for key, inner in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [_plain(inner, name) for inner in value]
    if isinstance(value, timedelta):
        return f"{value // timedelta(milliseconds=1)}ms"
    if isinstance(value, date):
        return value.isoformat()
    if value is None or isinstance(value, str | int | float):
        return value
    raise StudyError(
        f"{name}: {value!r} is of type {type(value).__name__}; a study has mappings, lists, texts and numbers"
    )


def _study(data: Any, node: yaml.Node, name: str) -> Study:
    """The study in a YAML document.

    Raises:
        StudyError: if it is no valid study.
    """
    read_tables(data, posixpath.dirname(name))
    try:
        model = StudyModel.model_validate(data)
    except ValidationError as error:
        problems = error.errors()
        # What a later format has is no mistake in this one.
        problems = [problem for problem in problems if problem["loc"] == ("format",)] or problems
        said = [_message(problem, node, name) for problem in _one_a_place(problems[:MOST_PROBLEMS], node)]
        if len(problems) > MOST_PROBLEMS:
            said.append(f"{name}: and more: it has {len(problems):,} problems")
        raise StudyError("\n".join(said)) from None
    try:
        return compile_study(model, posixpath.dirname(name))
    except ValueError as error:
        problem = {"loc": (), "type": "value_error", "msg": str(error), "input": data}
        raise StudyError(_message(problem, node, name)) from None


def _load(text: str, name: str) -> tuple[yaml.Node, Any]:
    loader = _Loader(text)
    loader.left = len(text) + MOST_REPEATED
    try:
        # A table of people may be large: YAML would read it for minutes.
        hint = _looks_like(text)
        node = None if hint else loader.get_single_node()
        if not isinstance(node, yaml.MappingNode):
            raise StudyError(f"{name}: a study is a mapping that starts with 'study: NAME'{hint}")
        _check_nodes(loader, node, name)
        return node, loader.construct_document(node)
    finally:
        loader.dispose()


def _looks_like(text: str) -> str:
    """The end of a sentence on a text that is no study: which other file it is; empty for a study."""
    first, _, rest = text.partition("\n")
    if first.startswith("{") and rest.startswith("{"):
        return "; this looks like JSON lines, as files of reports have"
    if re.search("[,;\t]", first) and ":" not in first and not first.startswith("#"):
        return "; this looks like a table of people or reports (CSV)"
    return ""


#: Aliases may add this many values beyond the study's number of characters; a few could stand for millions.
MOST_REPEATED = 10_000


class _Loader(yaml.SafeLoader):
    """YAML's safe loader, but times stay text: the study says where one is wrong, YAML would not.

    Attributes:
        left: how many more values may be visited.
    """

    left = 0

    yaml_implicit_resolvers = {  # noqa: RUF012 - declared so by PyYAML
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


# YAML 1.1 wants a point and a sign in a number with an exponent; people write 1e-4.
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?(\d+(\.\d*)?|\.\d+)[eE][-+]?\d+$"), list("-+0123456789.")
)


def _check_nodes(loader: _Loader, node: yaml.Node, name: str) -> None:
    """Refuse what YAML would accept, or fail on without a place.

    Of two equal keys YAML keeps the last: two epsilons would silently become one.
    """
    line = node.start_mark.line + 1
    loader.left -= 1
    if loader.left < 0:
        raise StudyError(f"{name}:{line}: aliases repeat this too often: write it where it is needed")
    if isinstance(node, yaml.ScalarNode):
        try:
            value = loader.construct_object(node)
        except (ValueError, KeyError, AttributeError):  # as each type's constructor fails
            raise StudyError(f"{name}:{line}: {node.value!r} is not what its tag says") from None
        if node.style is None and _is_number(value) and _ODD_NUMBER.match(node.value):
            raise StudyError(
                f"{name}:{line}: {node.value} means {value} in YAML; write {value} for that number, "
                f"{node.value!r} in quotes for a text"
            )
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            _check_nodes(loader, value, name)
    elif isinstance(node, yaml.MappingNode):
        seen: dict[str, int] = {}
        before: yaml.ScalarNode | None = None
        for key, value in node.value:
            line_number = key.start_mark.line + 1
            if before is not None and _is_digits(key) and value.start_mark.index == value.end_mark.index:
                raise StudyError(
                    f"{name}:{line_number}: {before.value},{key.value} is two values to YAML: write "
                    f"{before.value}.{key.value}, with a point, or a list as [{before.value}, {key.value}]"
                )
            before = value if _is_digits(value) else None
            if not isinstance(key, yaml.ScalarNode):
                raise StudyError(f"{name}:{line_number}: a key is a word, found a list or a mapping")
            _check_nodes(loader, key, name)
            read = loader.construct_object(key)
            if not isinstance(read, str):
                raise StudyError(f"{name}:{line_number}: a key is a text; {_quoted(key.value, read)}")
            if key.value in seen:
                raise StudyError(
                    f"{name}:{line_number}: {key.value!r} is given twice (first on line {seen[key.value]})"
                )
            seen[key.value] = line_number
            _check_nodes(loader, value, name)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_digits(node: yaml.Node) -> TypeGuard[yaml.ScalarNode]:
    return isinstance(node, yaml.ScalarNode) and node.style is None and node.value.isdecimal()


def _one_a_place(problems: Sequence[Any], root: yaml.Node) -> list[Any]:
    """If a value may have several types, only the first problem of the intended type."""
    rivals: dict[tuple[Any, ...], list[Any]] = {}
    for problem in problems:
        path = _place(problem["loc"], root)
        common = problem["loc"][: len(path)]
        tagged = next((i for i, (p, q) in enumerate(zip(path, common, strict=True)) if p != q), len(path))
        union = len(path) < len(problem["loc"])
        rivals.setdefault(tuple(path[:tagged]) if union else (id(problem),), []).append(problem)
    kept = []
    for where, several in rivals.items():
        meant = [
            p for p in several if not (p["type"].endswith("_type") and _place(p["loc"], root) == [*where])
        ]
        kept += (meant or several)[:1]
    return kept


def _walk(parts: Sequence[Any], root: yaml.Node) -> Iterator[tuple[Any, yaml.Node | None, yaml.Node | None]]:
    """The keys and indexes of a place, without the names pydantic gives to the types of a union.

    Beside each are the node where it stands and that of its value, or None beyond what the file has.
    """
    node: yaml.Node | None = root
    for part in parts:
        entry: tuple[yaml.Node | None, yaml.Node | None] = None, None
        if isinstance(node, yaml.MappingNode):
            entry = next(((key, value) for key, value in node.value if key.value == str(part)), entry)
            if entry == (None, None) and part == BY_FIELD:
                continue
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int):
            entry = (node.value[part],) * 2 if part < len(node.value) else entry
        elif node is not None:
            continue
        yield part, *entry
        node = entry[1]


def _place(parts: Sequence[Any], root: yaml.Node) -> list[Any]:
    """The keys and indexes of a place."""
    return [part for part, _, _ in _walk(parts, root)]


#: Pydantic's messages in the words of study files, by kind of problem.
_SAY = {
    "model_type": "write keys and values here, as in {key: value}",
    "dict_type": "write names and their keys and values here, as in {name: {key: value}}",
    "tuple_type": "write a pair here, as in [0, 1]",
    "too_long": "write a pair here, as in [0, 1], with points and not commas in numbers",
    "too_short": "it needs one entry or more",
    "missing": "this key is missing",
}


def _message(problem: Any, root: yaml.Node, name: str) -> str:
    path = _place(problem["loc"], root)
    text = re.sub(r"^(Value error|Assertion failed), ", "", problem["msg"])
    given = problem.get("input")
    if not path and (inner := re.match(r"(attributes\.[^:]+): ", text)):
        # Checks over the whole study name the place themselves.
        path, text = inner[1].split("."), text[inner.end() :]
    instead = _instead(path, given) if problem["type"] in ("model_type", "dict_type") else None
    if instead is not None:
        text = f"write {instead}"
    elif problem["type"] == "string_type" and type(given) in _KIND and root.start_mark is not None:
        text = f"this must be a text; {_quoted(_text_at(root, path), given)}"
    elif isinstance(given, str) and re.fullmatch(r"-?\d+,\d+", given):
        text = f"this must be a number; write {given.replace(',', '.')}, with a point"
    elif path[-1:] in (["categories"], ["keys"], ["coordinates"]) and problem["type"].startswith("int_"):
        text = "write a list of names, as in [tea, coffee], or how many there are"
    elif problem["type"] == "float_type" and isinstance(given, str) and re.fullmatch(r"-?\d+\.?\d*", given):
        text = f"this must be a number; write {given}, without quotes"
    else:
        text = _SAY.get(problem["type"], re.sub(r"^Input should be", "this must be", text))
    if path and path[-1] == "epsilon" and problem["type"] in ("greater_than", "less_than_equal"):
        text = f"epsilon is above 0 and at most {LARGEST_EPSILON:g}"
    elif problem["type"] == "missing" and isinstance(path[-1], int):
        text = "an entry of the pair is missing"
    elif problem["type"] == "finite_number" and path[-3:-2] == ["ranges"]:
        text = "this must be a finite number; write the end of the domain"
    shown = ""
    if problem["type"] == "extra_forbidden":
        key, given = str(path[-1]), {}
        parts = sorted(Model.having(key))
        hint = f" here; it belongs to: {', '.join(parts)}" if parts else ""
        text = f"unknown key{hint or did_you_mean(key, sorted(Model.known_keys()), before='; ')}"
    if not isinstance(given, dict) and problem["type"] != "missing":
        shown = f", found {given!r}"
    return f"{_at(root, path, name)}: {_in_words(path) or 'study'}: {text}{shown}"


#: The kind of value that YAML reads a text as, by its Python type.
_KIND = {bool: "true or false", int: "a number", float: "a number", type(None): "no value"}
#: The key that a value is probably meant for, where keys and values are needed.
_MEANT = {
    "groups": "{{field: {}}}",
    "windows": "{{size: {}}}",
    "intervals": "{{level: {}}}",
    "categories": "{{categories: {}}}",
    "numeric": "{{numeric: {}}}",
    "estimates": "{{estimator: {}}}",
    "services": "{{mechanism: {}, epsilon: 1}}",
    "publish": "{{at_least: {}}}",
    "ledger": "{{period: {}}}",
    "panel": "{{windows: {}}}",
}


def _instead(path: Sequence[Any], given: Any) -> str | None:
    """What to write where a value stands instead of keys and values; None if that is not known."""
    if path[-1:] == ["domain"] and isinstance(given, list) and given:
        numbers = len(given) == 2 and all(map(_is_number, given))
        return _MEANT["numeric" if numbers else "categories"].format(f"[{', '.join(map(str, given))}]")
    if isinstance(given, str | int | float) and not isinstance(given, bool):
        if path[-1:] == ["estimates"]:
            return f"{{{given}: {_MEANT['estimates'].format(given)}}}"
        for key in (path[-1:], path[-2:-1]):
            if key and key[0] in _MEANT and key != ["services", *path[-1:]]:
                return _MEANT[key[0]].format(given)
    return None


def _text_at(root: yaml.Node, path: Sequence[Any]) -> str:
    """A value as it stands in the file."""
    *_, (_, _, node) = _walk(path, root)
    return "" if node is None else str(node.value)


def _quoted(text: str, value: Any) -> str:
    """What to do about a text that YAML reads as another value."""
    kind = _KIND.get(type(value), "another value")
    return f"write '{text}' in quotes: YAML reads {text or 'nothing'} as {kind}"


#: The keys whose entries have names of their own, and what such an entry is called.
_NAMED = {
    "attributes": "attribute",
    "services": "service",
    "versions": "version",
    "estimates": "estimate",
}


def _in_words(path: Sequence[Any]) -> str:
    """A place in words, the innermost first, as in: epsilon of service auction of attribute price."""
    words: list[str] = []
    parts = iter(path)
    for part in parts:
        called = _NAMED.get(part) if isinstance(part, str) else None
        entry = next(parts, None) if called else None
        if part == "[key]":
            words.append("the name")
        elif isinstance(part, int):
            words.append(f"entry {part + 1}")
        elif entry is None or isinstance(entry, int):
            words += [str(part), *([f"entry {entry + 1}"] if isinstance(entry, int) else [])]
        else:
            words.append(f"{called} {entry}")
    return " of ".join(reversed(words))


def _at(root: yaml.Node, path: list[Any], name: str) -> str:
    """The name and the line of the deepest part of a place that the file has; Python has no lines."""
    if root.start_mark is None:
        return name
    *_, deepest = root, *(node for _, node, _ in _walk(path, root) if node is not None)
    return f"{name}:{deepest.start_mark.line + 1}"
