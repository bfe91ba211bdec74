"""Tables of P(report | value) that a study gives as CSV files."""

from __future__ import annotations

import csv
import posixpath
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ldpbeam.errors import StudyError
from ldpbeam.schemas.files.local_files import refuse_special


def read_tables(data: Any, folder: str) -> None:
    """Replace the names of CSV files in an unchecked study by the rows of the files.

    The first line of a file holds a word, and the names of the categories in any order. Each further line
    holds the name of a report, and its probability for each category.

    Args:
        data: the study as YAML loads it; it is changed.
        folder: the files are named from here.

    Raises:
        StudyError: if a file is not such a table.
    """
    for attribute in _parts(data, "attributes"):
        for service in _parts(attribute, "services"):
            for part in (service, *_parts(service, "versions")):
                if isinstance(part.get("table"), str):
                    categories = (attribute.get("domain") or {}).get("categories")
                    part["table"] = _rows(posixpath.join(folder, part["table"]), categories)


def _parts(data: Any, key: str) -> Iterator[dict[str, Any]]:
    inner = data.get(key) if isinstance(data, dict) else None
    yield from (
        part for part in (inner.values() if isinstance(inner, dict) else ()) if isinstance(part, dict)
    )


def _rows(path: str, categories: Any) -> list[list[float]]:
    try:
        refuse_special(path)
        with Path(path).open(encoding="utf-8-sig", newline="") as stream:
            (_, *names), *lines = [line for line in csv.reader(stream) if line]
    except (OSError, UnicodeDecodeError, csv.Error, ValueError) as error:
        said = getattr(error, "strerror", None) or "it is not a CSV file with a line for each report"
        raise StudyError(f"{path}: cannot be read: {said}") from None
    wanted = list(map(str, range(categories))) if isinstance(categories, int) else categories
    if not isinstance(wanted, list) or sorted(names) != sorted(map(str, wanted)):
        raise StudyError(f"{path}: the first line must hold a word and the names of the study's categories")
    places = [1 + names.index(str(name)) for name in wanted]
    try:
        return [[float(line[place]) for place in places] for line in lines]
    except (ValueError, IndexError):
        raise StudyError(f"{path}: a line needs a report's name, and a number for each category") from None
