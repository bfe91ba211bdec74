"""The charts of estimates, which are those of the page of a run."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

import altair as alt

from ldpbeam.answers.partial import with_partial
from ldpbeam.cells import Clock
from ldpbeam.charts.attribute import figures_of
from ldpbeam.charts.figures import theme
from ldpbeam.charts.subject import Subject
from ldpbeam.charts.texts import safe
from ldpbeam.schemas.outputs.records import EstimateRecord

#: The width of a figure in pixels.
_WIDTH = 760
#: Text that ends a script element, or starts a comment or a script in it: Altair does not
#: escape a chart that it writes into one.
_OF_SCRIPTS = re.compile("<(?=[!/s])", re.IGNORECASE)


def chart(
    estimates: Sequence[EstimateRecord], clock: Clock | None = None, events: Mapping[str, int] | None = None
) -> alt.VConcatChart:
    """The figures of estimates, one below the other.

    Args:
        estimates: the estimates.
        clock: the clock by which charts show times; None for UTC.
        events: times to mark, by name, in epoch milliseconds.

    Raises:
        ValueError: if no estimate has anything to show.
    """
    marked = with_partial(estimates)
    figures = [
        figure.chart(_WIDTH).properties(title=figure.title)
        for name in dict.fromkeys(record.attribute for record in marked)
        for figure in figures_of(
            Subject(name, [r for r in marked if r.attribute == name], clock, events or {})
        )
    ]
    if not figures:
        raise ValueError("there is nothing to show: no estimate has a distribution, frequencies or a mean")
    whole = alt.vconcat(*figures).resolve_scale(color="independent", shape="independent")
    spelled = json.dumps(safe({**whole.to_dict(validate=False), "config": theme()}))
    # A word joiner has no width, so a reader sees the same text.
    return alt.VConcatChart.from_json(_OF_SCRIPTS.sub("<\u2060", spelled), validate=False)
