"""What the documents say is so: test vectors, studies, links, and the numbers of the README."""

from __future__ import annotations

import functools
import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from support.given_draws import Given, mechanism_of, sent

from ldpbeam import Categories, Numeric, build_mechanism, registered_mechanisms
from ldpbeam.domains import Domain, KeyValues
from ldpbeam.estimators import registered_estimators
from ldpbeam.mechanisms import LocalHashing, Mechanism
from ldpbeam.mechanisms.categories.xxh32 import xxh32
from ldpbeam.schemas.files.json_lines import decode_lines
from ldpbeam.schemas.reports.columns import Columns
from ldpbeam.schemas.study.yaml_file import parse_study, read_study
from ldpbeam.transforms.reports.counts import CHECKED, MEANT, OCCASIONAL, OF_CELLS, REFUSED, accounting
from ldpbeam.transforms.reports.dead_letters import REASONS
from ldpbeam.transforms.reports.payloads import checked_payloads

ROOT = Path(__file__).parents[1]
FOLDERS = ("docs", "clients", "runners", "examples", "tests")
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(page for name in FOLDERS for page in (ROOT / name).rglob("*.md"))])
REPORTS = (ROOT / "docs" / "reports.md").read_text(encoding="utf-8")
FORMULAS = (ROOT / "docs" / "formulas.md").read_text(encoding="utf-8")
#: What ``ldpbeam vectors`` prints.
VECTORS: list[dict[str, Any]] = json.loads((ROOT / "schemas" / "test_vectors.json").read_text())
HASHES = re.findall(r"^\| (\d+) \| (\d+) \| (\d+) \| (\d) \|$", REPORTS, flags=re.MULTILINE)


def numbered(size: int) -> tuple[str, ...]:
    return tuple(map(str, range(size)))


def sent_by_client(vector: dict[str, Any], budget: float = 1.0) -> tuple[Mechanism, float | str]:
    """What a client of so many times the vector's epsilon sends, as the vector states it."""
    mechanism, source = mechanism_of(vector, budget), Given(vector["draws"])
    report = sent(vector, mechanism, vector["value"], source)
    assert not source.draws
    return mechanism, report


def options_of(vector: dict[str, Any]) -> str:
    """Epsilon and the options of a vector as the document's table writes them."""
    given = {} if vector["epsilon"] == 1 else {"epsilon": vector["epsilon"]}
    given |= vector["options"]
    if "means" in vector:
        given["means"] = " ".join(map(str, vector["means"]))
    return ", ".join(f"{option} {value}" for option, value in given.items()) or "-"


def value_of(vector: dict[str, Any]) -> str:
    """The value of a vector as the document's table writes it."""
    domain, value = vector["domain"], vector["value"]
    if "keys" in domain:
        return ", ".join(f"{key}: {x}" for key, x in value.items()) + f" of {domain['keys']}"
    if "categories" in domain:
        return f"{value} of {domain['categories']}"
    text = f"({', '.join(map(str, value))})" if "coordinates" in domain else f"{value}"
    return text + (f", step {domain['step']}" if "step" in domain else "")


def test_the_document_shows_the_first_test_vectors_of_each_mechanism() -> None:
    rows: dict[tuple[str, str, str], list[str]] = {}
    for vector in VECTORS:
        row = rows.setdefault((vector["mechanism"], options_of(vector), value_of(vector)), [])
        row.append(f"{' '.join(map(str, vector['draws']))}: {vector['report']}")
    first = {name: (name, options, value) for name, options, value in reversed(rows)}
    table = "".join(
        f"| `{name}` | {options} | {value} | {'; '.join(entries)} |\n"
        for (name, options, value), entries in rows.items()
        if first[name] == (name, options, value)
    )
    heading = "| mechanism | options | value | draws: report |\n| --- | --- | --- | --- |\n"
    assert f"{heading}{table}\n" in REPORTS


def test_every_mechanism_has_test_vectors() -> None:
    assert {vector["mechanism"] for vector in VECTORS} == set(registered_mechanisms())


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: f"{v['mechanism']} {options_of(v)} {v['draws']}")
def test_a_client_that_draws_as_given_sends_the_report_of_the_document(vector: dict[str, Any]) -> None:
    mechanism, report = sent_by_client(vector)
    assert report == vector["report"]
    # And what it sends is taken, of bytes in either case.
    for payload in (report, report.upper() if isinstance(report, str) else report):
        line = json.dumps({"user_id": "u", "payload": payload}).encode()
        (batch,) = decode_lines(0, line, Columns())
        assert isinstance(batch, pa.RecordBatch)
        payloads, problems = checked_payloads(mechanism, batch, np.arange(1))
        assert not problems.any()
        assert payloads.dtype.kind != "V" or payloads.tobytes().hex() == report


