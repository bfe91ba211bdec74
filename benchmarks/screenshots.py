"""Pictures of ``ldpbeam report`` for the documentation, from simulated people.

    python -m benchmarks.screenshots [--only commute diamonds windows keys groups stream]

It simulates, estimates, makes the pages, opens them in Debian's chromium-headless-shell and writes
``docs/images/report-*.png``. ``stream`` runs examples/stream/demo.py, which takes a minute.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from playwright.sync_api import Browser, sync_playwright

import ldpbeam as ldp
from ldpbeam.command_line.main import main as ldpbeam
from ldpbeam.domains import KeyValues

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
CHROMIUM = "/usr/bin/chromium-headless-shell"
START = 1_795_132_800_000  # 2026-11-20T00:00:00Z
HOUR = 3_600_000

#: As in README.md.
COMMUTE = """\
study: commute
attributes:
  minutes:
    domain: {numeric: [0, 180]}
    services: {maps: {mechanism: square_wave, epsilon: 1.0}}
"""
WINDOWS = """\
study: commute
attributes:
  minutes:
    domain: {numeric: [0, 180]}
    buckets: 128
    services:
      maps: {mechanism: square_wave, epsilon: 1.0}
      taxi: {mechanism: piecewise, epsilon: 1.0}
    estimates:
      together: {estimator: ule, accelerated: true}
      maps_only: {estimator: ems, services: [maps], accelerated: true}
      mean: {estimator: ivw}
windows: {size: 2h}
"""
KEYS = """\
study: films
attributes:
  stars:
    domain:
      keys: [Casablanca, Metropolis, Vertigo, Playtime, Stalker, Ran, Alien, Brazil, Persona, Solaris]
      values: [1, 5]
    services: {ratings: {mechanism: pckv_grr, epsilon: 4.0, padding: 4}}
    estimates:
      em: {estimator: pckv_em}
      published: {estimator: key_value}
"""
GROUPS = """\
study: transport
attributes:
  minutes:
    domain: {numeric: [0, 120]}
    buckets: 64
    services: {survey: {mechanism: square_wave, epsilon: 1.5}}
    estimates: {shape: {estimator: auto}}
  vehicle:
    domain: {categories: [car, bus, bike, train, foot, tram]}
    services: {city: {mechanism: grr, epsilon: 1.5}}
    estimates: {shares: {estimator: em}}
