"""What is packaged and installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import setuptools
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
CONSTRAINTS = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()


@pytest.fixture(scope="module")
def described() -> dict[str, Any]:
    """What ``setup.py`` says."""
    found: dict[str, Any] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(setuptools, "setup", found.update)
        exec((ROOT / "setup.py").read_text(encoding="utf-8"), {"__file__": ROOT / "setup.py"})
    return found


def test_constraints_are_exact_versions_and_name_no_index() -> None:
    versions = [Requirement(line) for line in CONSTRAINTS if not line.startswith("#")]
    assert len(versions) > 50
    for version in versions:
        assert version.url is None
        (bound,) = version.specifier
        assert bound.operator == "=="
        assert "*" not in bound.version


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13"])
@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_every_requirement_has_one_version_that_fits(
    described: dict[str, Any], python: str, platform: str
) -> None:
    place = {"python_version": python, "python_full_version": f"{python}.0", "sys_platform": platform}
    known = [Requirement(line) for line in CONSTRAINTS if not line.startswith("#")]
    here = [known for known in known if known.marker is None or known.marker.evaluate(place)]
    for line in [*described["install_requires"], *described["extras_require"]["test"]]:
        wanted = Requirement(line)
        if wanted.marker is not None and not wanted.marker.evaluate(place):
            continue
        (version,) = [known for known in here if known.name.lower() == wanted.name.lower()]
        (bound,) = version.specifier
        assert wanted.specifier.contains(bound.version), line
