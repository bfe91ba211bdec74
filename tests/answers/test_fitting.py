"""A table that is too wide for a terminal stands in parts below each other; nothing of it is cut."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from ldpbeam.answers.fitting import print_fitting

NAMES = ["attribute", "window", "estimate", "estimator", "reports", "mean", "interval of mean", "W1", "notes"]
ROWS = [
    {
        "attribute": "minutes", "window": f"2026-11-20T0{hour}:00:00Z", "estimate": name, "estimator": "ule",
        "reports": "150,123", "mean": "67.4981", "interval of mean": "67.123 to 67.871", "W1": "0.81234",
    }
    for hour in (7, 8)
    for name in ("together", "maps_only")
]  # fmt: skip


def printed(width: int, rows: list[dict[str, str]], *, terminal: bool = True) -> list[str]:
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=terminal, color_system=None)
    print_fitting(console, NAMES, rows, keys=("attribute", "window", "estimate"), left=("estimator", "notes"))
    return [
        line.rstrip() for line in out.getvalue().replace("\x1b[1m", "").replace("\x1b[0m", "").splitlines()
    ]


@pytest.mark.parametrize("width", [60, 80, 100])
def test_no_line_is_wider_than_the_terminal_and_every_text_is_there(width: int) -> None:
    lines = printed(width, ROWS)
    assert max(map(len, lines)) <= width
    assert lines[0] == "attribute minutes"
    text = "\n".join(lines)
    for row in ROWS:
        for name, value in row.items():
            wanted = 1 if name == "attribute" else sum(other[name] == value for other in ROWS)
            assert text.count(value) >= wanted, (name, value)
    # Each part repeats what tells its rows apart.
    heads = [line for line in lines if line.startswith("window")]
    assert len(heads) == {60: 3, 80: 2, 100: 1}[width]
    assert all(line.split()[:2] == ["window", "estimate"] for line in heads)


def test_what_fits_is_one_table(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(160, ROWS)
    assert len(lines) == 1 + len(ROWS)
    assert lines[0].split()[:3] == NAMES[:3]


def test_what_is_no_terminal_has_one_table_of_any_width() -> None:
    assert printed(40, ROWS, terminal=False) == printed(160, ROWS)


def test_a_long_text_is_folded_and_a_row_without_any_of_a_part_is_left_out() -> None:
    rows = [{**ROWS[0], "notes": "word " * 40}, ROWS[1]]
    lines = printed(80, rows)
    assert max(map(len, lines)) <= 80
    assert " ".join(lines).count("word") == 40
    notes = lines[next(i for i, line in enumerate(lines) if "notes" in line) :]
    assert not any("maps_only" in line for line in notes)


def test_one_row_keeps_its_last_key() -> None:
    lines = printed(80, ROWS[:1])
    assert lines[0] == "attribute minutes, window 2026-11-20T07:00:00Z"
    assert lines[1].startswith("estimate")
