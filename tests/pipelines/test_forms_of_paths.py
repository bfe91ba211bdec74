"""Every path that a command takes, however a user writes it and wherever he stands: the same comes out."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.output_folders import START, contents
from support.studies import SMALL

from ldpbeam.pipelines.commands import stream
from ldpbeam.transforms.sources.files import match

STUDY = f"{SMALL}windows: {{size: 1h}}\n"
#: Command lines; what is in brackets is a path below one folder, and what is below ``new`` is written.
LINES = (
    "estimate --study [study.yaml] --input [in/a.jsonl] [in/b.jsonl] --output [new/out] "
    "--truth [people.csv] --value-column v --time-column t --user-id-key-file [key]",
    "estimate --study [study.yaml] --again [dead] [dead2] --output [new/out]",
    "stream --study [study.yaml] --input [in/a.jsonl] [in/*.jsonl] --output [new/out] "
    "--user-id-key-file [key]",
    "rollup --study [study.yaml] --statistics [out/statistics/*] [out2/statistics/*] --output [new/out]",
    "ledger [out] [out2]",
    "report [out] [out2] --output [new/page.html] --truth [people.csv] --value-column v --time-column t",
    "diff [out] [out2]",
    "init [people.csv] --attribute v --epsilon 1 --output [new/study.yaml]",
    "perturb --study [study.yaml] --attribute x --value-column v --input [people.csv] --output [new/out] "
    "--seed 1 --services a --start 2026-11-20T10:00:00Z",
    "evaluate --study [study.yaml] --data [people.csv] --value-column v --users 100 --trials 2 "
    "--time-column t --no-figures --processes 1 --output [new/out]",
)
_PATH = re.compile(r"\[(.*?)\]")
_FOLDERS = {"out", "out2", "dead", "dead2", "new/out"}
#: Names that differ from run to run.
_RUN = re.compile(r"\b(\d{8}T\d{6}Z-[0-9a-f]{8}|[0-9a-f]{16,})\b")


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory, command: Any, write_lines: Any) -> Path:
    """A folder with one of each thing that a command reads."""
    place = tmp_path_factory.mktemp("here")
    ledger = "ledger: {period: 30d}\n"
    for name, text in (("study", STUDY), ("ledger", STUDY + ledger), ("y", STUDY.replace("  x:", "  y:"))):
        (place / f"{name}.yaml").write_text(text)
    (place / "people.csv").write_text(
        "v,t\n" + "".join(f"0.{digit},{START + digit}\n" for digit in range(10))
    )
    (place / "key").write_bytes(bytes(range(32)))
    (place / "key").chmod(0o600)
    for number, (out, dead) in enumerate((("out", "dead"), ("out2", "dead2"))):
        sent = [
            {"user_id": f"u{number}.{user}", "attribute": "x", "service": "a", "event_time": START + user,
             "payload": user / 20 - 0.5}
            for user in range(20 + number)
        ]  # fmt: skip
        file = write_lines(place / "in" / f"{'ab'[number]}.jsonl", sent)
        for study, output in (("ledger", out), ("y", dead)):
            asked = ("--study", place / f"{study}.yaml", "--output", place / output, "--processes", 1)
            more = ("--user-id-key-file", place / "key") if output == out else ("--keep-bad-records",)
            assert command("estimate", "--input", file, *asked, *more, "--max-bad-fraction", 1).code == 0
    return place


def spelled(name: str, place: Path, stands: Path, form: str) -> str:
    """A path below a folder as a user writes it who stands somewhere."""
    text = str(place / name) if form == "absolute" else os.path.relpath(place / name, stands)
    return {"./": f"./{text}", "slash": f"{text}/" if name in _FOLDERS else text}.get(form, text)


def outcome(line: str, form: str, place: Path, command: Callable[..., Any], stand: Any) -> tuple[Any, ...]:
    """What a command line says and writes, but for how its paths are spelled and what a run is called."""
    shutil.rmtree(place / "new", ignore_errors=True)
    (place / "new" / "out").mkdir(parents=True)
    stands = Path("/") if form in ("absolute", "/") else place / form if form in {"in", *_FOLDERS} else place
    stand(stands)
    ran = command(
        *(_PATH.sub(lambda path: spelled(path[1], place, stands, form), word) for word in line.split())
    )
    stand("/")
    paths = {".", *_FOLDERS, *(Path(name).name for name in _PATH.findall(line))}

    def words(text: str) -> list[str]:
        every = re.split(r"[\s,;:'\"()]+", _RUN.sub("RUN", text))
        return [
            word
            for word in every
            if not re.search(r"/|\.(avro|parquet)$", word) and word.rstrip(".") not in paths and word != "."
        ]

    written = {
        _RUN.sub("RUN", name): _RUN.sub("RUN", data.decode()) if name.endswith((".jsonl", "read")) else ""
        for name, data in contents(place / "new").items()
    }
    return (
        ran.code,
        words(ran.out),
        words(ran.err),
        {name: sorted(text.splitlines()) for name, text in written.items()},
    )


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.split()[0])
def test_a_path_is_the_same_however_it_is_written(
    line: str, here: Path, command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pretend(run: Any, request: Any, output: Any, stopping: Any) -> bool:
        names = [os.path.realpath(path) for path, _ in match(run.feed.feed.patterns)]
        Path(output.output, "read").write_text("\n".join(names))
        return True

    monkeypatch.setattr(stream, "_loop", pretend)
    expected = outcome(line, "absolute", here, command, monkeypatch.chdir)
    assert expected[0] in (0, 1), expected
    folders = _FOLDERS.intersection(_PATH.findall(line))
    for form in ("", "./", "slash", "/", "in", *sorted(folders)):
        assert outcome(line, form, here, command, monkeypatch.chdir) == expected, form
