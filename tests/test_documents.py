"""What the documents say is so: test vectors, studies, links, and the numbers of the README."""

from __future__ import annotations

import json
import math
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import xxhash
import yaml

from ldpbeam import Categories, Numeric, build_mechanism, registered_mechanisms
from ldpbeam.domains import Domain, Floats, KeyValuePairs, KeyValues, Vector
from ldpbeam.estimators import registered_estimators
from ldpbeam.mechanisms import LocalHashing, Mechanism, PrivKVM
from ldpbeam.mechanisms.categories.xxh32 import xxh32
from ldpbeam.pipelines.main import main
from ldpbeam.schemas.files.json_lines import decode_lines
from ldpbeam.schemas.reports.columns import Columns
from ldpbeam.schemas.study.yaml_file import parse_study, read_study
from ldpbeam.transforms.reports.payloads import checked_payloads
from ldpbeam.transforms.reports.reasons import REASONS

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
REPORTS = (ROOT / "docs" / "reports.md").read_text(encoding="utf-8")
FORMULAS = (ROOT / "docs" / "formulas.md").read_text(encoding="utf-8")
#: (mechanism, options, value, draws, report), a row having several of the last two.
VECTORS = [
    (name, options, value, *entry.split(": "))
    for name, options, value, entries in re.findall(
        r"^\| `(\w+)` \| (.+?) \| (.+?) \| ([\d. ]+: .+) \|$", REPORTS, flags=re.MULTILINE
    )
    for entry in entries.split("; ")
]
HASHES = re.findall(r"^\| (\d+) \| (\d+) \| (\d+) \| (\d) \|$", REPORTS, flags=re.MULTILINE)
DIAMONDS = ROOT.parent / "shared" / "data" / "diamonds.csv"


class Given:
    """A source of draws that are given."""

    def __init__(self, draws: str) -> None:
        self.draws = [float(draw) for draw in draws.split()]

    def random(self, size: int) -> Floats:
        drawn, self.draws = self.draws[:size], self.draws[size:]
        assert len(drawn) == size
        return np.array(drawn)


def told(value: str) -> tuple[Domain, Any]:
    """The domain of a test vector, and the one person's value as a mechanism takes it."""
    unit = Numeric(0, 1)
    if value.startswith("("):
        numbers = [float(number) for number in value[1:-1].split(", ")]
        return Vector(numbered(len(numbers)), unit), np.array([numbers])
    own, _, size = value.partition(" of ")
    if ":" in own:
        pairs = dict(pair.split(": ") for pair in own.split(", "))
        keys, values = np.array([*pairs]).astype(int), np.array([*pairs.values()]).astype(float)
        return KeyValues(numbered(int(size)), unit), KeyValuePairs(np.array([0, len(keys)]), keys, values)
    if size:
        return Categories(numbered(int(size))), np.array([int(own)])
    return unit, np.array([float(own)])


def numbered(size: int) -> tuple[str, ...]:
    return tuple(map(str, range(size)))


def sent(name: str, options: str, value: str, draws: str, budget: float = 1.0) -> tuple[Mechanism, str]:
    """What a client of so many times the row's epsilon sends, as the document writes it."""
    named = {} if options == "-" else dict(option.split(" ", 1) for option in options.split(", "))
    given = {option: yaml.safe_load(text) for option, text in named.items()}
    means = given.pop("means", "").split()
    domain, values = told(value)
    mechanism = build_mechanism(name, domain, budget * given.pop("epsilon", 1.0), **given)
    source = Given(draws)
    if isinstance(mechanism, PrivKVM) and means:
        report = mechanism.perturb_with(values, np.array(means).astype(float), source)
    else:
        report = mechanism.perturb(values, source)
    assert not source.draws
    bytes_ = mechanism.payload_dtype.kind == "V"
    return mechanism, report.tobytes().hex() if bytes_ else f"{report[0]:.12g}"


def test_every_mechanism_has_test_vectors() -> None:
    assert {name for name, *_ in VECTORS} == set(registered_mechanisms())


@pytest.mark.parametrize("vector", VECTORS, ids=" ".join)
def test_a_client_that_draws_as_given_sends_the_report_of_the_document(vector: Any) -> None:
    *client, expected = vector
    mechanism, report = sent(*client)
    assert report == expected
    # And what it sends is taken, of bytes in either case.
    for text in (report, report.upper()):
        payload = text if mechanism.payload_dtype.kind == "V" else float(text)
        line = json.dumps({"user_id": "u", "payload": payload}).encode()
        (batch,) = decode_lines(0, line, Columns())
        assert isinstance(batch, pa.RecordBatch)
        payloads, problems = checked_payloads(mechanism, batch, np.arange(1))
        assert not problems.any()
        assert payloads.dtype.kind != "V" or payloads.tobytes().hex() == report


@pytest.mark.parametrize("budget", [0.99, 1.01])
@pytest.mark.parametrize("name", registered_mechanisms())
def test_a_client_whose_epsilon_is_off_by_a_hundredth_fails_some_vector(name: str, budget: float) -> None:
    own = [vector for vector in VECTORS if vector[0] == name]
    assert any(sent(*client, budget=budget)[1] != report for *client, report in own)


def test_the_documents_numbers_lie_on_the_grid() -> None:
    for name, options, value, _, report in VECTORS:
        if name not in ("square_wave", "general_wave", "piecewise") or value.startswith("("):
            continue
        epsilon = float((re.findall(r"epsilon ([\d.]+)", options) or [1.0])[0])
        unit = 1 / math.tanh(epsilon / 4) + 1 if name == "piecewise" else 1.0
        # Twelve digits of a report up to ten tell halves of a step of 2^-30 apart.
        halves = 2 * float(report) / unit * 2**30
        assert abs(halves - round(halves)) < 0.02, (name, report)


