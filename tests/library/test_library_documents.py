"""The Python of docs/library.md, and the notebooks: all of it runs."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def blocks(path: Path) -> list[str]:
    """The blocks of Python in a document."""
    return re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.slow
def test_the_page_of_the_library_runs_from_top_to_bottom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for package in ("altair", "pandas", "polars"):
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in blocks(ROOT / "docs" / "library.md"):
        exec(block, names)
    shown = capsys.readouterr().out
    for sentence in (
        "a numeric domain needs low < high",
        "value [0] of 'minutes' lies outside the domain [0, 180]",
        "\nTrue\n",
        "10,000 reports in = 10,000 used",
        "{'payload_outside_mechanism': 1, 'unknown_service': 1}",
        "[{'row': 1, 'reason': 'payload_outside_mechanism'}, {'row': 2, 'reason': 'unknown_service'}]",
        "the reports have no column 'user_id'",
    ):
        assert sentence in shown
    assert (tmp_path / "commute.html").stat().st_size > 1000


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_has_no_outputs(path: Path) -> None:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    assert len(cells) > 5
    for cell in cells:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_shows_tables_and_charts(path: Path, tmp_path: Path) -> None:
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    book = nbformat.read(path, as_version=4)
    client = nbclient.NotebookClient(book, timeout=600, resources={"metadata": {"path": str(tmp_path)}})
    client.create_kernel_manager()
    client.km.kernel_spec.argv[0] = sys.executable
    client.execute()
    outputs = [output for cell in book.cells for output in cell.get("outputs", ())]
    html = "".join(output["data"]["text/html"] for output in outputs if "text/html" in output.get("data", {}))
    assert "reports in =" in html
    assert "vega-lite" in html
