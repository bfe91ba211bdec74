"""The example package: its mechanisms keep every law, and all of it works where it is installed."""

from __future__ import annotations

import importlib
import json
import math
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cases import Case, categories, keys
from hypothesis import strategies as st
from laws import LAWS
from support.registries import fresh

from ldpbeam.schemas.outputs.snapshots import read_snapshots

EXAMPLE = Path(__file__).parents[2] / "examples" / "plugin"
SHARES = {"water": 0.4, "tea": 0.3, "coffee": 0.2, "juice": 0.1}
PEOPLE = 20_000


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The example's mechanisms are known, until the test has ended."""
    registry = importlib.import_module("ldpbeam.mechanisms.registry")
    monkeypatch.syspath_prepend(EXAMPLE)
    shy = importlib.import_module("ldpbeam_shy").Shy
    verdict = importlib.import_module("ldpbeam_verdict").Verdict
    monkeypatch.setattr(registry, "_REGISTRY", fresh(registry._REGISTRY))
    for own in (shy, verdict):
        registry.register(own)


def of_shy(silence: float) -> Case:
    options = {"silence": silence}
    sizes = st.integers(2, 10).map(lambda size: (categories(size), options))
    return Case(f"shy {silence}", "shy", categories(5), options, sizes)


VERDICT = Case("verdict", "verdict", keys(3), {}, st.integers(2, 3).map(lambda size: (keys(size), {})))


@pytest.mark.parametrize("case", [of_shy(0.01), of_shy(0.3), VERDICT], ids=str)
def test_the_mechanisms_keep_every_law_that_applies(registered: None, case: Case) -> None:
    laws = [law for law, holds in LAWS.items() if holds(case)]
    assert len(laws) > 10
    for law in laws:
        law(case)


@pytest.mark.slow
def test_the_installed_package_perturbs_and_estimates(tmp_path: Path) -> None:
    site = tmp_path / "site"
    environment = {**os.environ, "PYTHONPATH": str(site)}

    def run(*arguments: object) -> None:
        done = subprocess.run(
            [sys.executable, "-m", *map(str, arguments)], cwd=tmp_path, env=environment,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout

    # Installing leaves files where the source lies.
    source = shutil.copytree(EXAMPLE, tmp_path / "source")
    run("pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--target", site, source)
    drinks = np.repeat(list(SHARES), [round(PEOPLE * share) for share in SHARES.values()])
    (tmp_path / "people.csv").write_text("\n".join(["drink", *drinks]) + "\n", encoding="utf-8")
    study = ["--study", EXAMPLE / "drinks.yaml"]
    people = ["--attribute", "drink", "--input", "people.csv", "--value-column", "drink"]
    (tmp_path / "commands.py").write_text(
        "import json, sys\n"
        "from ldpbeam.command_line.main import main\n"
        "sys.exit(any(map(main, json.loads(sys.argv[1]))))\n"
    )
    perturb = ["perturb", *study, *people, "--output", "reports", "--seed", 3]
    estimate = ["estimate", *study, "--input", "reports/*", "--output", "out"]
    run("commands", json.dumps([list(map(str, perturb)), list(map(str, estimate))]))
    lines = (tmp_path / "out" / "estimates.jsonl").read_text(encoding="utf-8").splitlines()
    estimates = {line["name"]: line for line in map(json.loads, lines)}
    found = estimates["app_only"]
    # Four categories, epsilon 1, silence 0.3: p and q, and the deviation of an unbiased share.
    own, other = 0.7 * math.e / (math.e + 3), 0.7 / (math.e + 3)
    for name, share in SHARES.items():
        chance = share * own + (1 - share) * other
        deviation = math.sqrt(chance * (1 - chance) / PEOPLE) / (own - other)
        assert abs(found["frequencies"][found["categories"].index(name)] - share) < 4 * deviation
    # The estimator's own formula, from the unbiased shares that the mechanism defines.
    counts = np.array(histogram_of(tmp_path / "out" / "statistics"))
    unbiased = (counts[:4] / PEOPLE - other) / (own - other)
    expected = (PEOPLE * unbiased + 500 / 4) / (PEOPLE + 500)
    assert estimates["steadied"]["frequencies"] == pytest.approx(expected.tolist(), rel=1e-12)


def histogram_of(folder: Path) -> list[int]:
    """The counts of the first channel in the only snapshot of a folder."""
    (path,) = folder.glob("*.avro")
    with path.open("rb") as stream:
        (snapshot,) = read_snapshots(stream)
    return snapshot.statistic.histograms[0].tolist()


#: What a notebook adds to the page on own mechanisms: a Beam pipeline whose workers are other processes.
IN_WORKERS = """
if __name__ == "__main__":
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions

    people = ["tea"] * 60 + ["coffee"] * 40
    reports = ldp.Client(study, "drink", "app").reports(people, [f"u{i}" for i in range(100)])
    assert ldp.estimate(study, reports)[0].frequencies is not None
    for estimator in ("auto", "halved"):
        asked = ldp.Study.from_dict(
            study="drinks",
            attributes={"drink": {
                "domain": {"categories": ["tea", "coffee", "water"]},
                "services": {"app": {"mechanism": "coin", "epsilon": 1.0}},
                "estimates": {"shares": {"estimator": estimator}},
            }},
        )
        options = PipelineOptions(["--direct_running_mode=multi_processing", "--direct_num_workers=2"])
        with beam.Pipeline(options=options) as pipeline:
            found = pipeline | beam.Create(reports.to_pylist()) | ldp.beam.Estimate(asked)
            found.estimates | beam.Map(lambda row: print("solved", row.estimate))
"""


def test_workers_know_a_mechanism_of_a_notebook_and_no_estimator(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "own.md").read_text()
    (block,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    program = tmp_path / "notebook.py"
    program.write_text(block + IN_WORKERS)
    ran = subprocess.run([sys.executable, program], capture_output=True, text=True, cwd=tmp_path)
    assert ran.returncode and "unknown estimator 'halved'" in ran.stderr, ran.stderr[-2000:]
    assert "solved shares" in ran.stdout + ran.stderr