def test_the_documents_hashes_are_xxh32() -> None:
    table = np.array(HASHES).astype(np.uint32)
    assert len(table) > 3
    np.testing.assert_array_equal(xxh32(table[:, 0], table[:, 1]), table[:, 2])
    for category, seed, expected, rest in table.tolist():
        assert xxhash.xxh32_intdigest(category.to_bytes(4, "little"), seed) == expected
        assert expected % 4 == rest


def test_the_constants_at_epsilon_1_are_those_of_the_mechanisms() -> None:
    def made(name: str, domain: Domain | None = None, **options: Any) -> Any:
        return build_mechanism(name, domain or Numeric(0, 1), 1.0, **options)

    five, three = Categories(numbered(5)), KeyValues(numbered(3), Numeric(0, 1))
    wave, general, discrete = made("square_wave"), made("general_wave"), made("discrete_square_wave")
    hashing, own = made("olh", five), made("sue", five).probabilities
    blocks = made("block_hadamard", five)
    first, second = made("privkv", three).probabilities
    assert first == second
    drawn = made("pckv_grr", three, padding=3).constants
    piecewise, normal, mixed = made("piecewise"), made("gaussian"), made("pckv_pm", three)
    expected = {
        "SW": {"b": wave.half_width, "w": wave.wave.width, "P": wave.wave.excess},
        "PM": {"C": piecewise.bound, "w": piecewise.wave.width, "P": piecewise.wave.excess},
        "SR": {"B": made("stochastic_rounding").bound},
        "HM": {"alpha": made("hybrid").share},
        "Laplace": {"c_0": int(made("laplace").noise[0])},
        "Gaussian": {"sigma": normal.sigma, "D": normal.lattice.steps, "R": normal.lattice.reach},
        "GW": {
            "q": general.densities[1],
            "M": general.share,
            "w": general.wave.width,
            "y": general.wave.slope,
            "P": general.wave.excess,
        },
        "discrete SW": {"b": discrete.half_width, "p": discrete.probabilities[0]},
        "GRR": {"p": made("grr", five).probabilities[0]},
        "OLH": {"g": hashing.hashes, "p": hashing.probabilities[0]},
        "OUE": {"q": made("oue", five).probabilities[1]},
        "SUE": {"p": own[0], "q": own[1]},
        "HRR": {"p": made("hadamard", five).keep},
        "block Hadamard": {"B": blocks.blocks, "b": blocks.order, "P": blocks.excess},
        "PrivKV": {"p1 = p2": first},
        "PCKV-GRR": {"a": drawn[0], "p": drawn[2]},
        "PCKV-UE": {"b": made("pckv_ue", three).constants[1]},
        "PCKV-PM": {"P": mixed.wave.excess, "T": mixed.draws_present[1]},
    }
    shown = " ".join(REPORTS.split())
    for name, constants in expected.items():
        listed = ", ".join(
            f"{constant} = {value if isinstance(value, int) else format(value, '.9g')}"
            for constant, value in constants.items()
        )
        assert re.search(rf"[:;] {name} {re.escape(listed)}(;|\.\s| with)", shown), (name, listed)


def test_the_default_seeds_of_olh_are_as_many_as_the_document_says() -> None:
    for epsilon in (0.1, 0.5, 1.0, 2.0, 5.0, 12.0):
        for d in (2, 5, 500, 3_000, 20_000, 70_000, 10**6):
            g = round(math.exp(epsilon)) + 1
            seeds = min(max(math.ceil(32 * d / (g - 1)), 1024), 2**16, 2**22 // g, 2**27 // d)
            expected = "any" if seeds * (g - 1) < 4 * d else seeds
            assert LocalHashing(epsilon, d).seeds == expected


def test_every_mechanism_and_estimator_has_its_source() -> None:
    for name in (*registered_mechanisms(), *registered_estimators()):
        assert f"`{name}`" in FORMULAS, name


def test_every_reason_of_a_dead_letter_is_documented() -> None:
    from ldpbeam.transforms.sources import read

    for reason in (*REASONS[1:], read.BAD_FILE, read.CORRUPT_BLOCK, read.NOT_JSON):
        assert f"`{reason}`" in REPORTS


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        assert target.startswith("http") or (document.parent / target).exists(), target


def test_the_guides_study_is_the_examples_and_it_runs() -> None:
    (block, *_) = re.findall(r"```yaml\n(study: .*?)```", (ROOT / "docs" / "guide.md").read_text(), re.DOTALL)
    assert block == (ROOT / "examples" / "commute" / "study.yaml").read_text()
    assert parse_study(block).name == "commute"


@pytest.mark.parametrize(
    "path", sorted(ROOT.glob("examples/*/study.yaml")), ids=lambda path: path.parent.name
)
def test_every_example_is_a_study(path: Path) -> None:
    read_study(path)


@pytest.mark.slow
@pytest.mark.skipif(not DIAMONDS.exists(), reason="needs the table of diamonds, which is not in the project")
def test_the_readmes_numbers_come_from_the_readmes_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```\n(\$ ldpbeam perturb.*?)```", text, re.DOTALL)
    head, table = block.split("\nattribute", 1)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "diamonds.csv").symlink_to(DIAMONDS)
    for command in head.replace("\\\n", " ").removeprefix("$ ").split("\n$ "):
        assert main(shlex.split(command)[1:]) == 0
    printed = capsys.readouterr().out
    for line in f"attribute{table}".splitlines():
        assert line.split() in [shown.split() for shown in printed.splitlines()], line
