"""Making a study in a program: from a file, a text, or Python values."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Self

from ldpbeam import study as values
from ldpbeam.schemas.study import yaml_file


class Study(values.Study):
    """What to estimate and how; the base class has its attributes.

    The base class is a plain value for workers. This class adds ways to create one.
    """

    @classmethod
    def from_yaml(cls, source: str | os.PathLike[str]) -> Self:
        """The study in a YAML file, or in a YAML text.

        Args:
            source: a path, or the text itself, which has a line break.

        Raises:
            ldpbeam.StudyError: if the file cannot be read, or is not a valid study; the text names the line.
        """
        if isinstance(source, str) and "\n" in source:
            return cls._of(yaml_file.parse_study(source))
        return cls._of(yaml_file.read_study(os.fspath(source)))

    @classmethod
    def from_dict(cls, values: Mapping[str, Any] | None = None, /, **keys: Any) -> Self:
        """The study from Python values, nested as in a study file, with the arguments of ``dict``.

        Args:
            values: the study's keys: ``study``, ``attributes``, ``windows``, ...
            keys: the same keys; they replace those of ``values``.

        Raises:
            ldpbeam.StudyError: if it is not a valid study; the text names the place.
        """
        return cls._of(yaml_file.study_of({**(values or {}), **keys}))

    @classmethod
    def _of(cls, plain: values.Study) -> Self:
        return cls(**{field.name: getattr(plain, field.name) for field in fields(plain)})


def study_of(given: values.Study | str | os.PathLike[str] | Mapping[str, Any]) -> values.Study:
    """A study unchanged, or from a path, a text, or a mapping.

    Raises:
        ldpbeam.StudyError: if it is not a valid study.
    """
    if isinstance(given, values.Study):
        return given
    return Study.from_dict(given) if isinstance(given, Mapping) else Study.from_yaml(given)
