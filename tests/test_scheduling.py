"""What ``docs/scheduling.md`` tells a scheduler to run does what it says: its lines are run as they stand."""

from __future__ import annotations

import hashlib
import re
import shlex
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from ldpbeam.folders.written import read_all
from ldpbeam.schemas.study.yaml_file import parse_study

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "scheduling.md").read_text(encoding="utf-8")
HOUR = 3_600_000
#: The example's study as far as it is not about solving.
STUDY = """\
study: commute
attributes:
  minutes:
    domain: {numeric: [0, 180]}
    services: {maps: {mechanism: square_wave, epsilon: 1.0}, taxi: {mechanism: piecewise, epsilon: 0.5}}
    estimates: {mean: {estimator: ivw}}
windows: {size: 1h}
"""
#: The page's folder and programs, in whose places the tests have their own.
FOLDER, PROGRAMS = "/srv/commute", "/opt/ldpbeam/.venv/bin"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def at(text: str) -> int:
    return int(1000 * datetime.fromisoformat(text).timestamp())


class Place(NamedTuple):
    """A folder with a study and reports, and programs; ``date`` says what time it is."""

    folder: Path
    programs: Path

    def set_clock(self, text: str) -> None:
        seconds = int(datetime.fromisoformat(text).timestamp())
        self.program("date", f'[ "$*" = +%s ] && echo {seconds} || exec /bin/date "$@"')

    def program(self, name: str, line: str) -> None:
        path = self.programs / name
        path.write_text(f"#!/bin/sh\n{line}\n")
        path.chmod(0o755)

    def here(self, text: str) -> str:
        return text.replace(FOLDER, str(self.folder)).replace(PROGRAMS, str(self.programs))

    def run(self, *arguments: str, cwd: Path | None = None) -> None:
        """Run a program with the little that cron and systemd hand on."""
        home = self.folder.parent
        environment = {"PATH": f"{self.programs}:/usr/bin:/bin", "HOME": str(home), "SHELL": "/bin/sh"}
        # A program is looked for on the caller's PATH, unless env does it.
        ran = subprocess.run(
            ["/usr/bin/env", *arguments], env=environment, cwd=cwd or home, capture_output=True, text=True
        )
        assert (ran.returncode, ran.stderr) == (0, "")

    @property
    def windows(self) -> list[str]:
        return sorted(path.stem for path in (self.folder / "out" / "estimates").iterdir())

    @property
    def hashes(self) -> dict[str, str]:
        out = self.folder / "out"
        found = sorted(path for path in out.rglob("*") if path.is_file())
        return {str(path.relative_to(out)): hashlib.sha256(path.read_bytes()).hexdigest() for path in found}


@pytest.fixture
def place(tmp_path: Path, simulate: Any, write_reports: Any) -> Place:
    """Reports from 23:00 on 19 November to 01:00 two days later."""
    found = Place(tmp_path / "commute", tmp_path / "programs")
    found.folder.mkdir()
    found.programs.mkdir()
    (found.folder / "study.yaml").write_text(STUDY)
    values = 180 * np.random.default_rng(1).beta(2, 5, 1300)
    start = at("2026-11-19T23:00:00Z")
    sent = simulate(parse_study(STUDY), "minutes", values, seed=2, start=start, spread=26 * HOUR)
    write_reports(found.folder / "reports", sent)
    found.program("ldpbeam", f'exec {shlex.quote(sys.executable)} -m ldpbeam.command_line.main "$@"')
    return found


def first_command() -> list[str]:
    """The words of the page's first command."""
    (first, *_) = re.findall(r"^```\n(ldpbeam estimate .*?)```", PAGE, re.DOTALL | re.MULTILINE)
    return shlex.split(first.replace("\\\n", ""))


def window(day: int, hour: int) -> str:
    start = datetime(2026, 11, day, hour, tzinfo=UTC).timestamp()
    ends = (datetime.fromtimestamp(start + seconds, UTC) for seconds in (0, 3600))
    return "-".join(["commute-minutes", *(f"{end:%Y%m%dT%H%M%SZ}" for end in ends)])


def cron_commands(place: Place) -> list[str]:
    """The commands as cron hands them to sh."""
    (table,) = blocks("crontab")
    settings, *lines = place.here(table).splitlines()
    assert settings == f"PATH={place.programs}:/usr/bin:/bin"
    times = [line.split(" ", 5)[:5] for line in lines]
    assert times == [["20", "*", "*", "*", "*"], ["40", "3", "*", "*", "*"]]
    commands = [line.split(" ", 5)[5] for line in lines]
    assert not any(re.search(r"(?<!\\)%", command) for command in commands), "an end of line to cron"
    return [command.replace(r"\%", "%") for command in commands]