@pytest.mark.parametrize("budget", [0.99, 1.01])
@pytest.mark.parametrize("name", registered_mechanisms())
def test_a_client_whose_epsilon_is_off_by_a_hundredth_fails_some_vector(name: str, budget: float) -> None:
    own = [vector for vector in VECTORS if vector["mechanism"] == name]
    if name == "matrix":
        with pytest.raises(ValueError, match="the epsilon of this table is"):
            sent_by_client(own[0], budget)
        return
    assert any(sent_by_client(vector, budget)[1] != vector["report"] for vector in own)


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
    hashing, own = made("olh", five), made("sue", five).support_probabilities
    blocks = made("block_hadamard", five)
    chosen = made("subset_selection", Categories(numbered(10)))
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
            "q": general.densities[1], "M": general.share, "w": general.wave.width, "y": general.wave.slope,
            "P": general.wave.excess,
        },
        "discrete SW": {"b": discrete.half_width, "p": discrete.probabilities[0]},
        "GRR": {"p": made("grr", five).support_probabilities[0]},
        "OLH": {"g": hashing.hashes, "p": hashing.probabilities[0]},
        "OUE": {"q": made("oue", five).support_probabilities[1]},
        "SUE": {"p": own[0], "q": own[1]},
        "subset selection": {"m": chosen.subset, "p": chosen.support_probabilities[0]},
        "HRR": {"p": made("hadamard", five).keep},
        "block Hadamard": {"B": blocks.blocks, "b": blocks.order, "P": blocks.excess},
        "PrivKV": {"p1 = p2": first},
        "PCKV-GRR": {"a": drawn[0], "p": drawn[2]},
        "PCKV-UE": {"b": made("pckv_ue", three).constants[1]},
        "PCKV-PM": {"P": mixed.wave.excess, "T": mixed.draws_present[1]},
    }  # fmt: skip
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


def test_every_field_of_an_accounting_is_documented() -> None:
    page = (ROOT / "docs" / "formats.md").read_text(encoding="utf-8")
    table = page.partition("## `accounting.json`\n")[2].partition("\n\n")[0]
    named = re.findall(r"`(\w+)`", " ".join(re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)))
    others = (f"{CHECKED}x/a", f"{REFUSED}x/a", f"{MEANT}Region", f"{OF_CELLS}x/a")
    assert sorted(named) == sorted(accounting((name, 1) for name in (*OCCASIONAL, *others)))


def test_every_reason_of_a_dead_letter_is_documented() -> None:
    from ldpbeam.transforms.sources import read

    for reason in (*REASONS[1:], read.BAD_FILE, read.CORRUPT_BLOCK, read.NOT_JSON):
        assert f"`{reason}`" in REPORTS


def prose(document: Path) -> str:
    """A document without its blocks of code."""
    return re.sub(
        r"^ *```.*?^ *```", "", document.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE
    )


@functools.cache
def anchors(document: Path) -> set[str]:
    """The anchors of a document's headings, as GitHub makes them; of equal headings, none but the first."""
    headings = re.findall(r"^#+ +(.+?) *$", prose(document), flags=re.MULTILINE)
    shown = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in shown}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)", prose(document)):
        if target.startswith("http"):
            continue
        path = (document.parent / target).resolve() if target else document
        assert path.exists(), target
        assert not anchor or anchor in anchors(path), f"{target}#{anchor}"


def test_the_tests_that_prove_what_a_stream_promises_exist() -> None:
    page = (ROOT / "docs" / "streaming.md").read_text(encoding="utf-8")
    named = re.findall(r"`(test_\w+)`", page)
    there = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)\(", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert len(named) > 10
    assert [name for name in named if name not in there] == []


def test_pages_that_code_names_are_there() -> None:
    """In messages, docstrings and comments."""
    folders = (
        "benchmarks", "clients", "examples", "ldpbeam", "pipelines", "runners", "schemas", "transforms",
    )  # fmt: skip
    files = (
        path for name in folders for path in (ROOT / name).rglob("*") if "node_modules" not in path.parts
    )
    named = {
        page
        for path in files
        if path.suffix in (".py", ".js", ".ts", ".yaml", ".json", ".avsc", ".java")
        for page in re.findall(r"docs/[\w/-]+\.(?:md|csv|png)", path.read_text(encoding="utf-8"))
    }
    assert len(named) > 10
    assert not [page for page in sorted(named) if not (ROOT / page).exists()]


def test_the_guide_lists_every_page() -> None:
    listed = (ROOT / "docs" / "guide.md").read_text(encoding="utf-8").partition("## All pages")[2]
    pages = {page.name for page in (ROOT / "docs").glob("*.md")} - {"guide.md"}
    assert pages == set(re.findall(r"\]\((\w[\w-]*\.md)", listed))


def test_a_table_of_the_readme_is_at_most_100_columns_wide() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert max(len(line) for line in lines if line.startswith("| ") and "`" not in line) <= 100


def test_the_study_of_the_page_on_studies_is_the_examples_and_it_runs() -> None:
    (block, *_) = re.findall(r"```yaml\n(study: .*?)```", (ROOT / "docs" / "study.md").read_text(), re.DOTALL)
    assert block == (ROOT / "examples" / "commute" / "study.yaml").read_text()
    assert parse_study(block).name == "commute"


@pytest.mark.parametrize(
    "path", sorted(ROOT.glob("examples/*/study.yaml")), ids=lambda path: path.parent.name
)
def test_every_example_is_a_study(path: Path) -> None:
    read_study(path)
