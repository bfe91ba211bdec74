"""How scheduled runs share a folder: each replaces the windows of its span, whole, and touches no others."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.output_folders import contents
from support.studies import SMALL

from ldpbeam import tally
from ldpbeam.beam.solve_windows import SolveWindow
from ldpbeam.errors import UserError
from ldpbeam.folders.output import ACCOUNTING, FIT, LEDGER, STATISTICS
from ldpbeam.pipelines.runs import ownership, scheduled
from ldpbeam.pipelines.runs.locks import locked
from ldpbeam.pipelines.runs.ownership import SCHEDULED_RUNS, owned
from ldpbeam.pipelines.runs.scheduled import Scheduled, owned_by_schedule, publish
from ldpbeam.schemas.outputs.records import EstimateRecord
from ldpbeam.schemas.outputs.snapshots import Snapshot
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.statistics import Answers
from ldpbeam.study import Study
from ldpbeam.transforms import storage
from ldpbeam.transforms.outputs.snapshots import write_window
from ldpbeam.transforms.storage import write_json
from ldpbeam.windows import Span

HOUR = 3_600_000
START = 1_795_168_800_000  # 2026-11-20T10:00:00Z
FIXED = "windows: {size: 1h}\n"
TEXT = SMALL.replace("      both: {estimator: ule}\n", "") + FIXED
STUDY, OTHER = parse_study(TEXT), parse_study(TEXT.replace("study: small", "study: other"))
#: What was reported in each hour after START.
Hours = Mapping[int, float]


def name_of(start: int, stop: int) -> str:
    """How some hours after START stand in names."""
    return f"20261120T{10 + start}0000Z-20261120T{10 + stop}0000Z"


def of_window(start: int, prefix: str = "small-x") -> set[str]:
    """The files of the hour after START that begins then."""
    name = f"{prefix}-{name_of(start, start + 1)}"
    tables = (f"tables/{kind}/{name}.parquet" for kind in ("estimates", "distribution"))
    return {f"statistics/{name}.avro", f"estimates/{name}.jsonl", *tables}


def of_run(start: int, stop: int) -> set[str]:
    """The files that a run shares with no other."""
    return {f"runs/{name_of(start, stop)}/{name}.json" for name in ("accounting", "fit", "ledger", "run")}


def job(folder: Path, start: int, stop: int, study: Study = STUDY) -> Scheduled:
    return Scheduled(study, str(folder), "run-1", Span(START + start * HOUR, START + stop * HOUR), ("in/*",))


def make(own: Scheduled, sent: Hours, letters: int = 0) -> list[EstimateRecord]:
    """Write what a pipeline leaves in the run's hidden folder; give its estimates."""
    solver, estimates = SolveWindow(own.study), []
    solver.setup()
    for name in own.study.estimated:
        described = own.study.attribute(name)
        for hour, value in sent.items():
            rng = np.random.default_rng(0)
            payloads = described.versions[0].mechanism.perturb(np.full(5, value), rng)
            statistic = tally(described, 5, [Answers(0, np.arange(5), payloads)])
            window = (START + hour * HOUR, START + (hour + 1) * HOUR)
            snapshots = [Snapshot(name, window, None, 0, statistic)]
            write_window(own.study, own.made.path(STATISTICS), own.run, snapshots)
            estimates += next(solver.process((name, snapshots))).estimates
    for letter in range(letters):
        path = Path(own.made.path("dead_letters", f"part-{letter}.avro"))
        path.parent.mkdir(exist_ok=True)
        path.write_text("bad")
    for name in (ACCOUNTING, FIT, LEDGER):
        write_json(own.made.path(name), sorted(sent.items()))
    return estimates


def run(
    own: Scheduled, sent: Hours, letters: int = 0, *, overwrite: bool = False, beside: Sequence[Any] = ()
) -> dict[str, bytes]:
    """A run from its beginning to its end; what else happens while its pipeline runs."""
    with owned_by_schedule(own, overwrite):
        estimates = make(own, sent, letters)
        for act in beside:
            act()
        publish(own, estimates)
    return contents(Path(own.output))


