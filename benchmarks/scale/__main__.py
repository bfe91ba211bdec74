"""What a billion users a day would take: measured on one core, and computed from that.

    python -m benchmarks.scale [--write docs/measured]                            measure, then compute
    python -m benchmarks.scale --measured docs/measured/scale.json [--write ...]  compute again

Times are of the processor, the best of three, in processes held to one core. Nothing runs on a cloud.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.pages import HELP, show
from benchmarks.scale.measured import kept, measured_in
from benchmarks.scale.measuring.processes import measure_all
from benchmarks.scale.tables import tables


def main() -> None:
    """Measure, or take what was measured, and compute."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--measured", type=Path, help="a file whose constants are used again")
    parser.add_argument("--write", type=Path, help=HELP)
    options = parser.parse_args()
    measured = (
        measured_in(options.measured.read_text(encoding="utf-8")) if options.measured else measure_all()
    )
    show(tables(measured), options.write)
    if options.write:
        (options.write / "scale.json").write_text(kept(measured), encoding="utf-8")


if __name__ == "__main__":
    main()
