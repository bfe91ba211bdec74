"""All estimates of a run: computed, and written."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from ldpbeam.answers.alarms import in_order
from ldpbeam.answers.costs import slow_parts
from ldpbeam.answers.published import Least, Size, chosen, size_of, smallest
from ldpbeam.answers.solve import sort_key
from ldpbeam.folders.output import ESTIMATES, Output
from ldpbeam.folders.read import earlier_in
from ldpbeam.folders.written import snapshot_counts, windows_of
from ldpbeam.pipelines.estimates.processes import compute_all
from ldpbeam.printing import note, progress_bar
from ldpbeam.schemas.outputs.estimates import write_json_lines
from ldpbeam.schemas.outputs.records import EstimateRecord
from ldpbeam.schemas.outputs.snapshots import Snapshot
from ldpbeam.study import Study
from ldpbeam.transforms.candidates import check_tables
from ldpbeam.transforms.outputs.estimates import write_run_tables
from ldpbeam.transforms.reports.counts import WITHOUT_NAMES
from ldpbeam.transforms.storage import replacing
from ldpbeam.windows import times_of
from ldpbeam.words import first_ones

#: What is given the snapshots of a window.
Look = Callable[[list[Snapshot]], None]


def check_work(study: Study) -> None:
    """Before any work, say which parts of a study take long, and check its tables of candidates.

    Raises:
        UserError: if one cannot be read.
    """
    for sentence in slow_parts(study):
        note(sentence)
    check_tables(study)


def _ignore(_: list[Snapshot]) -> None:
    """Look at nothing."""


def estimate_all(
    job: Output, processes: int | None = None, shared: str = "", look: Look = _ignore
) -> tuple[list[EstimateRecord], dict[str, int]]:
    """(every estimate of the run, in the order of :func:`sort_key`; counts of what is not estimated).

    Args:
        job: the run; its snapshots are written.
        processes: how many processes compute them here; None for as many as there are cores.
        shared: the folder that the run shares, with earlier windows for alarms; empty if it shares none.
        look: is given the snapshots of each attribute and window once, as they are read here.

    Raises:
        UserError: if a process was killed.
    """
    counts: Counter[str] = Counter()
    estimates = _computed(job, _looked_at(windows_of(job), look), processes, counts)
    estimates.sort(key=lambda record: sort_key(job.study, record))
    earlier = earlier_in(shared, job.study.name) if shared else None
    slides = job.study.windows is not None and job.study.windows.slides
    estimates = in_order(estimates, slides=slides, earlier=earlier, clock=job.study.local)
    return [replace(record, run=job.run) for record in estimates], {**+counts}


def write_estimates(job: Output, estimates: Sequence[EstimateRecord]) -> None:
    """Write the estimates of a run: JSON lines, and two tables in Parquet."""
    with replacing(job.path(f"{ESTIMATES}.jsonl")) as stream:
        write_json_lines(stream, estimates)
    write_run_tables(job.output, estimates)


def _looked_at(windows: Iterable[list[Snapshot]], look: Look) -> Iterator[list[Snapshot]]:
    for snapshots in windows:
        look(snapshots)
        yield snapshots


def _computed(
    job: Output, windows: Iterable[list[Snapshot]], processes: int | None, counts: Counter[str]
) -> list[EstimateRecord]:
    study, least = job.study, dict[str, Least]()
    if sum(snapshots for _, snapshots in snapshot_counts(job)) > study.publish.windows:
        sizes: dict[str, list[Size]] = {}
        for snapshots in windows_of(job):
            sizes.setdefault(snapshots[0].attribute, []).append(size_of(snapshots))
        least = smallest(study, sizes)

    @functools.cache
    def total() -> int:
        """An upper bound of the number of estimates: it counts those that are not computed, too."""
        return sum(
            snapshots * len(study.described(attribute).estimates)
            for attribute, snapshots in snapshot_counts(job)
        )

    nameless: list[str] = []

    def estimated() -> Iterator[Snapshot]:
        for snapshots in windows:
            picked = chosen(study, snapshots, least)
            counts.update(picked.counts)
            if picked.counts.get(WITHOUT_NAMES):
                nameless.append(f"{snapshots[0].attribute} {times_of(snapshots[0].window)}")
            yield from picked.snapshots

    with progress_bar("estimates", total) as show:
        estimates = compute_all(study, estimated(), total, processes, show)
    if nameless:
        note(f"no names in the study's candidates for {first_ones(nameless)}")
    return estimates
