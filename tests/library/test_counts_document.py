"""The queries of docs/counts.md run on DuckDB as they stand there, and give the estimates of the reports."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import ldpbeam as ldp

PAGE = (Path(__file__).parents[2] / "docs" / "counts.md").read_text(encoding="utf-8")
#: The query of each section, by a word of its heading.
QUERIES = {
    heading: query
    for section in PAGE.split("\n## ")
    for heading in [section.partition("\n")[0]]
    for query in re.findall(r"```sql\n(.*?)```", section, re.DOTALL)
}
N = 3_000
DAYS = 1_767_225_600_000 + 86_400_000 * (np.arange(N) % 2) + 1_000 * np.arange(N)
LETTERS, NUMBERS = {"categories": ["a", "b", "c"]}, {"numeric": [0, 180]}


def study_of(domain: dict[str, Any], services: dict[str, Any], **keys: Any) -> ldp.Study:
    attribute = {"domain": domain, "services": {name: {"epsilon": 1.0, **s} for name, s in services.items()}}
    return ldp.Study.from_dict(study="commute", attributes={"x": attribute}, **keys)


def query(word: str) -> str:
    """The query under the only heading that has a word."""
    (found,) = (query for heading, query in QUERIES.items() if word in heading)
    return found


def same(study: ldp.Study, word: str, reports: pa.Table, *tables: pa.Table) -> None:
    """See that a query of a table ``reports`` counts what other tables of reports say."""
    counted = ldp.estimate(study, counts=duckdb.sql(query(word)))
    assert counted.records() == ldp.estimate(study, [*tables] or reports).records()
    assert len(counted) > 0 and counted.counts["used"] == sum(table.num_rows for table in tables or [reports])


@pytest.fixture
def letters() -> list[str]:
    return np.random.default_rng(4).choice(["a", "b", "c"], N, p=[0.6, 0.3, 0.1]).tolist()


@pytest.fixture
def numbers() -> Any:
    return 180 * np.random.default_rng(5).beta(2, 5, N)


def sent(study: ldp.Study, values: Any, service: str = "maps", **more: Any) -> pa.Table:
    return ldp.Client(study, "x", service, rng=np.random.default_rng(6)).reports(values, np.arange(N), **more)


def test_payloads(letters: list[str]) -> None:
    study = study_of(
        LETTERS, {"maps": {"mechanism": "grr"}}, windows={"size": "1d"}, groups={"field": "country"}
    )
    same(study, "Payloads", sent(study, letters, event_times=DAYS, groups=["nl", "de", ""] * (N // 3)))


def test_bits(letters: list[str]) -> None:
    study = study_of(LETTERS, {"maps": {"mechanism": "oue"}})
    table = sent(study, letters)
    packed = np.frombuffer(b"".join(table.column("payload").to_pylist()), np.uint8)
    bits = np.unpackbits(packed[:, None], axis=1, count=3, bitorder="little")
    same(study, "Bits", pa.table({"bits": bits.tolist()}), table)


def test_seeds_and_hashes(letters: list[str]) -> None:
    study = study_of(LETTERS, {"maps": {"mechanism": "olh"}})
    table = sent(study, letters)
    pairs = np.frombuffer(b"".join(table.column("payload").to_pylist()), "<u4").reshape(-1, 2)
    same(study, "Seeds", pa.table({"seed": pairs[:, 0], "hash": pairs[:, 1]}), table)


def test_numbers(numbers: Any) -> None:
    study = study_of(NUMBERS, {"maps": {"mechanism": "square_wave"}})
    same(study, "Numbers", sent(study, numbers))


def test_several_services(letters: list[str]) -> None:
    study = study_of(
        LETTERS, {"maps": {"mechanism": "grr"}, "taxi": {"mechanism": "hadamard", "epsilon": 2.0}}
    )
    maps, taxi = sent(study, letters), sent(study, letters, "taxi").slice(1_000)
    same(study, "Several", pa.concat_tables([maps, taxi]), maps, taxi)


def test_the_page_has_at_most_700_words() -> None:
    assert len(PAGE.split()) <= 700
