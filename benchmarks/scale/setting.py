"""What is measured and computed alike: the study, its shards, the sizes of keys and messages."""

from __future__ import annotations

import math

from ldpbeam.pipelines.graphs import batch
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.study import Study

HOUR, DAY = 3_600_000, 86_400_000
SERVICES = ("square_wave, epsilon: 1.0", "piecewise, epsilon: 0.5", "square_wave, epsilon: 0.5")
#: Bytes of a user's key, and of a report id.
KEY_WIDTH = 16
#: Reports in a message that has many.
MESSAGE_REPORTS = 1_000
#: Seconds of a stream in a bundle.
BUNDLE_SECONDS = 0.5


def study_of(services: int, buckets: int = 256, window: str = "1d") -> Study:
    """A number told to some services, joined where they are several."""
    named = "".join(f"      s{n}: {{mechanism: {text}}}\n" for n, text in enumerate(SERVICES[:services]))
    return parse_study(
        f"study: scale\nattributes:\n  minutes:\n    domain: {{numeric: [0, 180]}}\n    buckets: {buckets}\n"
        f"    services:\n{named}    estimates:\n      e: {{estimator: {'ule' if services > 1 else 'ems'}}}\n"
        f"windows: {{size: {window}}}\n"
    )


def shard_reports(avro: float) -> int:
    """The reports of a shard of the size that bounded runs intend."""
    return int(batch.SHARD_BYTES / avro)


def filled(slots: float, rows: float) -> float:
    """How many of some slots have a row, when rows fall evenly at random."""
    return slots * -math.expm1(rows * math.log1p(-1 / slots)) if slots > 1 else 1.0
