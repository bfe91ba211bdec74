"""A study that joins many services: its statistics have rows of users."""

from __future__ import annotations

import re
import stat
from pathlib import Path

from ldpbeam.folders.output import Output
from ldpbeam.folders.written import write_all
from ldpbeam.schemas.outputs.snapshots import Snapshot
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.statistics import empty, explain

SERVICES = [f"s{number}" for number in range(9)]
ASKED = ", ".join(
    f"{name}: {{mechanism: {mechanism}, epsilon: 0.5}}"
    for name, mechanism in zip(SERVICES, ["piecewise", "square_wave", "stochastic_rounding"] * 3, strict=True)
)
TEXT = f"""\
study: nine
attributes:
  x:
    domain: {{numeric: [0, 1]}}
    services: {{{ASKED}}}
    estimates:
      all: {{estimator: ule, accelerated: true}}
      some: {{estimator: ule, services: [s1, s5], accelerated: true}}
windows: {{size: 1h}}
"""


def test_a_file_with_a_row_for_each_user_is_for_its_owner_alone(tmp_path: Path) -> None:
    study = parse_study(TEXT)
    snapshot = Snapshot("x", (0, 3_600_000), None, 0, empty(study.attribute("x")))
    write_all(Output(study, str(tmp_path), "run"), [snapshot])
    (file,) = (tmp_path / "statistics").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_the_size_of_the_rows_is_said_before_a_run() -> None:
    more = ", ".join(f"t{n}: {{mechanism: square_wave, epsilon: 1}}" for n in range(10))
    coarse = TEXT.replace("    services:", "    joint_buckets: 2\n    services:")
    fine, coarse, many = (
        " ".join(explain(parse_study(text).attribute("x")))
        for text in (TEXT, coarse, TEXT.replace(ASKED, f"{ASKED}, {more}"))
    )
    assert "one row per user" in fine and "192, 192, 2, 192, 192, 2, 192, 192, 2 buckets" in fine
    assert "A row takes 16 bytes, 16 MB per million users" in fine and "may have at most 33,554,432" in fine
    assert "at least 98% of each service's information" in fine and "too little" not in fine
    assert re.search(r"That can be too little: \d\d% of s0's, .* information. Raise joint_buckets", coarse)
    assert "More than 16 joined services have not been measured" in many and "A row takes 32 bytes" in many
