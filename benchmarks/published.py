"""Figures that papers print, beside what ldpbeam gives in the same setting: docs/measured/published.csv.

    python -m benchmarks.published --data FOLDER [--runs 20] [--write docs/measured]

Each row is one figure of a paper or of its released code: the same file of data or the same recipe, our
default options, and seeds 0, 1, .. of ours. `theirs` is what they print. The files are not part of ldpbeam:
FILES says where each comes from, and its hash. A row whose files are not there is left out, and named.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import itertools
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks import pages
from ldpbeam import Answers, Attribute, Categories, Numeric, ServiceVersion, Study, build_mechanism, tally
from ldpbeam.domains import Floats, Integers
from ldpbeam.estimators import estimate
from ldpbeam.estimators.pairs.answer import pair
from ldpbeam.metrics import quantiles_in

#: The files of the papers' repositories, as FOLDER has them, and the first half of their SHA-256.
FILES = {
    # ZhengYeah/Optimal-GPM, experiments/experimental/motion_sense_dws_1
    "motion_sense/sub_1.csv": "d12278e4206a5d28a6d540acfd7580eb",
    "motion_sense/sub_2.csv": "1131f54d04f2a4d648c223e0824fab5a",
    "motion_sense/sub_3.csv": "a9fc07511f8b33f3f51af5fa05b3bd7d",
    # link-zju/ccs21-AHEAD: dataset/1dim_normal_skew00-.., query_table/rand_query_domain10_attribute1.txt
    "ahead/normal.txt": "0b3b231fa94109ba00be3f5af1920931",
    "ahead/queries.txt": "3aa2eb00203922117e7f283f5b6fc175",
    # the same, dataset/2dim_laplace01-.., query_table/rand_query_domain8_attribute2.txt
    "ahead/laplace.txt": "9d3ada1f9b8ee130888f67d56920ce00",
    "ahead/queries_2.txt": "e10c4abc06973d1b34a93e71a9fe0f16",
    # the same, query_table/rand_query_domain6_attribute3.txt and .._attribute5.txt
    "ahead/queries_3.txt": "8dfb6d7931b981f8de0641e826882b4a",
    "ahead/queries_5.txt": "a91b96d2cfb1f1fc3355707f55ba3484",
    # shafizurRseeam/Corr-RR, preprocessed_data
    "corr_rr/clave.csv": "1be4840e7ff230f351fda2a558764f0e",
    "corr_rr/mushroom.csv": "c99d56707e094f11b65367c351b83f34",
    "corr_rr/adult.csv": "0d8dfce0cbf8eae8351d48506709a2e3",
    # LeixiaWang/PriPLT, datasets and query; they need the package h5py
    "priplt/adult.hdf5": "b759e782a9f02e6039db35178be51ccb",
    "priplt/queries_0.5.hdf5": "f124fcffc04c313c6e80b34e48d80b87",
    # hharcolezi/multi-freq-ldpy, tutorials/datasets
    "adult/adult.data": "5b00264637dbfec36bdeaab5676b0b30",
    "adult/adult.test": "72567b94f5c1a6f8501377dd80f93892",
}


@dataclass(frozen=True)
class Row:
    """One printed figure.

    Attributes:
        number: of the paper, as the page orders them.
        paper: its short name and where the figure stands.
        setting: data, people, and what the loss is.
        epsilon: of a report.
        theirs: what they print.
        method: our mechanism, estimated by `auto`.
        loss: what one run of ours gives, by its seed.
    """

    number: int
    paper: str
    setting: str
    epsilon: float
    theirs: str
    method: str
    loss: Callable[[int], float]


def estimated(
    domain: Numeric | Categories, mechanism: str, epsilon: float, values: Floats | Integers, seed: int
) -> Floats:
    """The shares that `auto` gives of buckets or categories, of one report by each person."""
    rng = np.random.default_rng(seed)
    version = ServiceVersion("s", "", build_mechanism(mechanism, domain, epsilon))
    if isinstance(domain, Numeric):
        places, values = domain.count or 1024, domain.to_unit(values)
    else:
        places = domain.size
    attribute = Attribute("x", domain, places, (version,))
    answers = Answers(0, np.arange(len(values)), version.mechanism.perturb(values, rng))
    distribution = estimate("auto", attribute, tally(attribute, len(values), [answers])).distribution
    assert distribution is not None
    return distribution


def below(shares: Floats, points: Floats) -> Floats:
    """The share of people below points of [0, 1], of shares of equal buckets."""
    cumulative = np.concatenate(([0.0], np.cumsum(shares)))
    return np.interp(points, np.linspace(0.0, 1.0, len(cumulative)), cumulative)


def within(buckets: int, ends: Floats) -> Floats:
    """How much of each of equal buckets of [0, 1] lies between two ends, shape (n, buckets)."""
    low, high = (buckets * ends).T[..., None]
    places = np.arange(buckets)
    return np.asarray(np.clip(high - places, 0.0, 1.0) - np.clip(low - places, 0.0, 1.0))


class Folder:
    """The files that are there."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def has(self, *names: str) -> bool:
        """Whether these files are there; a file of other bytes ends the program."""
        there = [name for name in names if (self.path / name).exists()]
        for name in there:
            if not hashlib.sha256((self.path / name).read_bytes()).hexdigest().startswith(FILES[name]):
                raise SystemExit(
                    f"{self.path / name} is not the file that the papers used: its SHA-256 differs"
                )
        missing = sorted(set(names) - set(there))
        if missing:
            print(f"left out, as {self.path} has no {', '.join(missing)}", file=sys.stderr)
        return not missing


