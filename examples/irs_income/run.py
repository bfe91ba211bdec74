"""Incomes of US tax returns by state and size class: 306 categories, GRR, epsilon 1 and 2.

    python examples/irs_income/run.py --data irs-income-2013-by-zip.csv --output DIR

The data is the IRS's table of returns by ZIP code (columns STATE, zipcode, agi_stub, N02650). Rows with
zipcode 0 are totals and are left out; a thousand returns become one person.
"""

import argparse
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import yaml

from ldpbeam.command_line.main import main as ldpbeam

EPSILONS = (1.0, 2.0)


def prepare(data: Path, people: Path) -> list[str]:
    """Write one row a category with its number of people; the categories, sorted."""
    table = pyarrow.csv.read_csv(data)
    table = table.filter(pc.not_equal(table.column("zipcode"), 0))
    size = pc.cast(table.column("agi_stub"), pa.string())
    category = pc.binary_join_element_wise(table.column("STATE"), size, "-")
    totals = (
        pa.table({"income": category, "returns": table.column("N02650")})
        .group_by("income")
        .aggregate([("returns", "sum")])
        .sort_by("income")
    )
    counts = pc.cast(
        pc.round(pc.divide(pc.cast(totals.column("returns_sum"), pa.float64()), 1000.0)), pa.int64()
    )
    pyarrow.csv.write_csv(pa.table({"income": totals.column("income"), "people": counts}), people)
    return [str(name) for name in totals.column("income").to_pylist()]


def study_of(categories: list[str], epsilon: float) -> str:
    """The study file."""
    return yaml.safe_dump(
        {
            "study": "irs_income",
            "attributes": {
                "income": {
                    "domain": {"categories": categories},
                    "services": {"irs": {"mechanism": "grr", "epsilon": epsilon}},
                    "estimates": {
                        name: {"estimator": name} for name in ("inversion", "norm_sub", "mle", "em")
                    },
                }
            },
        },
        sort_keys=False,
        default_flow_style=None,
    )


def main() -> int:
    """Perturb and estimate, once an epsilon."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    people = options.output / "people.csv"
    categories = prepare(options.data, people)
    for epsilon in EPSILONS:
        folder = options.output / f"epsilon-{epsilon:g}"
        folder.mkdir(exist_ok=True)
        study = folder / "study.yaml"
        study.write_text(study_of(categories, epsilon), encoding="utf-8")
        values = ["--value-column", "income", "--weight-column", "people"]
        print(f"\nepsilon {epsilon:g}")
        code = ldpbeam(
            ["perturb", "--study", str(study), "--attribute", "income", "--input", str(people), *values]
            + ["--output", str(folder / "reports"), "--seed", str(options.seed), "--overwrite"]
        ) or ldpbeam(
            ["estimate", "--study", str(study), "--input", str(folder / "reports" / "*")]
            + ["--output", str(folder / "estimates"), "--truth", str(people), *values, "--overwrite"]
        )
        if code:
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
