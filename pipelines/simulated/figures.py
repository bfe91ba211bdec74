"""Figures of an evaluation: one for each kind of error, as SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ldpbeam.pipelines.errors import UserError

#: The title of an axis, by the kind of error.
TITLES = {
    "wasserstein": "W1 (Wasserstein distance)",
    "kolmogorov_smirnov": "KS (Kolmogorov-Smirnov distance)",
    "jensen_shannon": "square root of the Jensen-Shannon divergence",
    "mean_absolute_error": "mean absolute error of the shares",
    "mean_squared_error": "mean squared error of the shares",
    "uniform_guess": "mean absolute error of the uniform guess",
    "key_mean_error": "mean absolute error of the key means",
    "key_mean_squared_error": "mean squared error of the key means",
    "mean": "absolute error of the mean",
    "variance": "absolute error of the variance",
    "quantiles": "mean absolute error of the quantiles",
}


def check_figures() -> None:
    """Check that figures can be drawn, before anything is computed.

    Raises:
        UserError: if the extra ``report`` is not installed; it says how to install it.
    """
    try:
        import altair  # noqa: F401
        import vl_convert  # noqa: F401
    except ImportError as error:
        raise UserError(
            f"figures need {error.name}: pip install 'ldpbeam[report]', or give --no-figures"
        ) from None


def draw_figures(rows: Sequence[Mapping[str, Any]], folder: Path) -> list[Path]:
    """Draw the rows of the table, and give the files.

    The error is a line per estimate over epsilon, or over the number of people where there is one epsilon
    only. Populations stand side by side, and numbers of people below each other.

    Args:
        rows: as of :func:`~ldpbeam.pipelines.simulated.evaluation.summarised`.
        folder: where ``KIND.svg`` is written for each kind of error.
    """
    import altair as alt

    epsilons = {row["epsilon"] for row in rows}
    over, other = ("epsilon", "users") if len(epsilons) > 1 else ("users", None)
    written = []
    for kind in dict.fromkeys(row["error"] for row in rows):
        chosen = [dict(row) for row in rows if row["error"] == kind and row["mean"] > 0]
        if not chosen:
            continue
        estimates = alt.Scale(domain=list(dict.fromkeys(row["estimate"] for row in chosen)))
        data = alt.InlineData(values=chosen)
        shown = alt.Chart(data).encode(
            x=alt.X(f"{over}:Q", scale=alt.Scale(type="log", nice=False), title=over),
            y=alt.Y("mean:Q", scale=alt.Scale(type="log"), title=TITLES.get(kind, kind)),
            color=alt.Color("estimate:N", title="estimate", scale=estimates),
            shape=alt.Shape("estimate:N", title="estimate", scale=estimates),
        )
        spread: dict[str, Any] = {"column": alt.Column("population:N", title=None)}
        if other is not None:
            spread["row"] = alt.Row(f"{other}:Q", title="people")
        chart = (shown.mark_line() + shown.mark_point(filled=True)).properties(width=320, height=220)
        path = folder / f"{kind}.svg"
        chart.facet(**spread).save(path)
        written.append(path)
    return written
