"""Statistics of many bundles merged by one worker, those of panes added up, and their sizes."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from benchmarks.scale.measuring.meter import forget_peak, resident, spent
from benchmarks.scale.measuring.reports import statistic_of
from benchmarks.scale.setting import shard_reports, study_of
from ldpbeam.schemas.outputs.snapshots import decode_statistic, encode_statistic
from ldpbeam.transforms.windows.coders import AccumulatorCoder, CombineGroups
from ldpbeam.transforms.windows.groups import GroupStatistics
from ldpbeam.transforms.windows.piece_keys import GroupKey


def measure(folder: Path) -> dict[str, Any]:
    """Statistics of many bundles merged by one worker, those of panes added up, and their sizes."""
    study, merged, users = study_of(2), 400, shard_reports(32) // 2
    data = encode_statistic(statistic_of(study, users))
    combine, coder = CombineGroups(), AccumulatorCoder()
    gained = GroupStatistics({GroupKey("minutes", None): decode_statistic(data)})
    held = coder.encode([gained])

    def merge_all() -> None:
        combine.merge_accumulators(coder.decode(held) for _ in range(merged))

    before = resident()
    forget_peak()
    merge_all()
    most, sizes = resident(peak=True) - before, {}
    for services in (1, 2, 3):
        for buckets in (64, 256, 1024):
            own = study_of(services, buckets)
            attribute = own.attribute("minutes")
            cells = 8 * sum(v.mechanism.histogram_cells(attribute.buckets) for v in attribute.versions)
            cells += 16 * math.prod(attribute.joint_shape) * bool(attribute.joint_services)
            sizes[f"{services} {buckets}"] = [len(encode_statistic(statistic_of(own, users))), int(cells)]
    return {
        "merge": spent(merge_all) / merged,
        "merge_memory": most / (merged * len(data)),
        "gain": spent(lambda: coder.encode(combine.add_input(coder.decode(held), gained))),
        "statistics": sizes,
    }
