"""From snapshots to all estimates that a study asks for, in this process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ldpbeam.answers.alarms import in_order
from ldpbeam.answers.child import one_blas_thread
from ldpbeam.answers.published import Size, chosen, size_of, smallest
from ldpbeam.answers.solve import solve, sort_key
from ldpbeam.schemas.outputs.records import EstimateRecord
from ldpbeam.schemas.outputs.snapshots import Snapshot
from ldpbeam.study import Study
from ldpbeam.windows import Bounds


def solved(study: Study, snapshots: Sequence[Snapshot]) -> tuple[list[EstimateRecord], Counter[str]]:
    """(the estimates of some snapshots, in the order of the study; counts of what is not estimated)."""
    windows: dict[tuple[str, Bounds | None], list[Snapshot]] = {}
    sizes: dict[str, list[Size]] = {}
    counts: Counter[str] = Counter()
    for snapshot in snapshots:
        windows.setdefault((snapshot.attribute, snapshot.window), []).append(snapshot)
    for (name, _), of_window in windows.items():
        sizes.setdefault(name, []).append(size_of(of_window))
    least, estimated = smallest(study, sizes), list[Snapshot]()
    for of_window in windows.values():
        picked = chosen(study, of_window, least)
        counts.update(picked.counts)
        estimated += picked.snapshots
    with one_blas_thread():
        estimates = [record for snapshot in estimated for record in solve(study, snapshot)]
    estimates.sort(key=lambda record: sort_key(study, record))
    slides = study.windows is not None and study.windows.slides
    return in_order(estimates, slides=slides, clock=study.local), counts
