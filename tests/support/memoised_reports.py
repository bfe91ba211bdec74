"""Studies with a lifetime epsilon, and the reports of their clients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from ldpbeam.schemas.reports.stamps import memo_of
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.study import Study
from ldpbeam.transforms.tally import Tally
from support.tallied import tallied

START = 1_795_132_800_000  # 2026-11-20T00:00:00Z
HOUR = 3_600_000


@dataclass(frozen=True)
class Fleet:
    """A service whose clients remember their noise, at epsilon 1 a window and 2 for life.

    Attributes:
        service: what the study says of it.
        size: the number of categories; 0 for numbers in [0, 1] in 32 buckets.
        plain: the service of one window, with fresh noise.
    """

    service: str
    size: int
    plain: str

    def text(self, service: str) -> str:
        """A study of hourly windows with this service."""
        domain = f"{{categories: {self.size}}}" if self.size else "{numeric: [0, 1]}"
        return (
            f"study: s\nattributes:\n  x:\n    domain: {domain}\n    buckets: 32\n    services:\n"
            f"      app: {{{service}}}\nwindows: {{size: 1h}}\n"
        )

    @property
    def study(self) -> Study:
        """The study of the fleet."""
        return parse_study(self.text(self.service))

    def payloads(self, values: NDArray[Any], rng: Generator) -> NDArray[Any]:
        """Reports of values of shape (people, windows), each person with a device key; of the same shape."""
        memo = memo_of(self.study, self.study.attribute("x"), 0)
        people, windows = values.shape
        keys = [key for key in (rng.bytes(16) for _ in range(people)) for _ in range(windows)]
        return memo.perturb(keys, values.ravel(), rng).reshape(values.shape)

    def tally(self, service: str, payloads: NDArray[Any]) -> Tally:
        """What the pipeline makes of reports of shape (people, windows): one person has one in each."""
        people, windows = payloads.shape
        table = {
            "user_id": np.repeat([f"u{i}" for i in range(people)], windows),
            "event_time": np.tile(START + np.arange(windows) * HOUR, people),
            "payload": payloads.ravel(),
        }
        return tallied(self.text(service), table)


BOTH = "epsilon: 1, lifetime_epsilon: 2"
FLEETS = {
    **{
        name: Fleet(f"mechanism: {name}, {BOTH}", 8, f"mechanism: {name}, epsilon: 1")
        for name in ("grr", "oue", "sue", "olh")
    },
    # The epsilon that a window of the published constants has, from the product of both steps.
    "published grr": Fleet(
        f"mechanism: grr, {BOTH}, as_published: true", 8, "mechanism: grr, epsilon: 0.7553334797859773"
    ),
    "published olh": Fleet(
        f"mechanism: olh, {BOTH}, as_published: true",
        8,
        "mechanism: olh, epsilon: 0.94800108431307, hashes: 3, seeds: any, hashed: text",
    ),
    "stochastic_rounding": Fleet(
        f"mechanism: stochastic_rounding, {BOTH}", 0, "mechanism: stochastic_rounding, epsilon: 1"
    ),
    "square_wave": Fleet(
        f"mechanism: square_wave, {BOTH}, memo_buckets: 1024",
        0,
        "mechanism: general_wave, epsilon: 1, top: 1, half_width: 0.1293370667457663",
    ),
    "piecewise": Fleet(
        f"mechanism: piecewise, {BOTH}, memo_buckets: 1024",
        0,
        "mechanism: general_wave, epsilon: 1, top: 1, half_width: 0.18393972058572117",
    ),
}