def acceleration(folder: Folder) -> Iterator[Row]:
    """OGPM, PETS 2025: histograms of 49 bins and means of a sensor's values, scaled to [0, 1]."""
    names = [f"motion_sense/sub_{number}.csv" for number in (1, 2, 3)]
    if not folder.has(*names):
        return
    parts = [np.loadtxt(folder.path / name, delimiter=",", skiprows=1, usecols=10) for name in names]
    values = np.concatenate(parts)
    values = (values - values.min()) / (values.max() - values.min())
    edges, domain = np.linspace(0.0, 1.0, 50), Numeric(0.0, 1.0)
    counts = np.histogram(values, edges)[0]

    def histogram(mechanism: str, epsilon: float) -> Callable[[int], float]:
        def loss(seed: int) -> float:
            shares = estimated(domain, mechanism, epsilon, values, seed)
            return float(np.linalg.norm(counts - len(values) * np.diff(below(shares, edges))))

        return loss

    def mean(mechanism: str, epsilon: float) -> Callable[[int], float]:
        def loss(seed: int) -> float:
            shares = estimated(domain, mechanism, epsilon, values, seed)
            return abs(float(shares @ ((np.arange(len(shares)) + 0.5) / len(shares)) - values.mean()))

        return loss

    histograms = {
        "square_wave": ("SW 1,007", "SW 734", "SW 334"),
        "piecewise": ("PM 1,021; GPM 1,034", "PM 741; GPM 740", "PM 329; GPM 292"),
    }
    means = {
        "square_wave": ("SW .0946", "SW .0686", "SW .0362"),
        "piecewise": ("GPM, unbiased .0038", "GPM, unbiased .0016", "GPM, unbiased .0004"),
    }
    paper, bins = "OGPM, PETS 2025", "acceleration, 6,159 values; L2 of counts in 49 bins"
    for number, source, setting, printed, loss_of in (
        (1, f"{paper}, distribution_classical.csv (histograms of raw reports)", bins, histograms, histogram),
        (
            2,
            f"{paper}, mean_classical.csv (error of the mean over 100 runs: bias)",
            "acceleration; absolute error of the mean of one run",
            means,
            mean,
        ),
    ):
        for mechanism, texts in printed.items():
            for epsilon, theirs in zip((1.0, 2.0, 4.0), texts, strict=True):
                loss = loss_of(mechanism, epsilon)
                yield Row(number, source, setting, epsilon, theirs, mechanism, loss)