def test_a_run_replaces_the_windows_of_its_span_and_touches_no_others(tmp_path: Path) -> None:
    first = run(job(tmp_path, 0, 3), {0: 0.5, 1: 0.5, 2: 0.5}, letters=2)
    places = {name: (tmp_path / name).stat().st_ino for name in first}
    # The third hour's reports are gone; those of the second are others.
    second = run(job(tmp_path, 1, 5), {1: 0.1, 3: 0.5, 4: 0.5})
    # A mean has no rows in the table of distributions.
    assert all(second[name] != first[name] for name in of_window(1) if "distribution" not in name)
    assert not of_window(2) & set(second)
    for name in of_window(0) | {name for name in first if name.startswith(f"runs/{name_of(0, 3)}/")}:
        assert second[name] == first[name]
        assert (tmp_path / name).stat().st_ino == places[name], "it was not written again"
    assert set(second) - set(first) == of_window(3) | of_window(4) | of_run(1, 5)
    # The first span again, in which one letter fewer is bad.
    third = run(job(tmp_path, 0, 3), {0: 0.5, 1: 0.5, 2: 0.5}, letters=1)
    assert set(first) - set(third) == {f"runs/{name_of(0, 3)}/dead_letters/part-1.avro"}


def test_windows_one_by_one_and_all_at_once_are_the_same_bytes(tmp_path: Path) -> None:
    at_once = run(job(tmp_path / "once", 0, 3), {0: 0.5, 1: 0.25, 2: 0.1})
    for hour, value in ((2, 0.1), (0, 0.5), (1, 0.25)):
        found = run(job(tmp_path / "hourly", hour, hour + 1), {hour: value})
    windows = of_window(0) | of_window(1) | of_window(2)
    assert {name: found[name] for name in windows} == {name: at_once[name] for name in windows}


def test_overwrite_replaces_other_studies_and_no_windows_of_this_one(tmp_path: Path) -> None:
    before = run(job(tmp_path, 0, 3), {0: 0.5, 1: 0.5, 2: 0.5})
    after = run(job(tmp_path, 1, 2), {1: 0.5}, overwrite=True)
    assert before.items() <= after.items()
    replaced = run(job(tmp_path, 0, 1, OTHER), {0: 0.5}, overwrite=True)
    windows = {name for name in replaced if name.startswith(("statistics/", "estimates/", "tables/"))}
    assert windows == of_window(0, "other-x")
    assert not of_run(0, 3) & set(replaced)


def test_a_run_that_fails_leaves_the_folder_as_it_was(tmp_path: Path) -> None:
    before = run(job(tmp_path, 0, 3), {0: 0.5, 1: 0.5, 2: 0.5})
    again = job(tmp_path, 0, 3)
    with pytest.raises(ZeroDivisionError), owned_by_schedule(again, False):
        make(again, {0: 0.1})
        assert Path(again.made.output).exists()
        raise ZeroDivisionError
    assert contents(tmp_path) == before
    assert not Path(again.made.output).exists()


def test_a_run_deletes_the_hidden_folders_of_killed_runs_and_not_those_of_others(tmp_path: Path) -> None:
    killed, other = (job(tmp_path, *span) for span in ((0, 1), (1, 2)))
    Path(killed.made.output).mkdir()
    (Path(killed.made.output) / "statistics").touch()
    Path(f"{job(tmp_path, 2, 3).made.output}-gone").mkdir()
    (tmp_path / ".of-somebody").mkdir()
    with owned_by_schedule(other, False), owned_by_schedule(job(tmp_path, 3, 4), False):
        hidden = sorted(path.name for path in tmp_path.glob(".*") if path.is_dir())
        assert len(hidden) == 3
        assert {".of-somebody", Path(other.made.output).name} < set(hidden)


