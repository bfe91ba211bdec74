"""A package that is installed and broken costs its own part and a warning, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

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
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(params=["mechanism", "estimator"])
def kind(request: pytest.FixtureRequest) -> str:
    kind: str = request.param
    return kind


@pytest.fixture
def ldpbeam(tmp_path: Path, kind: str) -> Run:
    """Runs the command where these packages, and one that works, are installed."""
    site = tmp_path / "site"
    for package, code in {**BROKEN[kind], "works": WORKS[kind]}.items():
        module = package.replace("-", "_")
        about = site / f"{module}-1.0.dist-info"
        about.mkdir(parents=True)
        (site / f"{module}_code.py").write_text(code + "\n")
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (about / "entry_points.txt").write_text(f"[ldpbeam.{kind}s]\n{module} = {module}_code:fair\n")

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "ldpbeam.pipelines.main", *map(str, arguments)],
            env={**os.environ, "PYTHONPATH": str(site)},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def test_every_broken_package_is_named_once_and_all_else_goes_on(
    ldpbeam: Run, kind: str, small_text: str, tmp_path: Path
) -> None:
    ran = ldpbeam(f"{kind}s")
    assert ran.returncode == 0, ran.stderr
    listed = [line.split()[0] for line in ran.stdout.splitlines()]
    assert {NAMED[kind], "fair_coin"} <= set(listed)
    assert "half" not in listed
    warnings = ran.stderr.splitlines()
    assert len(warnings) == len(BROKEN[kind])
    for package in BROKEN[kind]:
        (warning,) = [line for line in warnings if f"of the installed package {package} " in line]
        assert warning.startswith(f"ldpbeam: warning: the {kind} '")
    for problem in ("ModuleNotFoundError: No module named 'a_module", "ZeroDivisionError: half a plugin"):
        assert problem in ran.stderr

    (tmp_path / "study.yaml").write_text(small_text)
    ran = ldpbeam("explain", "--study", tmp_path / "study.yaml")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("1. Study 'small'")


def test_a_study_that_uses_a_broken_packages_plug_in_says_why_it_is_unknown(
    ldpbeam: Run, kind: str, small_text: str, tmp_path: Path
) -> None:
    assert NAMED[kind] in small_text
    (tmp_path / "study.yaml").write_text(small_text.replace(NAMED[kind], "raises"))
    ran = ldpbeam("explain", "--study", tmp_path / "study.yaml")
    assert ran.returncode == 2
    (error,) = [line for line in ran.stderr.splitlines() if not line.startswith("ldpbeam: warning: ")]
    assert f"unknown {kind} 'raises'" in error
    assert "the installed package raises cannot be used (ZeroDivisionError: half a plugin)" in error
