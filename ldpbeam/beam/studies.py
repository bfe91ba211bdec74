"""A study in any of the forms that a transform takes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ldpbeam.study import Study


def study_of(study: Study | str | os.PathLike[str] | Mapping[str, Any]) -> Study:
    """A study as it is, or from a path, a text, or a mapping.

    Raises:
        ldpbeam.StudyError: if it is none.
    """
    if isinstance(study, Study):
        return study
    return Study.from_dict(study) if isinstance(study, Mapping) else Study.from_yaml(study)