def ranges_of(
    places: int, values: Floats, queries: Floats, epsilon: float, step: float | None = None
) -> Callable[[int], float]:
    """The mean squared error over ranges [first, last] of whole numbers, the ends included, by SW."""
    domain = Numeric(0.0, places - 1.0, step) if step else Numeric(0.0, float(places))
    sent = values if step else values + 0.5
    counts = np.bincount(values.astype(int), minlength=places)
    truth = np.concatenate(([0.0], np.cumsum(counts))) / len(values)
    first, last = queries[:, 0].astype(int), queries[:, 1].astype(int) + 1

    def loss(seed: int) -> float:
        cumulative = below(
            estimated(domain, "square_wave", epsilon, sent, seed), np.arange(places + 1) / places
        )
        return float(np.mean(np.square(cumulative[last] - cumulative[first] - truth[last] + truth[first])))

    return loss


def ahead(folder: Folder) -> Iterator[Row]:
    """AHEAD, CCS 2021: random ranges of normal values in 1,024 places."""
    if folder.has("ahead/normal.txt", "ahead/queries.txt"):
        values = np.loadtxt(folder.path / "ahead/normal.txt")
        queries = np.loadtxt(folder.path / "ahead/queries.txt")
        yield Row(
            4,
            "AHEAD, CCS 2021, rand_result (one run)",
            "normal, 100,000 people, 1,024 values; squared error over 200 ranges",
            1.0,
            "AHEAD 2.56e-4",
            "square_wave",
            ranges_of(1024, values, queries, 1.0),
        )


def of_pair(values: Floats, ends: Floats, epsilon: float, rng: np.random.Generator) -> Floats:
    """The shares that a pair gives of people inside and outside of ranges of two attributes.

    Args:
        values: of [0, 1], shape (n, 2).
        ends: of ranges, shape (ranges, 2, 2).
        epsilon: of each of the two reports.
        rng: the source of the reports.

    Returns:
        Shape (ranges, 2, 2): inside first.
    """
    service = {"app": {"mechanism": "square_wave", "epsilon": epsilon}}
    attributes = {name: {"domain": {"numeric": [0, 1]}, "services": service} for name in ("x", "y")}
    study = Study.from_dict(study="pair", attributes=attributes, pairs={"xy": ["x", "y"]})
    attribute, everybody = study.attribute("xy"), np.arange(len(values))
    sent = [
        Answers(index, everybody, version.mechanism.perturb(own, rng))
        for index, (version, own) in enumerate(zip(attribute.versions, values.T, strict=True))
    ]
    answer = pair(attribute, tally(attribute, len(values), sent), None).pair
    assert answer is not None
    table = np.reshape(answer.table, tuple(map(len, answer.axes)))
    inside = [within(len(axis), ends[:, place]) for place, axis in enumerate(answer.axes)]
    rows, columns = (np.stack((parts, 1.0 - parts), axis=1) for parts in inside)
    return np.asarray(np.einsum("qai,ij,qbj->qab", rows, table, columns))


def true_shares(values: Floats, queries: Floats) -> Floats:
    """The share of people, shape (n, attributes), in each range, shape (ranges, attributes, 2)."""
    inside = [((values >= low) & (values < high)).all(axis=1).mean() for low, high in queries.swapaxes(1, 2)]
    return np.array(inside)


