"""A package that is installed and broken is named, whatever a study uses."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest
from support.registries import fresh

from ldpbeam.errors import UserError
from ldpbeam.schemas.study.yaml_file import parse_study

#: What the modules of some packages do when they are imported, by package; either kind of plug-in may.
ANY = {
    "needs-more": "import a_module_that_is_not_there",
    "raises": "raise ZeroDivisionError('half a plugin')",
    "of-no-kind": "fair = 7",
    "no-such-name": "",
}
BROKEN = {
    "mechanism": {**ANY},
    "estimator": {
        **ANY,
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
CASES = [
    *((kind, package, code) for kind, packages in BROKEN.items() for package, code in packages.items()),
    *((kind, "works", code) for kind, code in WORKS.items()),
]


@pytest.mark.parametrize(("kind", "package", "code"), CASES)
def test_a_broken_package_is_named_and_one_that_works_adds_its_part(
    kind: str, package: str, code: str, small_text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    if package == "works":
        assert "fair_coin" in registry.all()
        assert parse_study(small_text).name == "small"
        return
    for _ in range(2):
        with pytest.raises(UserError, match=f"the {kind} '{module}' of the installed package {package} "):
            parse_study(small_text)
