"""Run one of the example studies on made-up people, and compare its estimates with the truth.

    python examples/run.py STUDY [--output DIR] [--people N]

STUDY is a folder beside this file: numbers, categories, joined_categories, hierarchies, reduction, vector,
key_values or privkvm.
"""

import argparse
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

from ldpbeam.command_line.main import main as ldpbeam
from ldpbeam.trials import populations

Columns = dict[str, np.ndarray]


def minutes(people: int, rng: np.random.Generator) -> Columns:
    """On the way to work: between nothing and three hours."""
    return {"minutes": np.round(180 * rng.beta(2, 7, people), 1)}


def apps(people: int, rng: np.random.Generator) -> Columns:
    """One of 40, some far more popular than others."""
    popularity = 1.0 / np.arange(1, 41) ** 1.5
    return {"app": rng.choice(40, people, p=popularity / popularity.sum())}


def transport(people: int, rng: np.random.Generator) -> Columns:
    """How people travel."""
    names = ["car", "bus", "bike", "train", "foot", "tram"]
    return {"transport": rng.choice(names, people, p=[0.45, 0.2, 0.15, 0.1, 0.07, 0.03])}


def incomes(people: int, rng: np.random.Generator) -> Columns:
    """Many of them round numbers."""
    return {"income": np.round(524_288 * populations.spiky(people, rng), 2)}


def scores(people: int, rng: np.random.Generator) -> Columns:
    """Of two kinds of people."""
    return {"score": 2 * populations.two_normals(people, rng) - 1}


def pulse(people: int, rng: np.random.Generator) -> Columns:
    """At four hours of a day."""
    means = {"h06": 58, "h12": 78, "h18": 88, "h24": 62}
    return {hour: np.round(rng.normal(mean, 9, people), 1) for hour, mean in means.items()}


def ratings(people: int, rng: np.random.Generator) -> Columns:
    """Of 12 films, one to five stars; a person who saw none has one row without a film."""
    pairs = populations.people_of(np.linspace(0.45, 0.03, 12), np.linspace(0.8, -0.6, 12), people, rng)
    seen = np.diff(pairs.starts)
    nothing = np.flatnonzero(seen == 0)
    return {
        "user": np.concatenate((np.repeat(np.arange(people), seen), nothing)),
        "film": np.concatenate((pairs.keys.astype("U"), np.full(len(nothing), ""))),
        "rating": np.concatenate((1 + 4 * pairs.values, np.zeros(len(nothing)))),
    }


NUMBERS = ["--value-column"]
KEYS = ["--key-column", "film", "--value-column", "rating", "--user-column", "user"]
EXAMPLES = {
    "numbers": ("minutes", minutes, [*NUMBERS, "minutes"]),
    "categories": ("app", apps, [*NUMBERS, "app"]),
    "joined_categories": ("transport", transport, [*NUMBERS, "transport"]),
    "hierarchies": ("income", incomes, [*NUMBERS, "income"]),
    "reduction": ("score", scores, [*NUMBERS, "score"]),
    "vector": ("pulse", pulse, []),
    "key_values": ("rating", ratings, KEYS),
    "privkvm": ("rating", ratings, KEYS),
}


def commands(name: str, folder: Path) -> Iterator[list[str]]:
    """What a person would type."""
    attribute, _, columns = EXAMPLES[name]
    study = ["--study", str(Path(__file__).parent / name / "study.yaml")]
    people, reports, estimates = (str(folder / part) for part in ("people.csv", "reports", "estimates"))
    perturb = ["perturb", *study, "--attribute", attribute, "--input", people, *columns]
    perturb += ["--output", reports, "--seed", "7", "--overwrite"]
    estimate = ["estimate", *study, "--input", f"{reports}/*", "--output", estimates, "--overwrite"]
    estimate += ["--truth", people, *columns]
    if name != "privkvm":
        yield perturb
        yield estimate
        return
    means: list[str] = []
    for number in ("1", "2", "3"):
        yield [*perturb, "--round", number, *means]
        yield estimate
        means = ["--means", f"{estimates}/estimates.jsonl"]


def main() -> int:
    """Make people, perturb their values, estimate, compare."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("study", choices=EXAMPLES)
    parser.add_argument("--output", type=Path, default=Path("demo"))
    parser.add_argument("--people", type=int, default=20_000)
    options = parser.parse_args()
    folder = options.output / options.study
    folder.mkdir(parents=True, exist_ok=True)
    _, draw, _ = EXAMPLES[options.study]
    columns = draw(options.people, np.random.default_rng(7))
    pyarrow.csv.write_csv(pa.table(columns), folder / "people.csv")
    for command in commands(options.study, folder):
        print(f"\n$ ldpbeam {shlex.join(command)}\n", flush=True)
        code = ldpbeam(command)
        if code:
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
