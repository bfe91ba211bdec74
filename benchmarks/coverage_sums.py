"""Sums over the runs of each cell of the coverage, and the file that keeps them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import astuple, dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Sums:
    """Sums over runs.

    Attributes:
        runs: how many.
        held: of the shares of intervals that hold the truth.
        squares: of their squares.
        width: of the mean widths.
    """

    runs: int = 0
    held: float = 0.0
    squares: float = 0.0
    width: float = 0.0

    def __add__(self, other: Sums) -> Sums:
        return Sums(*(one + two for one, two in zip(astuple(self), astuple(other), strict=True)))


@dataclass(frozen=True)
class Runs:
    """The runs of a cell, which are numbered from zero.

    Attributes:
        runs: how many.
        seconds: of the processor for estimates and intervals, in all.
        clear: by kind of number, of the runs whose intervals carry no flag.
        flagged: by kind of number, of the others.
        first: the sum of the shares held and of the widths of the first run, plus one for each flag.
    """

    runs: int = 0
    seconds: float = 0.0
    clear: Mapping[str, Sums] = field(default_factory=dict)
    flagged: Mapping[str, Sums] = field(default_factory=dict)
    first: float = 0.0

    def __add__(self, other: Runs) -> Runs:
        return Runs(
            self.runs + other.runs,
            self.seconds + other.seconds,
            _added(self.clear, other.clear),
            _added(self.flagged, other.flagged),
            self.first if self.runs else other.first,
        )


def _added(one: Mapping[str, Sums], other: Mapping[str, Sums]) -> Mapping[str, Sums]:
    return {kind: one.get(kind, Sums()) + other.get(kind, Sums()) for kind in {**one, **other}}


def read(path: Path) -> dict[str, Runs]:
    """The runs of each cell, from a file; none if there is no file."""
    results = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        fields = json.loads(line)
        clear, flagged = (
            {kind: Sums(*numbers) for kind, numbers in fields[part].items()} for part in ("clear", "flagged")
        )
        results[fields["cell"]] = Runs(fields["runs"], fields["seconds"], clear, flagged, fields["first"])
    return results


def write(path: Path, results: Mapping[str, Runs]) -> None:
    """Write the runs of each cell."""
    lines = []
    for name, own in sorted(results.items()):
        clear, flagged = (
            {kind: [round(number, 6) for number in astuple(of)] for kind, of in part.items()}
            for part in (own.clear, own.flagged)
        )
        fields = {"cell": name, "runs": own.runs, "seconds": round(own.seconds, 3), "first": own.first}
        lines.append(json.dumps(fields | {"clear": clear, "flagged": flagged}) + "\n")
    # A run that is stopped leaves the old file or the new one.
    new = path.with_suffix(".new")
    new.write_text("".join(lines))
    new.replace(path)
