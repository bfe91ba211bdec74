"""Faults that the run could have; the simulation must find each of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

from pytest import MonkeyPatch

from ldpbeam.pipelines.spool import manifest, run
from ldpbeam.pipelines.spool.open_windows import OpenWindows
from ldpbeam.transforms import segments
from ldpbeam.transforms.segments import Stored
from ldpbeam.transforms.sources.watermarks import Watermarks
from simulation.day import simulate
from simulation.disk import UnsafeDisk


def _not_synced(module: ModuleType) -> Callable[[MonkeyPatch], None]:
    def mutate(patch: MonkeyPatch) -> None:
        patch.setattr(module, "replacing", partial(_replacing, module.replacing))

    return mutate


def _replacing(replacing: Callable[..., Any], path: str, **options: Any) -> Any:
    return replacing(path, **options | {"durable": False})


def _names_are_not_synced(patch: MonkeyPatch) -> None:
    patch.setattr(UnsafeDisk, "sync_folder", lambda self, path: None)


def _acknowledged_before_the_manifest(patch: MonkeyPatch) -> None:
    commit = run.Run.commit

    def acknowledged_first(self: run.Run, **options: Any) -> None:
        self.feed.position()
        self.feed.commit()
        commit(self, **options)

    patch.setattr(run.Run, "commit", acknowledged_first)


def _deleted_before_the_manifest(patch: MonkeyPatch) -> None:
    write = run.write_manifest

    def deleted_first(folder: str, new: manifest.Manifest) -> None:
        unsolved = {Stored(*pane[4]).segment for pane in new.unsolved}
        segments.delete_others(folder, {each[0] for each in new.segments}, unsolved)
        write(folder, new)

    patch.setattr(run, "write_manifest", deleted_first)


def _a_number_of_dead_letters_twice(patch: MonkeyPatch) -> None:
    write = run.write_letters
    patch.setattr(
        run, "write_letters", lambda folder, number, letters: write(folder, number // 2 * 2, letters)
    )


def _the_watermark_begins_anew(patch: MonkeyPatch) -> None:
    patch.setattr(run, "Watermarks", lambda disorder, now, _, clock: Watermarks(disorder, now, None, clock))


def _a_pane_has_the_number_of_the_one_before(patch: MonkeyPatch) -> None:
    fire = OpenWindows.fire

    def fired(self: OpenWindows, key: Any, timing: str, *, complete: bool) -> Any:
        panes = fire(self, key, timing, complete=complete)
        self.windows[key].panes = min(self.windows[key].panes, 1)
        return panes

    patch.setattr(OpenWindows, "fire", fired)


MUTATIONS: dict[str, Callable[[MonkeyPatch], None]] = {
    "segments are not synced": _not_synced(segments),
    "the manifest is not synced": _not_synced(manifest),
    "names are not synced": _names_are_not_synced,
    "acknowledged before the manifest": _acknowledged_before_the_manifest,
    "deleted before the manifest": _deleted_before_the_manifest,
    "a number of dead letters twice": _a_number_of_dead_letters_twice,
    "the watermark begins anew": _the_watermark_begins_anew,
    "a pane has the number of the one before": _a_pane_has_the_number_of_the_one_before,
}


def found_at(mutation: str, seeds: int) -> int | None:
    """The first of some seeds at which a run with a mutation says something else; None if none does."""
    with MonkeyPatch.context() as patch:
        MUTATIONS[mutation](patch)
        for seed in range(seeds):
            try:
                simulate(seed, Counter())
            except Exception:
                return seed
    return None