#: Of fourteen files: eight of windows, three dead letters, and accounting, fit and ledger.
@pytest.mark.parametrize("moved", [0, 3, 9, 13])
def test_a_run_that_is_killed_while_it_moves_leaves_whole_files_and_the_next_one_moves_the_rest(
    moved: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(job(tmp_path / "out", 0, 4), dict.fromkeys(range(4), 0.5))
    before = run(job(tmp_path / "out", 1, 3), {1: 0.5, 2: 0.5}, letters=1)
    own, sent = job(tmp_path / "out", 1, 3), {1: 0.1, 2: 0.9}
    after = run(job(tmp_path / "whole", 1, 3), sent, letters=3)
    move, left = scheduled._move, itertools.count()

    class Killed(BaseException): ...

    def until_then(*names: Any) -> None:
        if next(left) == moved:
            raise Killed
        move(*names)

    with monkeypatch.context() as patch:
        patch.setattr(scheduled, "_move", until_then)
        with pytest.raises(Killed):
            run(own, sent, letters=3)
    broken = contents(tmp_path / "out")
    assert set(broken) <= {*before, *after}, "nothing half done is left"
    assert all(data in (before.get(name), after.get(name)) for name, data in broken.items())
    assert f"runs/{name_of(1, 3)}/run.json" not in broken
    assert run(own, sent, letters=3) == before | after


def test_the_disk_has_every_file_that_was_moved_before_the_one_that_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moves, sync, write = storage.rename, storage.disk.sync_folder, scheduled.write_json
    # A power failure may take the names of files from a folder that was not synchronised since.
    in_danger: set[str] = set()
    left: list[set[str]] = []

    def moved(source: str, target: str) -> None:
        moves(source, target)
        in_danger.add(str(Path(target).parent))

    def synced(path: str) -> None:
        sync(path)
        in_danger.discard(path)

    def said(path: str, value: object) -> None:
        left.append({folder for folder in in_danger if "/." not in folder})
        write(path, value)

    for module in (storage, scheduled):
        monkeypatch.setattr(module, "rename", moved)
    monkeypatch.setattr(storage.disk, "sync_folder", synced)
    monkeypatch.setattr(scheduled, "write_json", said)
    run(job(tmp_path, 0, 2), {0: 0.5, 1: 0.25}, letters=1)
    assert left == [set()]


@pytest.mark.parametrize("other", [(2, 5), (0, 3)])
def test_runs_at_the_same_time_do_not_disturb_each_other(other: tuple[int, int], tmp_path: Path) -> None:
    first, sent = (0, 3), {hour: hour / 8 for hour in range(5)}

    def inside(ends: tuple[int, int]) -> Hours:
        return {hour: sent[hour] for hour in range(*ends)}

    run(job(tmp_path / "alone", *other), inside(other))
    expected = run(job(tmp_path / "alone", *first), inside(first))
    found = run(
        job(tmp_path / "out", *first),
        inside(first),
        beside=[lambda: run(job(tmp_path / "out", *other), inside(other))],
    )
    assert found == expected


def held_by_another(runs: Path) -> bool:
    """Whether a run would have to wait now before it moves its files."""
    found = []

    def ask() -> None:
        try:
            with locked(str(runs), alone=True):
                found.append(False)
        except UserError:
            found.append(True)

    other = threading.Thread(target=ask)
    other.start()
    other.join()
    return found[0]


@pytest.mark.parametrize(("module", "name"), [(scheduled, "_move"), (ownership, "_join")])
def test_one_run_at_a_time_takes_the_folder_or_moves_its_files(
    module: Any, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real: Callable[..., None] = getattr(module, name)
    held = []

    def beside(*arguments: Any) -> None:
        held.append(held_by_another(tmp_path / "runs"))
        real(*arguments)

    monkeypatch.setattr(module, name, beside)
    run(job(tmp_path, 0, 1), {0: 0.5})
    assert held and all(held)
    assert not held_by_another(tmp_path / "runs")


def test_a_folder_in_which_another_run_is_about_to_leave_its_mark_is_free(tmp_path: Path) -> None:
    (tmp_path / ".run.json.0123456789abcdef").write_bytes(b"{")
    assert of_window(0) <= set(run(job(tmp_path, 0, 1), {0: 0.5}))


def test_of_two_first_runs_with_other_inputs_the_second_is_refused(tmp_path: Path) -> None:
    run(job(tmp_path, 0, 1), {0: 0.5})
    with (
        pytest.raises(
            UserError, match="another scheduled run, of other input, began there at the same moment"
        ),
        owned(replace(job(tmp_path, 1, 2), run="run-2"), SCHEDULED_RUNS),
    ):
        pass


def test_a_span_without_a_window_has_an_accounting(tmp_path: Path) -> None:
    found = run(job(tmp_path, 8, 9), {})
    assert {name for name in found if not name.endswith(".lock")} == {"run.json", "study.json"} | of_run(8, 9)
