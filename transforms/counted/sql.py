"""The SQL that a GROUP BY needs to count numbers in the cells of a study."""

from __future__ import annotations

from collections.abc import Iterator

from ldpbeam.mechanisms import NumericMechanism
from ldpbeam.study import Study


def sql_of_numbers(study: Study) -> Iterator[dict[str, str]]:
    """DuckDB's SQL of the cell and the steps of a payload, for each channel of numbers in equal cells."""
    for name in study.estimated:
        attribute = study.attribute(name)
        for version in attribute.versions:
            mechanism = version.mechanism
            grid = mechanism.grid(attribute.buckets) if isinstance(mechanism, NumericMechanism) else None
            if grid is None or not isinstance(mechanism, NumericMechanism):
                continue
            # A literal with an exponent is a double, and one without is a decimal.
            low, scale, lowest, highest, step = (
                f"{number:.16e}"
                for number in (*grid[:2], *mechanism.report_range, mechanism.fixed_point_step)
            )
            cell = f"floor((payload - {low}) * {scale}) + {grid[2]}"
            yield {
                "attribute": name,
                "service": version.label,
                "cell": f"least(greatest({cell}, 0), {mechanism.cells(attribute.buckets) - 1})",
                "step": f"round_even(least(greatest(payload, {lowest}), {highest}) / {step}, 0)",
            }