groups: {field: region, at_most: 6}
"""
REGIONS = ("north", "south", "east", "west", "centre", "islands")


def estimated(folder: Path, study: str | Path, truth: list[str], **sent: dict[str, Any]) -> Path:
    """Perturb the values of each attribute, estimate, and make the page, with the truth."""
    folder.mkdir()
    path, output, page = folder / "study.yaml", folder / "out", folder / "report.html"
    path.write_text(study.read_text() if isinstance(study, Path) else study)
    described, rng = ldp.Study.from_yaml(path), np.random.default_rng(7)
    for name, columns in sent.items():
        for service in described.attribute(name).services:
            table = ldp.Client(described, name, service, rng=rng).reports(**columns)
            pq.write_table(table, folder / f"{name}.{service}.parquet")
    run("estimate", "--study", path, "--input", folder / "*.parquet", "--output", output)
    run("report", output, "-o", page, *truth)
    return page


def run(*arguments: object) -> None:
    """Run a command of ldpbeam, which must end well."""
    if ldpbeam([str(argument) for argument in arguments]):
        raise SystemExit(f"ldpbeam {arguments[0]} failed")


def commute(folder: Path) -> Path:
    """Minutes of the people of README.md."""
    minutes = (180 * np.random.default_rng(7).beta(2, 5, 20_000)).round(1)
    people = folder / "people.csv"
    pyarrow.csv.write_csv(pa.table({"minutes": minutes}), people)
    columns = {"values": minutes, "user_ids": [f"u{place}" for place in range(len(minutes))]}
    truth = ["--truth", str(people), "--value-column", "minutes"]
    return estimated(folder / "run", COMMUTE, truth, minutes=columns)


def diamonds(folder: Path) -> Path:
    """Prices as those of diamonds: many below 2,000, some above 15,000."""
    rng = np.random.default_rng(1)
    cheap, dear = rng.lognormal(6.9, 0.35, 26_000), rng.lognormal(8.6, 0.5, 28_000)
    prices = np.clip(np.concatenate((cheap, dear)), 0, 20_000)
    people = folder / "people.csv"
    pyarrow.csv.write_csv(pa.table({"price": prices}), people)
    columns = {"values": prices, "user_ids": [f"u{place}" for place in range(len(prices))]}
    truth = ["--truth", str(people), "--value-column", "price"]
    return estimated(folder / "run", ROOT / "examples" / "diamonds" / "study.yaml", truth, price=columns)


def windows(folder: Path) -> Path:
    """Minutes on the way to work over a day, longest in the morning and in the evening."""
    rng = np.random.default_rng(2)
    times = START + rng.integers(0, 24 * HOUR, 60_000)
    hours = (times - START) / HOUR
    middle = 0.2 + 0.2 * (np.exp(-((hours - 8) ** 2) / 6) + np.exp(-((hours - 18) ** 2) / 8))
    minutes = np.round(180 * rng.beta(8 * middle, 8 * (1 - middle)), 1)
    people = folder / "people.csv"
    pyarrow.csv.write_csv(pa.table({"minutes": minutes, "left": times}), people)
    users = [f"u{place}" for place in range(len(times))]
    truth = ["--truth", str(people), "--value-column", "minutes", "--time-column", "left"]
    columns = {"values": minutes, "user_ids": users, "event_times": times}
    return estimated(folder / "run", WINDOWS, truth, minutes=columns)


def keys(folder: Path) -> Path:
    """Stars that people give to the films they saw."""
    rng = np.random.default_rng(3)
    domain = ldp.Study.from_yaml(KEYS).attribute("stars").domain
    assert isinstance(domain, KeyValues)
    films = domain.keys
    seen = rng.random((20_000, len(films))) < np.linspace(0.55, 0.05, len(films))
    stars = np.round(np.clip(rng.normal(np.linspace(4.4, 2.2, len(films)), 0.7, seen.shape), 1, 5), 1)
    given = [
        dict(zip(np.take(films, np.flatnonzero(one)), own[one], strict=True))
        for one, own in zip(seen, stars, strict=True)
    ]
    rows = [
        (f"u{user}", film, value)
        for user, own in enumerate(given)
        for film, value in (own.items() or [("", 1)])
    ]
    people = folder / "people.csv"
    pyarrow.csv.write_csv(
        pa.table(dict(zip(("user", "film", "stars"), map(list, zip(*rows, strict=True)), strict=True))),
        people,
    )
    truth = [
        "--truth",
        str(people),
        "--key-column",
        "film",
        "--value-column",
        "stars",
        "--user-column",
        "user",
    ]
    columns = {"values": given, "user_ids": [f"u{place}" for place in range(len(given))]}
    return estimated(folder / "run", KEYS, truth, stars=columns)


def groups(folder: Path) -> Path:
    """Minutes and vehicles of people in six regions."""
    rng = np.random.default_rng(4)
    place = rng.choice(6, 36_000, p=[0.3, 0.22, 0.18, 0.14, 0.1, 0.06])
    middle = np.array([0.25, 0.4, 0.3, 0.55, 0.2, 0.65])[place]
    shares = np.array(
        [
            [6, 2, 1, 3, 1, 1],
            [5, 3, 1, 2, 1, 2],
            [4, 2, 4, 1, 2, 1],
            [8, 1, 1, 2, 1, 1],
            [1, 2, 4, 3, 5, 4],
            [7, 1, 3, 1, 2, 1],
        ]
    )
    vehicles = np.array(["car", "bus", "bike", "train", "foot", "tram"])
    chosen = [vehicles[rng.choice(6, p=shares[one] / shares[one].sum())] for one in place]
    common = {"user_ids": [f"u{user}" for user in range(len(place))], "groups": np.take(REGIONS, place)}
    minutes = {"values": 120 * rng.beta(7 * middle, 7 * (1 - middle)), **common}
    return estimated(folder / "run", GROUPS, [], minutes=minutes, vehicle={"values": chosen, **common})


def stream(folder: Path) -> Path:
    """A stream that was stopped while a window was open."""
    output, page = folder / "out", folder / "report.html"
    demo = [sys.executable, str(ROOT / "examples" / "stream" / "demo.py"), "--rate", "2000"]
    subprocess.run([*demo, "--seconds", "75", "--output", str(output)], check=True)
    run("report", output, "-o", page)
    return page


#: How pages are made, and pictures: a name, the width of the window, the theme, the figure (None: the top;
#: a class: what has it).
PICTURES: dict[str, tuple[Callable[[Path], Path], list[tuple[str, int, str, str | None]]]] = {
    "commute": (commute, [("commute", 1180, "light", ".figures")]),
    "diamonds": (
        diamonds,
        [
            ("diamonds", 1180, "light", None),
            ("phone", 400, "dark", None),
            ("dark", 1180, "dark", "Distribution"),
        ],
    ),
    "windows": (windows, [("windows", 1180, "light", "over time")]),
    "keys": (keys, [("keys", 1180, "light", "Mean stars of each key")]),
    "groups": (groups, [("groups", 1180, "light", "Distribution")]),
    "stream": (stream, [("stream", 1180, "light", "over time")]),
}


def photograph(browser: Browser, page: Path, name: str, width: int, scheme: Any, figure: str | None) -> None:
    """Write one picture, of a figure or of the top of the page."""
    height = 1240 if width > 600 else 1500
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
    view = context.new_page()
    view.goto(page.as_uri())
    path = IMAGES / f"report-{name}.png"
    if figure is None:
        view.screenshot(path=path)
    elif figure.startswith("."):
        view.locator(figure).first.screenshot(path=path)
    else:
        view.locator("figure").filter(has=view.locator("h3", has_text=figure)).first.screenshot(path=path)
    context.close()
    print(f"{path.relative_to(ROOT)}: {path.stat().st_size / 1000:.0f} kB", flush=True)


def main() -> None:
    """Make the pages and the pictures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", nargs="+", choices=PICTURES, default=list(PICTURES))
    chosen = parser.parse_args().only
    with tempfile.TemporaryDirectory() as temporary, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for name in chosen:
            made, pictures = PICTURES[name]
            folder = Path(temporary) / name
            folder.mkdir()
            page = made(folder)
            for picture in pictures:
                photograph(browser, page, *picture)
        browser.close()


if __name__ == "__main__":
    main()
