"""Write the section of docs/speed.md on scale: what a billion users a day would take.

    python -m benchmarks.scale [--write docs/speed.md]     measure, then compute
    python -m benchmarks.scale --measured docs/speed.md    compute again from what that page was made of

Times are of the processor, the best of three, in processes held to one core. Nothing runs on a cloud.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.pages import renew
from benchmarks.scale.measured import measured_in
from benchmarks.scale.measuring.processes import measure_all
from benchmarks.scale.page import page


def main() -> None:
    """Measure, or take what was measured, and compute."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--measured", type=Path, help="a page whose constants are used again")
    parser.add_argument("--write", type=Path, help="write the page here too")
    options = parser.parse_args()
    measured = (
        measured_in(options.measured.read_text(encoding="utf-8")) if options.measured else measure_all()
    )
    renew(page(measured).splitlines(), options.write)


if __name__ == "__main__":
    main()
