"""A package that is installed and broken costs its own part and a warning, and nothing else."""

from __future__ import annotations

import importlib
import warnings
from pathlib import Path
from typing import Any

import pytest
from support.registries import fresh

from ldpbeam.command_line.main import _formatted
from ldpbeam.errors import StudyError
from ldpbeam.plugins import BrokenPlugin
from ldpbeam.schemas.study.yaml_file import parse_study

#: What the modules of some packages do when they are imported, by package; either kind of plug-in may.
ANY = {
    "needs-more": "import a_module_that_is_not_there",
    "raises": "raise ZeroDivisionError('half a plugin')",
    "exits": "import sys\nsys.exit('bye')",
    "of-no-kind": "fair = 7",
    "no-such-name": "",
}
BROKEN = {
    "mechanism": {
        **ANY,
        "half-registered": "from ldpbeam import mechanisms\n"
        "class Half(mechanisms.Laplace):\n    name = 'half'\n"
        "mechanisms.register(Half)\nraise KeyError('later')",
    },
    "estimator": {
        **ANY,
        "half-registered": "from ldpbeam import estimators as e\n"
        "mr = e.registered_estimators()['mr']\n"
        "e.register(e.Estimator('half', 'half', mr.function, mr.check))\nraise KeyError('later')",
        "untyped-option": "from ldpbeam import estimators as e\n"
        "def function(question, *, often=1): ...\n"
        "fair = e.Estimator('half', 'half', function, function)",
    },
}
WORKS = {
    "mechanism": "from ldpbeam import mechanisms\nclass fair(mechanisms.Laplace):\n    name = 'fair_coin'\n",
    "estimator": "from ldpbeam import estimators as e\n"
    "def function(question, *, often: int = 1): ...\n"
    "fair = e.Estimator('fair_coin', 'fair', function, lambda attribute, services: None)\n",
}
#: A name in the study of the tests that each kind of plug-in may have instead.
NAMED = {"mechanism": "piecewise", "estimator": "ivw"}


@pytest.mark.parametrize("kind", NAMED)
def test_every_broken_package_is_named_once_and_all_else_goes_on(
    kind: str, small_text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package, code in {**BROKEN[kind], "works": WORKS[kind]}.items():
        module = f"{package.replace('-', '_')}_{kind}"
        about = tmp_path / f"{module}-1.0.dist-info"
        about.mkdir()
        (tmp_path / f"{module}.py").write_text(code + "\n")
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (about / "entry_points.txt").write_text(f"[ldpbeam.{kind}s]\n{module} = {module}:fair\n")
    monkeypatch.syspath_prepend(tmp_path)
    module_of_registry: Any = importlib.import_module(f"ldpbeam.{kind}s.registry")
    registry = fresh(module_of_registry._REGISTRY)
    monkeypatch.setattr(module_of_registry, "_REGISTRY", registry)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        names = {*registry.all(), *registry.all()}
    assert {NAMED[kind], "fair_coin"} <= names and "half" not in names
    printed = [_formatted(warning.message, warning.category) for warning in caught]
    assert {warning.category for warning in caught} == {BrokenPlugin}
    assert len(printed) == len(BROKEN[kind])
    for package in BROKEN[kind]:
        (line,) = [line for line in printed if f"of the installed package {package} " in line]
        assert line.startswith(f"ldpbeam: warning: the {kind} '") and line.count("\n") == 1
    for problem in ("ModuleNotFoundError: No module named 'a_module", "ZeroDivisionError: half a plugin"):
        assert problem in "".join(printed)
    # A study that uses none of them is read, and one that does says why it cannot be.
    assert parse_study(small_text).name == "small"
    with pytest.raises(StudyError, match=f"unknown {kind} 'raises'") as error:
        parse_study(small_text.replace(NAMED[kind], "raises"))
    assert "the installed package raises cannot be used (ZeroDivisionError: half a plugin)" in str(
        error.value
    )