def several(folder: Folder) -> Iterator[Row]:
    """AHEAD, CCS 2021: ranges of three and five attributes; each person reports to two of them.

    Their files of values were not at hand. Laplace values with these means have the same shares of the 200
    ranges, to .001 and .003 (query_table/real_frequency-*.npy). Pairs are put together by their table of
    greatest entropy, as AHEAD's LLE does.
    """
    for correlation, means, theirs in (
        (0.9, (34.36, 33.15, 34.28), "AHEAD LLE 1.86e-4; DE 5.17e-4"),
        (0.8, (34.33, 33.05, 33.09, 30.08, 28.80), "AHEAD LLE 5.08e-4"),
    ):
        many = len(means)
        if not folder.has(f"ahead/queries_{many}.txt"):
            continue
        queries = np.loadtxt(folder.path / f"ahead/queries_{many}.txt").reshape(-1, many, 2)
        covariance = correlation + (1.0 - correlation) * np.eye(many)

        def loss(
            seed: int, means: tuple[float, ...] = means, q: Floats = queries, covariance: Floats = covariance
        ) -> float:
            rng, many, people = np.random.default_rng(seed), len(means), 1_000_000
            normal = rng.multivariate_normal(np.zeros(many), covariance, people)
            values = np.floor(means + 3.2 * np.sqrt(rng.standard_exponential((people, 1))) * normal)
            values = values.clip(0.0, 63.0)
            asked = list(itertools.combinations(range(many), 2))
            turn = rng.integers(len(asked), size=people)
            quarters = [
                of_pair((values[turn == index][:, two] + 0.5) / 64, q[:, two] / 64, 0.5, rng)
                for index, two in enumerate(map(list, asked))
            ]
            shares = np.full((len(q), *(2,) * many), 0.5**many)
            for (first, second), table in [*zip(asked, quarters, strict=True)] * 100:
                others = tuple(1 + axis for axis in range(many) if axis not in (first, second))
                factors = table.clip(1e-9) / shares.sum(axis=others)
                shares *= np.expand_dims(factors, others)
            return float(np.mean(np.square(shares.reshape(len(q), -1)[:, 0] - true_shares(values, q))))

        yield Row(
            5,
            "AHEAD, CCS 2021, rand_result (one run)",
            f"Laplace, correlation {correlation:g}, 1,000,000 people, {many} attributes of 64 values; "
            "squared error over 200 ranges; two reports spend 1 together",
            0.5,
            f"{theirs} (epsilon 1)",
            "square_wave, pairs",
            loss,
        )


def corr_rr(folder: Folder) -> Iterator[Row]:
    """Corr-RR, PETS 2026: shares of two or three attributes; each person reports to one of them."""
    # Of SPL, RS+FD, RS+RFD and Corr-RR, read off the lines of figure 11.
    figures = {
        "clave": (("4.6e-2", "4.3e-2", "3.5e-2", "1.8e-2"), ("1.3e-3", "1.4e-3", "1.8e-3", "2.7e-3")),
        "mushroom": (("1.9e-1", "1.9e-1", "5.5e-2", "6.5e-2"), ("6.5e-3", "6.0e-3", "5.1e-3", "1.6e-2")),
        "adult": (("8.1e-2", "8.8e-2", "5.6e-2", "2.2e-2"), ("3.1e-3", "4.1e-3", "3.1e-3", "6.0e-3")),
    }
    for name, of in figures.items():
        if not folder.has(f"corr_rr/{name}.csv"):
            continue
        values = np.loadtxt(folder.path / f"corr_rr/{name}.csv", delimiter=",", skiprows=1, dtype=np.int64)
        for epsilon, theirs in zip((0.1, 0.5), of, strict=True):

            def loss(seed: int, values: Integers = values, epsilon: float = epsilon) -> float:
                turn, losses = np.random.default_rng(seed).integers(values.shape[1], size=len(values)), []
                for place, column in enumerate(values.T):
                    shares = np.bincount(column, minlength=2) / len(column)
                    categories = Categories(tuple(map(str, range(len(shares)))))
                    found = estimated(categories, "grr", epsilon, column[turn == place], seed)
                    losses.append(float(np.mean(np.square(found - shares))))
                return float(np.mean(losses))

            yield Row(
                12,
                "Corr-RR, PETS 2026, figure 11 (plot; 50 runs)",
                f"{name.capitalize()}, {len(values):,} people, {values.shape[1]} attributes; "
                "squared error of shares",
                epsilon,
                "; ".join(map(" ".join, zip(("SPL", "RS+FD", "RS+RFD", "Corr-RR"), theirs, strict=True))),
                "grr",
                loss,
            )


