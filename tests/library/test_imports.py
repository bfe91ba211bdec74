"""What ``import ldpbeam`` and its names load, each in a process of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

import ldpbeam

#: What takes long to import.
LARGE = (
    "altair", "apache_beam", "fastavro", "grpc", "numpy", "pandas", "polars", "pyarrow", "pydantic", "rich",
    "scipy", "yaml",
)  # fmt: skip
PREPARED = """
import numpy as np
import ldpbeam as ldp
study = ldp.Study.from_dict(study="s", attributes={"x": {
    "domain": {"numeric": [0, 1]}, "buckets": 8,
    "services": {"a": {"mechanism": "square_wave", "epsilon": 1.0}},
    "estimates": {"e": {"estimator": "ems"}}}})
table = ldp.Client(study, "x", "a").reports(np.full(50, 0.5))
found = ldp.estimate(study, table)
found.summary(), found._repr_html_(), found.to_arrow(), found.to_arrow("shares")
"""


def modules(program: str) -> set[str]:
    """The modules that a program has imported at its end."""
    told = f"{program}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    return {*done.stdout.split()}


def loaded(program: str) -> set[str]:
    """The large packages that a program has imported at its end."""
    return {name.partition(".")[0] for name in modules(program)} & {*LARGE}


def test_importing_ldpbeam_imports_nothing_large() -> None:
    assert loaded("import ldpbeam") == set()


def test_the_statistics_need_numpy_and_scipy_only() -> None:
    assert loaded("from ldpbeam import Attribute, Statistic, build_mechanism, tally") == {"numpy", "scipy"}


def test_a_command_imports_optimisers_only_when_it_uses_one() -> None:
    imported = modules("import ldpbeam.pipelines.commands.estimate")
    assert "scipy.sparse.linalg" in imported and "scipy.optimize" not in imported


def test_clients_and_estimates_need_no_beam_and_no_data_frames() -> None:
    # Not pandas: pyarrow imports it by itself where it is installed.
    unwanted = {"altair", "apache_beam", "grpc", "polars"}
    assert loaded(PREPARED) & unwanted == set()


def test_counts_need_no_more_than_a_study_and_arrow() -> None:
    counted = (
        PREPARED.partition("table =")[0] + "ldp.estimate(study, counts={'cell': [1, 2], 'count': [9, 30]})"
    )
    needed = {"numpy", "scipy", "pyarrow", "pydantic"}
    # yaml and fastavro come with the study.
    assert needed <= loaded(counted) <= needed | {"yaml", "fastavro", "pandas"}
    assert not modules(counted) & {"duckdb", "cryptography", "sqlite3", "multiprocessing", "scipy.stats"}


def test_every_name_is_there_and_no_other() -> None:
    assert set(ldpbeam.__all__) == set(ldpbeam._MODULES)
    assert set(ldpbeam.__all__) <= set(dir(ldpbeam))
    for name in ldpbeam.__all__:
        assert getattr(ldpbeam, name).__module__.startswith("ldpbeam.")
    with pytest.raises(AttributeError, match="no attribute 'Studdy'"):
        _ = ldpbeam.Studdy