def test_crons_hourly_line_estimates_the_hour_that_ended(place: Place) -> None:
    hourly, _ = cron_commands(place)
    place.set_clock("2026-11-20T11:20:00Z")
    place.run("sh", "-c", hourly)
    assert place.windows == [window(20, 10)]
    once = place.hashes
    # Saying which hour is the same run.
    given = "estimate --study study.yaml --input reports/* --output out"
    hour = "--from 2026-11-20T10:00:00Z --to 2026-11-20T11:00:00Z"
    place.run("ldpbeam", *given.split(), *hour.split(), cwd=place.folder)
    assert place.hashes == once
    place.set_clock("2026-11-20T12:20:59Z")
    place.run("sh", "-c", hourly)
    assert place.windows == [window(20, 10), window(20, 11)]
    assert all(place.hashes[name] == data for name, data in once.items())


@pytest.mark.slow
def test_crons_daily_line_estimates_yesterday_and_rolls_it_up(place: Place) -> None:
    hourly, daily = cron_commands(place)
    place.set_clock("2026-11-20T00:20:00Z")
    place.run("sh", "-c", hourly)
    assert place.windows == [window(19, 23)]
    place.set_clock("2026-11-21T03:40:00Z")
    # That its hours may be estimated again: the hourly line.
    for line in (daily, daily.replace("ldpbeam estimate", ": ldpbeam estimate")):
        place.run("sh", "-c", line)
        assert place.windows == [window(19, 23), *(window(20, hour) for hour in range(24))]
        found = [snapshot for _, snapshot in read_all([f"{place.folder}/days/20261120/statistics/*"])]
        day = at("2026-11-20T00:00:00Z")
        assert [snapshot.window for snapshot in found] == [(day, day + 24 * HOUR)]
    hours = [snapshot for _, snapshot in read_all([f"{place.folder}/out/statistics/*-20261120T??????Z-*"])]
    assert len(hours) == 24
    assert found[0].statistic.reports == sum(snapshot.statistic.reports for snapshot in hours)


def test_systemds_service_does_what_crons_line_does(place: Place) -> None:
    hourly, _ = cron_commands(place)
    service, timer = blocks("ini")
    settings = dict(line.split("=", 1) for line in place.here(service).splitlines() if "=" in line)
    assert settings["Environment"] == f"PATH={place.programs}:/usr/bin:/bin"
    assert "OnCalendar=*-*-* *:20:00 UTC\n" in timer
    command = settings["ExecStart"]
    assert not re.search(r"(?<!%)%(?!%)|(?<!\$)\$(?!\$)", command.replace("%%", "").replace("$$", ""))
    shell, option, line = shlex.split(command.replace("%%", "%").replace("$$", "$"))
    assert (shell, option) == ("/bin/sh", "-c")
    crons = hourly.replace(" && ldpbeam", "; exec ldpbeam").removesuffix(" > /dev/null")
    assert shlex.split(f"cd {settings['WorkingDirectory']} && {line}") == shlex.split(crons)


@pytest.mark.slow
def test_the_backfill_loop_goes_through_its_days(place: Place) -> None:
    (loop,) = blocks("sh")
    for seconds, moment in re.findall(r"(\d{10})\b.*# date -u -d (\S+) \+%s", loop):
        assert int(seconds) * 1000 == at(f"{moment}T00:00:00Z")
    assert loop.count("1793491200") == loop.count("1796083200") == 1
    first, after = at("2026-11-20T00:00:00Z") // 1000, at("2026-11-22T00:00:00Z") // 1000
    shorter = loop.replace("1793491200", str(first)).replace("1796083200", str(after))
    place.run("sh", "-c", shorter.replace("|| break", "> /dev/null || break"), cwd=place.folder)
    assert place.windows == [*(window(20, hour) for hour in range(24)), window(21, 0)]
    assert sorted(path.name for path in (place.folder / "out" / "runs").iterdir()) == [
        "20261120T000000Z-20261121T000000Z",
        "20261121T000000Z-20261122T000000Z",
    ]


def test_the_files_the_page_names_are_those_a_run_leaves(place: Place, command: Any) -> None:
    names = {"study.yaml": place.folder / "study.yaml", "reports/*": place.folder / "reports" / "*"}
    ran = command(
        *[names.get(own, place.folder / own if own == "out" else own) for own in first_command()[1:]]
    )
    assert ran.code == 0, ran.err
    found = {str(path.relative_to(place.folder / "out")) for path in (place.folder / "out").rglob("*.*")}
    table = set(re.findall(r"^\| `([^`]+)` \|", PAGE, re.MULTILINE))
    for name in table:
        shown = name.replace("STUDY-ATTRIBUTE-START-END", window(20, 10))
        shown = shown.replace("FROM-TO", window(20, 10).removeprefix("commute-minutes-"))
        assert any(path.startswith(shown) for path in found), name
    assert re.search(r"`(commute-minutes-\S+)\.avro`", PAGE)[1] == window(20, 10)  # type: ignore[index]
