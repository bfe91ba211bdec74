"""The Python of docs/tables.md, from top to bottom."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "tables.md"


@pytest.mark.filterwarnings("ignore:Series.values returning:DeprecationWarning")
def test_the_page_of_tables_runs(
    folders: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out").symlink_to(folders["batch"])
    (tmp_path / "hourly").symlink_to(folders["scheduled"])
    names: dict[str, object] = {}
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    printed = []
    for block in blocks:
        exec(block, names)
        printed.append(capsys.readouterr().out)
    assert len(printed) == 6 and all(printed)
    assert set(names["most"]["label"]) == {"car", "bus", "bike"}  # type: ignore[index]
    assert names["quantiles"].columns[-6:-2] == ["level", "value", "certain_low", "certain_high"]  # type: ignore[attr-defined]
    assert "bike" in printed[2]
    # A third of the reports say coffee, so fewer people than that drink it.
    shares = dict(
        zip(*(names["shares"].column(name).to_pylist() for name in ("label", "share")), strict=True)
    )  # type: ignore[attr-defined]
    assert "coffee" in printed[3]
    assert abs(shares["coffee"] - (1 / 3 - 1 / (1 + math.e)) / ((math.e - 1) / (math.e + 1))) < 0.01
    assert names["windows"].shape[0] == names["same"].height > 0  # type: ignore[attr-defined]
