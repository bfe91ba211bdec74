"""What the parts of a study file share: names, numbers, and how each part is checked by pydantic."""

from __future__ import annotations

import re
from typing import Annotated, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from ldpbeam.schemas.reports.columns import DELIVERY, NEAR, OURS, RECORD

#: The names of studies, attributes, services, versions and estimates.
NAME = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"
#: What a group or version field cannot be: user keys, above all, must not become names of groups.
OWN_COLUMNS = frozenset({*OURS, "position", "row", DELIVERY, NEAR, RECORD})


def _safe_name(value: str) -> str:
    if not re.fullmatch(NAME, value):
        raise ValueError("names have letters, digits, _ and -, at most 64, and start with a letter or digit")
    return value


def free_field(value: str) -> str:
    """The name of a field of reports that the study may give a meaning.

    Raises:
        ValueError: if it is a column of every report.
    """
    if value in OWN_COLUMNS:
        raise ValueError("this is a column of every report; name another field")
    return value


#: A finite number, and not a word such as yes that YAML takes for one.
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Name = Annotated[str, AfterValidator(_safe_name)]

Kind = TypeVar("Kind")
#: A key that came later: where it is not given it is not in the study's fingerprint.
Later = Annotated[Kind | None, Field(exclude_if=lambda value: value is None)]


class Model(BaseModel):
    """A part of a study file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @classmethod
    def known_keys(cls) -> set[str]:
        """The keys of this part and of those that derive from it."""
        return set(cls.model_fields).union(*(part.known_keys() for part in cls.__subclasses__()))

    @classmethod
    def having(cls, key: str) -> set[str]:
        """The parts that have a key: of this one and of those that derive from it."""
        name = cls.__name__.removesuffix("Model").lower()
        here = {name} if key in cls.model_fields and not name.startswith("_") else set()
        return here.union(*(part.having(key) for part in cls.__subclasses__()))
