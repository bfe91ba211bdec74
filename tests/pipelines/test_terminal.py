"""What reports, studies and names of files hold reaches no terminal raw, and odd names are one line."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from support.estimate_records import paid

from ldpbeam.answers.tables import print_estimates
from ldpbeam.errors import UserError
from ldpbeam.inputs.files import find_input
from ldpbeam.inputs.key_files import read_key
from ldpbeam.pipelines.spool.manifest import Manifest
from ldpbeam.pipelines.spool.place import Placed, StreamOutput, owned_by_stream
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.untrusted import shown

CLEAR = "\x1b[2J"


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("plain, ± é 東 \u200d", "plain, ± é 東 \u200d"),
        (CLEAR, r"\x1b[2J"),
        ("a\rb\nc\td\x00\x7f\x9b", r"a\rb\nc\td\x00\x7f\x9b"),
        ("\u202egpj.exe\u2028", r"\u202egpj.exe\u2028"),
        ("\udcff", r"\udcff"),
    ],
)
def test_what_a_terminal_acts_on_is_escaped(text: str, safe: str) -> None:
    assert shown(text) == safe


def test_lines_of_our_own_messages_stay() -> None:
    assert shown(f"one\n{CLEAR}", keep="\n") == "one\n\\x1b[2J"


def test_groups_and_categories_are_escaped_in_tables() -> None:
    out = io.StringIO()
    estimate = paid(group=f"north{CLEAR}", categories=(f"cash{CLEAR}", "card"))
    print_estimates(Console(file=out, width=200), [estimate])
    assert r"north\x1b[2J" in out.getvalue() and r"cash\x1b[2J" in out.getvalue()
    assert "\x1b" not in out.getvalue()


def test_keys_of_a_study_are_escaped_in_errors(tmp_path: Path, small_text: str, command: Any) -> None:
    study = tmp_path / "study.yaml"
    for text in (f'{small_text}"key\\e[2J": 1\n', small_text.replace("x:", '"x\\e[2J":')):
        study.write_text(text)
        ran = command("explain", "--study", study)
        assert (ran.code, r"\x1b[2J" in ran.err, "\x1b" in ran.err) == (2, True, False)


@pytest.mark.parametrize(("mode", "warned"), [(0o644, True), (0o604, True), (0o600, False), (0o640, False)])
def test_a_key_file_that_everybody_can_read_is_a_warning(
    mode: int, warned: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key = tmp_path / "key"
    key.write_bytes(bytes(range(32)))
    key.chmod(mode)
    assert read_key(str(key)) == bytes(range(32))
    said = capsys.readouterr().err
    assert ("can read this key" in said and "chmod 600" in said) == warned == bool(said)


def test_a_name_that_is_not_utf_8_is_one_line(tmp_path: Path, command: Any) -> None:
    odd = tmp_path / os.fsdecode(b"in\xff.jsonl")
    odd.write_text("{}\n")
    for given in ("--study", "--input", "--output"):
        ran = command("estimate", given, odd)
        assert (ran.code, ran.err.count("\n")) == (2, 1)
        assert r"in\udcff.jsonl: this is not UTF-8; rename the file or folder" in ran.err
    with pytest.raises(UserError, match="its name is not UTF-8; rename it"):
        find_input([str(tmp_path / "in*")], "stop")


def test_a_stream_whose_files_would_have_too_long_names_does_not_start(tmp_path: Path) -> None:
    long = "n" * 64
    study = parse_study(
        f"study: {long}\nattributes:\n  {long}:\n    domain: {{coordinates: [{long}, b], values: [0, 1]}}\n"
        "    buckets: 8\n    services: {a: {mechanism: piecewise, epsilon: 1.0}}\n"
        "    estimates: {mean: {estimator: ivw}}\nwindows: {size: 1h}\n"
    )
    output = StreamOutput(study, str(tmp_path / "out"), "20261122T000000Z-0123abcd")
    place = Placed(output, Manifest(study.fingerprint))
    with pytest.raises(UserError, match="shorter names"), owned_by_stream(place, {"reads": "in/*"}):
        pass
    assert not (tmp_path / "out").exists()
