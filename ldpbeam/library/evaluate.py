"""``ldpbeam.evaluate``: the accuracy of mechanisms and estimators on simulated people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ldpbeam.charts.figures import COLOURS, theme
from ldpbeam.clients.values import scaled_values
from ldpbeam.library.needed import needed
from ldpbeam.study import Study
from ldpbeam.trials.evaluation import attribute_in, evaluation, run, summarised

if TYPE_CHECKING:
    import altair
    import pandas


@dataclass(frozen=True)
class Evaluated:
    """The errors of an evaluation.

    Attributes:
        rows: for each population, mechanism, epsilon, number of people, estimate and kind of error, the
            ``average`` of the absolute error over the trials, and its ``standard_error`` (None for one
            trial).
    """

    rows: tuple[Mapping[str, Any], ...]

    def to_arrow(self) -> pa.Table:
        """The rows as a table."""
        return pa.Table.from_pylist([dict(row) for row in self.rows])

    def to_pandas(self) -> pandas.DataFrame:
        """:meth:`to_arrow` as a pandas data frame.

        Raises:
            ImportError: if pandas is not installed.
        """
        needed("pandas")
        return self.to_arrow().to_pandas()

    def plot(self) -> altair.VConcatChart:
        """A chart of each kind of error; needs the extra ``[report]``."""
        import altair as alt

        return alt.vconcat(*charts_of(self.rows).values()).configure(**theme())


def evaluate(
    study: Study,
    attribute: str | None = None,
    *,
    mechanisms: Sequence[str] = (),
    estimators: Sequence[str] = (),
    epsilons: Sequence[float] = (),
    users: Sequence[int] = (10_000,),
    populations: Sequence[str] = (),
    values: Any = None,
    trials: int = 5,
    seed: int = 0,
    processes: int = 1,
) -> Evaluated:
    """The errors of mechanisms and estimators, as by ``ldpbeam evaluate``.

    Args:
        study: the study.
        attribute: the attribute; by default the study's, if it has only one.
        mechanisms: the mechanisms to try for all services, with fresh noise; by default the study's.
        estimators: the estimators to use instead of the study's estimates.
        epsilons: the epsilons to try for all services; by default the study's.
        users: the numbers of people to try.
        populations: names of populations; by default all of them, or none if ``values`` are given.
        values: values of people to draw from with replacement, as for :meth:`ldpbeam.Client.reports`.
        trials: the number of trials of each combination.
        seed: the first seed of people and reports.
        processes: the number of processes. If there are several, they do not know mechanisms and estimators
            that a notebook registered.

    Raises:
        ValueError: if the study, or its attribute, does not allow what is asked.
    """
    name = attribute_in(study, attribute)
    wanted = evaluation(
        study,
        name,
        populations=populations,
        values=None if values is None else scaled_values(study.attribute(name), values, clip=True),
        epsilons=epsilons,
        users=users,
        seeds=range(seed, seed + trials),
        mechanisms=mechanisms,
        estimators=estimators,
    )
    return Evaluated(tuple(summarised(wanted, run(wanted, processes))))


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
    "conditional_shares": "mean absolute error of the conditional shares",
    "correlation": "absolute error of the correlation",
}


def charts_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, altair.FacetChart]:
    """A chart of each kind of error.

    A line per mechanism and estimate shows the error over epsilon, or over the number of people if there is
    only one epsilon, with bars of one standard error to each side. Populations are side by side, and numbers
    of people below each other.

    Args:
        rows: the rows of :func:`~ldpbeam.trials.evaluation.summarised`.
    """
    import altair as alt

    several = len({row["mechanism"] for row in rows}) > 1
    over, other = ("epsilon", "users") if len({row["epsilon"] for row in rows}) > 1 else ("users", None)
    charts = {}
    for kind in dict.fromkeys(row["error"] for row in rows):
        chosen = [
            {
                **row,
                "of": f"{row['mechanism']}, {row['estimate']}" if several else row["estimate"],
                # A logarithmic axis has no zero.
                "low": max(row["average"] - (row["standard_error"] or 0.0), row["average"] / 10.0),
                "high": row["average"] + (row["standard_error"] or 0.0),
            }
            for row in rows
            if row["error"] == kind and row["average"] > 0
        ]
        if not chosen:
            continue
        named = alt.Scale(domain=list(dict.fromkeys(row["of"] for row in chosen)), range=COLOURS)
        shown = alt.Chart(alt.InlineData(values=chosen)).encode(
            x=alt.X(f"{over}:Q", scale=alt.Scale(type="log", nice=False), title=over),
            color=alt.Color("of:N", title=None, scale=named),
        )
        axis = alt.Y("average:Q", scale=alt.Scale(type="log"), title=TITLES.get(kind, kind))
        shape = alt.Shape("of:N", title=None, scale=alt.Scale(domain=named.domain))
        line, bars = shown.mark_line().encode(y=axis), shown.mark_rule().encode(y="low:Q", y2="high:Q")
        spread: dict[str, Any] = {"column": alt.Column("population:N", title=None)}
        if other is not None:
            spread["row"] = alt.Row(f"{other}:Q", title="people")
        layers = line + bars + shown.mark_point(filled=True).encode(y=axis, shape=shape)
        charts[kind] = layers.properties(width=320, height=220).facet(**spread)
    return charts
