"""Records as JSON and as Python values, checked field by field."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, TypeVar, cast

from pydantic import TypeAdapter, ValidationError

#: The most characters of a file's text that a message repeats.
MOST_SHOWN = 60
Kind = TypeVar("Kind")


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def read_record(kind: type[Kind], text: bytes) -> Kind:
    """A record of a kind in :mod:`~ldpbeam.schemas.outputs.records`, in JSON.

    Raises:
        ValueError: if it is no such record; one sentence that names the field.
    """
    return cast(Kind, _checked(kind, lambda adapter: adapter.validate_json(text)))


def record_of(kind: type[Kind], fields: Mapping[str, Any]) -> Kind:
    """A record of a kind in :mod:`~ldpbeam.schemas.outputs.records`, from its fields as Python values.

    Raises:
        ValueError: if it is no such record; one sentence that names the field.
    """
    return cast(Kind, _checked(kind, lambda adapter: adapter.validate_python(fields, strict=False)))


def _checked(kind: Any, read: Callable[[TypeAdapter[Any]], Any]) -> Any:
    try:
        return read(_adapter(kind))
    except ValidationError as error:
        raise ValueError(_problem(error)) from None


def fields_of(record: object) -> dict[str, Any]:
    """The fields of a record, as JSON has them; what it does not have is None."""
    adapter = _adapter(cast(Any, type(record)))
    return cast(dict[str, Any], adapter.dump_python(record, mode="json", by_alias=True))


def _problem(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False)[0]
    path = ".".join(_short(str(part)) for part in first["loc"])
    message = first["msg"].removeprefix("Value error, ")
    given = first["input"]
    shown = f", found {_short(json.dumps(given))}" if isinstance(given, str | int | float | None) else ""
    return f"{path and f'{path}: '}{_short(message, 200)}{'' if first['type'] == 'json_invalid' else shown}"


def _short(text: str, most: int = MOST_SHOWN) -> str:
    return text if len(text) <= most else f"{text[:most]}..."