def pairs(folder: Folder) -> Iterator[Row]:
    """AHEAD, CCS 2021: random ranges of two attributes with 256 places, of a weak correlation."""
    if not folder.has("ahead/laplace.txt", "ahead/queries_2.txt"):
        return
    values = np.loadtxt(folder.path / "ahead/laplace.txt")
    queries = np.loadtxt(folder.path / "ahead/queries_2.txt").reshape(-1, 2, 2)
    for epsilon, of in ((0.5, "both reports spend 1 together"), (1.0, "each report spends 1")):

        def loss(seed: int, epsilon: float = epsilon) -> float:
            quarters = of_pair((values + 0.5) / 256, queries / 256, epsilon, np.random.default_rng(seed))
            return float(np.mean(np.square(quarters[:, 0, 0] - true_shares(values, queries))))

        yield Row(
            5,
            "AHEAD, CCS 2021, rand_result (one run)",
            f"Laplace, correlation .1, 100,000 people, 256 x 256 values; squared error over 200 ranges; {of}",
            epsilon,
            "AHEAD 7.67e-4 (epsilon 1)",
            "square_wave, pair",
            loss,
        )


def medians() -> Iterator[Row]:
    """Aamand et al.: the median of 2,500 Pareto values, asked one after another, as a share of people."""
    texts = ("interactive .095", "interactive .036", "interactive .017")
    for scale in ("log1p", None):
        domain = Numeric(0.0, 65_535.0, scale=scale)
        for epsilon, theirs in zip((0.368, 0.879, 2.096), texts, strict=True):

            def loss(seed: int, domain: Numeric = domain, epsilon: float = epsilon) -> float:
                rng = np.random.default_rng(1000 + seed)
                values = np.clip(2_000 * rng.pareto(1.5, 2_500), 0.0, 65_535.0)
                shares = estimated(domain, "square_wave", epsilon, values, seed)
                return abs(float(np.mean(values <= quantiles_in(domain, shares, [0.5])[0])) - 0.5)

            yield Row(
                7,
                "Aamand et al., result pickles of their code (200 runs)",
                "2,500 people, 2,000 x Pareto(1.5) up to 65,535; error of the median's rank",
                epsilon,
                theirs,
                f"square_wave, {f'scale {scale}' if scale else 'plain range'}",
                loss,
            )


def pripl_tree(folder: Folder) -> Iterator[Row]:
    """PriPL-Tree, PVLDB 2024: ranges of three columns of Adult."""
    if not folder.has("priplt/adult.hdf5", "priplt/queries_0.5.hdf5"):
        return
    import h5py

    with h5py.File(folder.path / "priplt/adult.hdf5") as file:
        data, sizes = file["data"][:], file["data"].attrs["domain_size"]
        names = [str(name) for name in file["data"].attrs["description"]]
    with h5py.File(folder.path / "priplt/queries_0.5.hdf5") as file:
        fractions = file["queries"][:]
    printed = {"fnlwgt": "3.4e-4 ± .6e-4", "age": "2.5e-4", "hours-per-week": "1.26e-3 ± .3e-3"}
    for name, theirs in printed.items():
        column = names.index(name)
        size = int(sizes[column])
        queries = np.minimum(np.floor(fractions * size), size - 1)
        for step in (None, 1.0):
            yield Row(
                6,
                "PriPL-Tree, PVLDB 2024 (their code, run by us: 10, 5 and 10 runs)",
                f"Adult {name}, 32,561 people, {size:,} values; squared error over 1,000 ranges",
                0.8,
                f"PriPL-Tree {theirs}",
                "square_wave, step 1" if step else "square_wave",
                ranges_of(size, data[:, column].astype(float), queries, 0.8, step),
            )


def shares_of(truth: Floats, people: int, mechanism: str, epsilon: float) -> Callable[[int], float]:
    """The mean squared error of shares of categories, which are shuffled."""

    def loss(seed: int) -> float:
        rng = np.random.default_rng(1000 + seed)
        categories = Categories(tuple(map(str, range(len(truth)))))
        shuffled = rng.permutation(truth)
        values = np.repeat(np.arange(len(truth)), np.round(shuffled * people).astype(int))
        shares = estimated(categories, mechanism, epsilon, values, seed)
        return float(np.mean(np.square(shares - shuffled)))

    return loss


