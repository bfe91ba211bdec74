"""Renew the tables of docs/{measured,held_out,published}.md from the CSV files of docs/measured.

python -m benchmarks.measured
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks.pages import SUFFIXES

DOCS = Path(__file__).parents[1] / "docs"
PAGES = (DOCS / "measured.md", DOCS / "held_out.md", DOCS / "published.md")
_HELD_OUT_EPSILONS = ("epsilon 0.5", "epsilon 1", "epsilon 2", "epsilon 4")
#: The columns that are shown of a file, all for none, and of which rows: those whose cells are among these.
TABLES: Mapping[str, tuple[tuple[str, ...], Mapping[str, tuple[str, ...]]]] = {
    "grid_auto": (
        ("cells of", "cells", "geometric mean", "cells above 1.20", "beyond noise"),
        {
            "cells of": (
                "all",
                "SW",
                "PM",
                "GRR",
                "OLH",
                "ULE",
                "n = 1,000",
                "n = 1,000,000",
                "epsilon 0.3",
                "epsilon 3",
            )
        },
    ),
    "grid_fixed": (
        ("method", "all its cells", "SW", "PM", "GRR", "OLH", "ULE"),
        {
            "method": (
                "ule",
                "released ULE (Distribution_ULE)",
                "mr, pool, keep 0.01",
                "released SW-EMS (LDP-EM-MR)",
                "released PM-EMS (LDP-EM-MR)",
                "iiw, not corrected",
            )
        },
    ),
    "grid_other_losses": (
        ("cells of", "cells", "KS", "5% and 95% quantile", "squared error of shares"),
        {"cells of": ("all", "SW", "PM", "ULE")},
    ),
    "held_out": (
        ("cells of", "cells", "seeds", "geometric mean", "cells above 1.20", "beyond noise"),
        {"cells of": ("all", "SW", "PM", "GRR", "OLH", "ULE", *_HELD_OUT_EPSILONS)},
    ),
    "held_out_fixed": (
        ("method", "all its cells", "SW", "PM", "GRR", "OLH", "ULE"),
        {"method": ("ems", "ems, accelerated", "em", "inversion", "norm_sub", "ule", "mr, halving")},
    ),
    "held_out_other_losses": (
        ("cells of", "cells", "KS", "5% and 95% quantile", "squared error of shares"),
        {"cells of": ("all", "SW", "PM", "GRR", "OLH", "ULE", *_HELD_OUT_EPSILONS)},
    ),
    "coverage_held_out": (
        ("of", "number", "interval", "runs", "held", "held by the worst", "width"),
        {"number": ("mean", "quantiles", "ranges", "values of 2%", "all of these")},
    ),
    "coverage": (
        ("of", "number", "interval", "runs", "held"),
        {"number": ("quantiles", "ranges", "values of 2%", "all of these")},
    ),
    "if_smooth": (
        ("people", "number", "held", "held by the worst", "width"),
        {"number": ("quantiles", "ranges"), "interval": ("if smooth",)},
    ),
    "sweep": (
        ("number", "interval", "studies", "intervals", "held", "below 0.8", "held by the worst"),
        {"interval": ("certain", "if smooth")},
    ),
    "any_look": (
        ("what", "mechanism", "excluded", "excluded by one look's", "width"),
        {
            "reports a look": ("500", "500 and 500"),
            "any_look": ("15000",),
            "mechanism": ("square_wave", "grr"),
        },
    ),
    "alarms": ((), {}),
    "accuracy_distribution": (
        ("epsilon of SR, PM, SW", "estimator", "sqrt-JS", "W1", "released code: JS (W1)"),
        {"epsilon of SR, PM, SW": ("0.3, 0.3, 0.3",)},
    ),
    "accuracy_mean": (
        ("epsilon of SR, Laplace, PM, SW", "estimator", "MSE", "released code"),
        {"epsilon of SR, Laplace, PM, SW": ("0.2, 0.4, 0.1, 0.3",)},
    ),
    "accuracy_privkv_frequencies": (
        ("population", "PrivKV-EM", "PrivKV", "PrivKVM", "exact mle"),
        {"epsilon": ("1.0",)},
    ),
    "fit_wrong": (
        ("what is wrong", "3,000", "10,000", "30,000", "100,000"),
        {
            "what is wrong": (
                "SW of epsilon 0.9",
                "OLH of epsilon 0.9, 50 categories",
                "OLH of epsilon 1.2, 50 categories",
                "2% of SW send one fixed report",
                "SW clients send true values",
                "different people: SW and PM",
                "5% of OLH support one category of 50",
            )
        },
    ),
    "fit_streams": (("services", "median", "largest"), {}),
    "fake_users_worst": (
        ("mechanism", "estimator", "1%", "5%", "worst at 5%", "5%, unseen", "5% at most"),
        {"mechanism": ("grr", "olh", "oue", "pckv_ue", "square_wave", "laplace", "gaussian")},
    ),
    "liars": ((), {}),
    "liars_certain": ((), {"fake": ("0.01", "0.05"), "mechanism": ("square_wave",)}),
    "memoised_joined_day": (
        ("mechanism", "remember", "number", "population", "rolled up", "wider than independent"),
        {
            "people": ("2000",),
            "epsilons": ("2, 1",),
            "values": ("one value",),
            "remember": ("all", "none"),
            "number": ("shares", "mean"),
            "mechanism": ("grr", "oue", "square_wave"),
        },
    ),
    "memoised_wrong_fleets": (
        ("clients", "mechanism", "500", "2,000", "10,000", "50,000"),
        {"windows": ("8",), "clients": ("fresh noise, study: remembered", "remembered noise, study: fresh")},
    ),
    "memoised_differences": (
        ("noise", "values", "by user", "width", "added", "published"),
        {
            "mechanism": ("grr",),
            "epsilons": ("6, 4",),
            "people": ("the same",),
            "values": ("one value", "another value", "two that alternate"),
        },
    ),
    "speed": (
        ("what", "beside", "wanted", "clock", "processors", "memory"),
        {
            "what": (
                "3,030,000 reports, Parquet, ids of 16 bytes",
                "3,030,000 reports, Parquet, UUIDs as text",
                "3,030,000 reports, Parquet, ids like e-mail addresses",
                "3,030,000 reports, Avro, ids of 16 bytes",
                "30,300,000 reports, Parquet, ids of 16 bytes",
                "30,300,000 reports, Parquet, one service, not joined",
            )
        },
    ),
    "solvers_windows": (
        ("service", "ms with intervals", "ms of the estimate"),
        {"service": ("square_wave", "piecewise", "stochastic_rounding")},
    ),
    "solvers_intervals": (("services", "users", "ms without intervals", "ms, shared"), {}),
    "scale": (
        ("run", "shards", "memory or state", "shuffled", "core-hours", "on Dataflow"),
        {
            "run": (
                "batch, 24 windows",
                "batch, 24 windows, report ids",
                "batch on one machine, 24 windows",
                "stream, windows of an hour, 11,600 reports per bundle",
                "stream, windows of a day, 11,600 reports per bundle",
            )
        },
    ),
    "scale_limits": (("users a day", "where", "what happens"), {}),
    "published": (("row", "setting", "epsilon", "they print", "ours by", "auto gives"), {}),
}
TABLE = re.compile(r"^<!-- (\w+) -->\n.*?^<!-- end -->$", re.DOTALL | re.MULTILINE)


def cell(values: Mapping[str, str], column: str) -> str:
    """A cell of the page: its number, the standard error of that, and what stands in brackets."""
    value, error, brackets = (values.get(column + suffix, "") for suffix in SUFFIXES)
    value = f"{int(value):,}" if value.isdigit() else value
    return value + (f" ± {error}" if error else "") + (f" ({brackets})" if brackets else "")


def lines_of(name: str) -> Iterator[str]:
    """The lines of one table."""
    columns, chosen = TABLES[name]
    with (DOCS / "measured" / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    columns = columns or tuple(rows[0])
    shown = [row for row in rows if all(row[column] in among for column, among in chosen.items())]
    if shown:
        cells = [
            columns,
            ["---"] * len(columns),
            *([cell(row, column) for column in columns] for row in shown),
        ]
        yield from ("", *(f"|{'|'.join(row)}|" for row in cells))
    yield ""
    number = f"{len(shown)} of {len(rows):,}" if len(shown) < len(rows) else f"All {len(rows)}"
    yield f"{number} rows of [{name}.csv](measured/{name}.csv)."


def renewed(text: str) -> str:
    """A page with its tables made again."""

    def made(found: re.Match[str]) -> str:
        return "\n".join([f"<!-- {found[1]} -->", *lines_of(found[1]), "<!-- end -->"])

    return TABLE.sub(made, text)


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(renewed(page.read_text(encoding="utf-8")), encoding="utf-8")
