"""What ``import ldpbeam`` and its names load, each in a process of its own."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

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
    assert loaded("from ldpbeam import Attribute, Statistic, build_mechanism, tally") == {
        "numpy",
        "scipy",
    }


def test_a_command_imports_optimisers_only_when_it_uses_one() -> None:
    imported = modules("import ldpbeam.pipelines.commands.estimate")
    assert "scipy.sparse.linalg" in imported and "scipy.optimize" not in imported


def test_clients_and_estimates_need_no_beam_and_no_data_frames() -> None:
    # Not pandas: pyarrow imports it by itself where it is installed.
    unwanted = {"altair", "apache_beam", "grpc", "polars"}
    assert loaded(PREPARED) & unwanted == set()


#: It refuses to import some modules, as if they were not installed.
BLOCKED = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if path is None and name in {missing!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Blocked())
"""


def modules_of(packages: list[str]) -> set[str]:
    """The modules of packages, and of what they require."""
    closed: set[str] = set()
    while packages:
        name = canonicalize_name(packages.pop())
        if name not in closed:
            closed.add(name)
            needed = map(Requirement, metadata.requires(name) or [])
            packages += [
                one.name for one in needed if one.marker is None or one.marker.evaluate({"extra": ""})
            ]
    found = metadata.packages_distributions()
    return {module for module, owners in found.items() if closed & {*map(canonicalize_name, owners)}}


def test_the_library_needs_what_its_page_installs_and_commands_say_what_they_miss() -> None:
    page = (Path(__file__).parents[2] / "docs" / "library.md").read_text(encoding="utf-8")
    (line,) = re.findall(r"^pip install ([a-z][\w ]+)$", page, re.MULTILINE | re.IGNORECASE)
    missing = {*metadata.packages_distributions()} - {"ldpbeam"} - modules_of(line.split())
    assert missing >= {"apache_beam", "grpc", "loky", "pandas", "cryptography"} and "numpy" not in missing
    blocked = BLOCKED.format(missing=missing)
    subprocess.run([sys.executable, "-c", blocked + PREPARED], check=True)
    data = Path(__file__).parents[1] / "data" / "0.1.0"
    study, folder = str(data / "study.yaml"), str(data / "out")

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = f"from ldpbeam.command_line.main import main; sys.exit(main({arguments!r}))"
        return subprocess.run([sys.executable, "-c", blocked + command], capture_output=True, text=True)

    stream = "stream", "--study", study, "--input", "reports", "--output", "out"
    for command, package in ((stream, "cryptography"), (("--completion", "bash"), "shtab")):
        ran = run(*command)
        (sentence,) = ran.stderr.splitlines()
        assert (ran.returncode, ran.stdout) == (2, "")
        assert sentence.startswith(f"ldpbeam: {command[0]} needs {package}, which is not here")
    for command in (("explain", "--study", study), ("show", folder), ("diff", folder, folder)):
        assert run(*command).returncode == 0
    assert run("check", folder, "mean > 1e9").returncode == 0


def test_every_name_is_there_and_no_other() -> None:
    assert set(ldpbeam.__all__) == set(ldpbeam._MODULES)
    assert set(ldpbeam.__all__) <= set(dir(ldpbeam))
    for name in ldpbeam.__all__:
        assert getattr(ldpbeam, name).__module__.startswith("ldpbeam.")
    with pytest.raises(AttributeError, match="no attribute 'Studdy'"):
        _ = ldpbeam.Studdy
