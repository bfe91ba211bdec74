"""The forms that the likelihoods of users who told several services can take, whatever their size."""

from __future__ import annotations

import math

import pytest

from ldpbeam.estimators import joint_likelihood, user_rows
from ldpbeam.estimators.joint_likelihood import Matrix, Table
from ldpbeam.estimators.user_rows import UserRows

#: The class of each form, and how far its products may be off: rows of users are in single precision.
FORMS = {
    "matrix": (Matrix, 1e-12), "table": (Table, 1e-12), "rows": (UserRows, 3e-7),
    "kept rows": (UserRows, 3e-7), "rows in logarithms": (UserRows, 1e-12),
}  # fmt: skip


def take_form(form: str, value_buckets: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every joint likelihood have this form."""
    if form == "matrix":
        monkeypatch.setattr(joint_likelihood, "TABLE_CELLS_PER_KIND", 0)
    elif form == "table":
        monkeypatch.setattr(joint_likelihood, "TABLE_CELLS_PER_KIND", math.inf)
    else:
        monkeypatch.setattr(joint_likelihood, "MATRIX_ENTRIES", 0)
        monkeypatch.setattr(joint_likelihood, "FEW_ENTRIES", 0)
        monkeypatch.setattr(joint_likelihood, "MOST_JOINT_CELLS", 0)
        # Blocks of seven kinds of users each, and tables of up to thirty rows.
        monkeypatch.setattr(user_rows, "BLOCK_ENTRIES", 7 * value_buckets)
        monkeypatch.setattr(user_rows, "TABLE_ENTRIES", 30 * value_buckets)
        # Twenty of the blocks are kept, the others are computed in each product.
        monkeypatch.setattr(user_rows, "KEPT_ENTRIES", 140 * value_buckets if form == "kept rows" else 0)
        if form == "rows in logarithms":
            monkeypatch.setattr(user_rows, "SINGLE_RANGE", 0.0)
