"""The picture of docs/formulas.md: four populations, `auto`'s curve of their reports, and its 95% band.

    python -m benchmarks.densities [--write docs/images/density.png]

Reports are of SW at epsilon 2 by 50,000 people each, of the reporting half of the grid.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import altair as alt
import numpy as np
import vl_convert

from benchmarks.coverage import SHAPES
from ldpbeam import Answers, Attribute, Numeric, ServiceVersion, build_mechanism, tally
from ldpbeam.estimators import estimate
from ldpbeam.intervals import WantedIntervals
from ldpbeam.intervals.computing import StatisticIntervals

PEOPLE, EPSILON, BUCKETS = 50_000, 2.0, 256
CHOSEN = ("gap", "poles", "edge", "humps")
#: Densities above this are cut off.
HIGHEST = 6.0


def panel(name: str) -> alt.LayerChart:
    """The curve of one population."""
    rng, domain = np.random.default_rng(1), Numeric(0.0, 1.0)
    values = SHAPES[name](PEOPLE, rng)
    version = ServiceVersion("s", "", build_mechanism("square_wave", domain, EPSILON))
    attribute = Attribute("x", domain, BUCKETS, (version,))
    rows = np.arange(PEOPLE)
    statistic = tally(attribute, PEOPLE, [Answers(0, rows, version.mechanism.perturb(values, rng))])
    found = estimate("auto", attribute, statistic)
    told = (
        StatisticIntervals(attribute, statistic).of(found, WantedIntervals()).of("distribution", "if_smooth")
    )
    assert found.distribution is not None and told is not None
    # 64 steps are what one can see.
    truth = domain.histogram(values, 64) / PEOPLE * 64
    columns = np.column_stack((found.distribution, told)) * BUCKETS
    curve = [
        {"x": x, "density": d, "low": low, "high": high}
        for x, (d, low, high) in zip((np.arange(BUCKETS) + 0.5) / BUCKETS, columns.tolist(), strict=True)
    ]
    people = [{"x": place / 64, "people": share} for place, share in enumerate([*truth, truth[-1]])]
    x = alt.X("x:Q", title=None, scale=alt.Scale(domain=[0, 1]))
    scale = alt.Scale(domain=[0, min(HIGHEST, 1.1 * float(columns.max()))], clamp=True)
    base, shown = alt.Chart(alt.InlineData(curve)), alt.Chart(alt.InlineData(people))
    return alt.layer(
        base.mark_area(opacity=0.25, color="#2a78d6").encode(
            x=x, y=alt.Y("low:Q", title="density", scale=scale), y2="high:Q"
        ),
        shown.mark_line(interpolate="step-after", color="#888", strokeWidth=1).encode(x=x, y="people:Q"),
        base.mark_line(color="#2a78d6", strokeWidth=1.75).encode(x=x, y="density:Q"),
    ).properties(width=330, height=170, title=name)


def main() -> None:
    """Draw the picture."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write", type=Path, default=Path("docs/images/density.png"))
    options = parser.parse_args()
    chart = alt.concat(*map(panel, CHOSEN), columns=2)
    options.write.write_bytes(vl_convert.vegalite_to_png(chart.to_json(), scale=1.5))


if __name__ == "__main__":
    main()