def adult_ages(folder: Folder) -> Iterator[Row]:
    """multi-freq-ldpy, tutorial 1: the ages of Adult as 74 categories."""
    if not folder.has("adult/adult.data", "adult/adult.test"):
        return
    ages: list[int] = []
    for name in ("adult.data", "adult.test"):
        with (folder.path / "adult" / name).open(encoding="utf-8") as file:
            rows = [[cell.strip() for cell in row] for row in csv.reader(file)]
        ages += [int(row[0]) for row in rows if len(row) == 15 and "?" not in row]
    counts = np.bincount(np.unique(ages, return_inverse=True)[1])
    printed = {
        "grr": ("3.7e-4", "2.1e-4", "3.3e-5", "1.2e-6"),
        "oue": ("1.5e-4", "5.5e-5", "1.3e-5", "1.8e-6"),
        "olh": ("1.5e-4", "5.5e-5", "1.3e-5", "1.8e-6"),
    }
    for mechanism, texts in printed.items():
        for epsilon, theirs in zip((0.5, 1.0, 2.0, 4.0), texts, strict=True):
            yield Row(
                8,
                "multi-freq-ldpy, tutorial 1 (30 runs, read off a plot, ±5%)",
                f"Adult age, {counts.sum():,} people, {len(counts)} categories; squared error of shares",
                epsilon,
                f"{mechanism.upper()} {theirs}",
                mechanism,
                shares_of(counts / counts.sum(), int(counts.sum()), mechanism, epsilon),
            )


def loloha() -> Iterator[Row]:
    """LOLOHA, EDBT 2023: one of 120 rounds of 360 even values, by what one round spends."""
    texts = ("OLOLOHA 1.75e-5; even guess 1.13e-6", "OLOLOHA 1.6e-5", "OLOLOHA 1.48e-5")
    for epsilon, theirs in zip((0.4, 1.2, 2.0), texts, strict=True):

        def loss(seed: int, epsilon: float = epsilon) -> float:
            counts = np.random.default_rng(1000 + seed).multinomial(2500, np.full(360, 1 / 360))
            categories = Categories(tuple(map(str, range(360))))
            shares = estimated(categories, "olh", epsilon, np.repeat(np.arange(360), counts), seed)
            return float(np.mean(np.square(shares - counts / 2500)))

        yield Row(
            9,
            "LOLOHA, EDBT 2023, Experiments_Syn (plot)",
            "360 even values, 2,500 people; squared error of shares",
            epsilon,
            theirs,
            "olh",
            loss,
        )


def spelled(mean: float, error: float) -> str:
    """A mean and its standard error."""
    if mean >= 1.0:
        return f"{mean:.0f} ± {error:.0f}"
    return f"{mean:.4f} ± {error:.4f}" if mean >= 0.001 else f"{mean:.2e} ± {error:.0e}"


def main() -> None:
    """Run the rows whose data is there, and print or keep their table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="the folder of the papers' files")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--rows", type=int, nargs="+", help="only these")
    parser.add_argument("--write", type=Path, help=pages.HELP)
    options = parser.parse_args()
    folder = Folder(options.data)
    rows = [
        *(
            row
            for of in (acceleration, ahead, pairs, several, pripl_tree, adult_ages, corr_rr)
            for row in of(folder)
        ),
        *medians(),
        *loloha(),
    ]
    rows.sort(key=lambda row: row.number)
    lines = pages.header(
        ("row", "paper", "setting", "epsilon", "they print", "ours by", "auto gives", "runs")
    )
    for row in rows:
        if options.rows and row.number not in options.rows:
            continue
        losses = np.array([row.loss(seed) for seed in range(options.runs)])
        gives = spelled(losses.mean(), losses.std(ddof=1) / np.sqrt(len(losses)))
        cells = (
            row.number,
            row.paper,
            row.setting,
            f"{row.epsilon:g}",
            row.theirs,
            row.method,
            gives,
            len(losses),
        )
        lines.append(pages.row(cells))
        print(lines[-1], flush=True)
    if options.write:
        (options.write / "published.csv").write_text(
            pages.Table("published", tuple(lines)).text(), encoding="utf-8"
        )


if __name__ == "__main__":
    main()
