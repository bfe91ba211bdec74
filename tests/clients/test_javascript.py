"""The client in JavaScript: its own tests, the reports of every mechanism, and an estimate from its lines."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.given_draws import Given, domain_of, mechanism_of, sent

import ldpbeam
from ldpbeam import build_mechanism, registered_mechanisms
from ldpbeam.clients.described import described_clients
from ldpbeam.clients.values import scaled_means
from ldpbeam.domains import Categories, KeyValues, Vector
from ldpbeam.mechanisms import PrivKVM
from ldpbeam.mechanisms.mechanism_options import options_of
from ldpbeam.schemas.files.json_lines import decode_lines
from ldpbeam.schemas.reports.columns import Columns
from ldpbeam.schemas.study.models import DomainModel
from ldpbeam.schemas.study.service_models import ServiceModel
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.transforms.reports.payloads import checked_payloads
from ldpbeam.transforms.reports.validation import (
    LONGEST_GROUP,
    LONGEST_REPORT_ID,
    LONGEST_USER_ID,
    Validation,
    wanted_columns,
)

ROOT = Path(__file__).parents[2]
VECTORS: list[dict[str, Any]] = json.loads((ROOT / "schemas" / "test_vectors.json").read_text())
SERVICES: list[dict[str, Any]] = json.loads(
    (ROOT / "clients" / "javascript" / "test" / "services.json").read_text()
)
#: Every report of the test vectors' services needs fewer draws.
DRAWS = 40
STUDY = """\
study: commute
attributes:
  minutes:
    domain: {numeric: [0, 180]}
    services: {maps: {mechanism: piecewise, epsilon: 1.5}}
    estimates: {mean: {estimator: ivw}}
windows: {size: 1h}
"""


@pytest.fixture(scope="module")
def lines(node: str) -> Callable[[Any], bytes]:
    """What the client prints for some services and their people."""

    def run(services: Any) -> bytes:
        driver = Path(__file__).with_name("reports.mjs")
        ran = subprocess.run([node, driver], input=json.dumps(services).encode(), capture_output=True)
        assert ran.returncode == 0, ran.stderr.decode()
        return ran.stdout

    return run


def services() -> Iterator[dict[str, Any]]:
    """Every service of the test vectors, each once, with its own epsilon and others."""
    seen = set()
    for vector in VECTORS:
        others = () if vector["mechanism"] == "matrix" else (0.3, 2.5, 7.0)
        for epsilon in (vector["epsilon"], *others):
            if epsilon > 1 and vector["options"].get("calibration") == "classical":
                continue
            names = ("mechanism", "options", "domain", "means")
            service = {name: vector[name] for name in names if name in vector} | {"epsilon": epsilon}
            if json.dumps(service) not in seen:
                seen.add(json.dumps(service))
                yield service


def value_in(service: dict[str, Any], random: np.random.Generator) -> Any:
    """A person's value."""
    domain = domain_of(service)
    if isinstance(domain, Categories):
        return int(random.integers(domain.size))
    if isinstance(domain, KeyValues):
        return {str(key): random.random() for key in range(domain.size) if random.random() < 0.5}
    return [*random.random(domain.size)] if isinstance(domain, Vector) else domain.high * random.random()


@pytest.fixture(scope="module")
def every() -> list[dict[str, Any]]:
    return list(services())


def test_its_own_tests_pass(node: str) -> None:
    ran = subprocess.run(
        [node, "--test", "--test-reporter=tap"],
        cwd=ROOT / "clients" / "javascript",
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stdout
    (passed,) = re.findall(r"^# pass (\d+)$", ran.stdout, flags=re.MULTILINE)
    assert int(passed) > len(VECTORS)


def refused(service: dict[str, Any]) -> bool:
    """Whether a study with this service, or a client of it, is refused in Python."""
    known = {**service, **service.get("options", {})}
    domain, means = known.pop("domain"), known.pop("means", None)
    known.pop("options", None)
    try:
        domain = DomainModel(**domain).domain
        model = ServiceModel(**known)
        if model.mechanism is None or model.epsilon is None:
            return True
        mechanism = build_mechanism(model.mechanism, domain, model.epsilon, **(model.model_extra or {}))
        if means is not None:
            if not (isinstance(mechanism, PrivKVM) and mechanism.round > 1 and len(means) == domain.size):
                return True
            scaled_means(domain, dict(zip(domain.keys, means, strict=True)))
    except ValueError:
        return True
    return means is None and isinstance(mechanism, PrivKVM) and mechanism.round > 1


def test_python_refuses_what_the_clients_table_says_and_nothing_else() -> None:
    # The client's own tests read the same table.
    assert sum(not row["taken"] for row in SERVICES) > 100
    for row in SERVICES:
        assert refused(row["service"]) != row["taken"], row


def test_the_table_has_every_option_with_values_that_are_taken_and_refused() -> None:
    tried: dict[tuple[str, str], dict[bool, list[Any]]] = {}
    for row in SERVICES:
        for option, value in row["service"].get("options", {}).items():
            both = tried.setdefault((row["service"]["mechanism"], option), {True: [], False: []})
            both[row["taken"]].append(value)
    for name, mechanism in registered_mechanisms().items():
        for option, described in options_of(mechanism).items():
            taken, not_taken = tried[name, option][True], tried[name, option][False]
            assert taken and not_taken
            for kind in described.kinds:
                assert set(kind.choices) <= {value for value in taken if not isinstance(value, list)}
                # Ends of the range are tried, and what is just beyond.
                ends = kind.range
                assert ends.least is None or ends.least in taken
                assert ends.most is None or ends.most in taken
                assert ends.below is None or ends.below in not_taken
                assert ends.above is None or ends.above in not_taken
                assert ends.least is None or any(v < ends.least for v in numbers(not_taken))
                assert ends.most is None or any(v > ends.most for v in numbers(not_taken))


def numbers(values: list[Any]) -> list[float]:
    return [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]


@pytest.fixture(scope="module")
def installed(node: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the package that ``npm pack`` makes is installed, without a network."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not here: install it to test the package in JavaScript")
    folder = tmp_path_factory.mktemp("installed")
    packed = npm_ran(npm, "pack", "--pack-destination", folder, cwd=ROOT / "clients" / "javascript")
    (folder / "package.json").write_text('{"private": true, "type": "module"}')
    npm_ran(npm, "install", "--offline", "--no-audit", "--no-fund", f"./{packed.split()[-1]}", cwd=folder)
    (folder / "study.json").write_text(json.dumps({"clients": described_clients(parse_study(STUDY))}))
    return folder


def npm_ran(npm: str, *arguments: object, cwd: Path) -> str:
    ran = subprocess.run(
        [npm, *map(str, arguments), "--loglevel=error"], cwd=cwd, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_the_package_has_what_it_needs_and_works_where_it_is_installed(node: str, installed: Path) -> None:
    package = installed / "node_modules" / "ldpbeam-client"
    source = ROOT / "clients" / "javascript"
    files = {str(path.relative_to(package)) for path in package.rglob("*") if path.is_file()}
    modules = {str(path.relative_to(source)) for path in (source / "src").glob("*.js")}
    assert files == {"LICENSE", "README.md", "index.d.ts", "index.js", "package.json", *modules}
    assert (source / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    described = json.loads((source / "package.json").read_text())
    assert described["version"] == ldpbeam.__version__
    assert f"ldpbeam-client-{ldpbeam.__version__}.tgz" in (source / "README.md").read_text()
    for block in reversed(examples()):
        ran = subprocess.run(
            [node, "--input-type=module", "-"], input=block, cwd=installed, capture_output=True, text=True
        )
        assert ran.returncode == 0, ran.stderr
    (batch,) = decode_lines(0, ran.stdout.encode(), Columns())
    assert batch.num_rows == 1


EVERYTHING = """\
study: everything
attributes:
  minutes:
    domain: {numeric: [0, 180], step: 0.5}
    services:
      maps: {mechanism: square_wave, epsilon: 1}
      taxi: {mechanism: piecewise, epsilon: 1, lifetime_epsilon: 2}
  bytes:
    domain: {numeric: [1, 65536], scale: log}
    services:
      web: {mechanism: square_wave, epsilon: 1}
      app: {mechanism: piecewise, epsilon: 1, lifetime_epsilon: 2}
  drink: {domain: {categories: [tea, coffee]}, services: {app: {mechanism: olh, epsilon: 1, seeds: 64}}}
  code: {users: none, domain: {categories: 12}, services: {app: {mechanism: auto, epsilon: 1}}}
  rating:
    domain: {keys: [drama, comedy], values: [0, 10]}
    services: {films: {mechanism: pckv_grr, epsilon: 2}}
  pulse:
    domain: {coordinates: [rest, run], values: [40, 200]}
    services: {watch: {mechanism: stochastic_rounding, epsilon: 2}}
windows: {size: 1h}
groups: {field: region, at_most: 3}
"""
#: Makes a report of each client of a study.
OF_STUDY = """\
import { fromStudy } from "ldpbeam-client";
import { readFileSync } from "node:fs";
const [study, values] = JSON.parse(readFileSync(0, "utf8"));
const device_key = new Uint8Array(32);
for (const { attribute, service, users, lifetime_epsilon } of study.clients) {
  const key = lifetime_epsilon === undefined ? {} : { device_key };
  const known = fromStudy(study, { attribute, service, ...key });
  const payload = await known.report(values[attribute]);
  const user = users === "none" ? {} : { user_id: "u1" };
  console.log(known.line({ ...user, event_time: new Date(), region: "north", payload }));
}
"""


def test_each_client_of_a_study_sends_what_the_study_reads(node: str, installed: Path) -> None:
    study = parse_study(EVERYTHING)
    clients = described_clients(study)
    values = {
        "minutes": 42, "bytes": 900, "drink": "tea", "code": 11, "rating": {"drama": 4}, "pulse": [60, 120],
    }  # fmt: skip
    (installed / "of_study.mjs").write_text(OF_STUDY)
    given = json.dumps([{"clients": clients}, values]).encode()
    ran = subprocess.run([node, "of_study.mjs"], input=given, cwd=installed, capture_output=True)
    assert ran.returncode == 0, ran.stderr
    batches = list(decode_lines(0, ran.stdout, wanted_columns(study, None, None)))
    letters = [letter for batch in batches for letter in Validation(study).validate(batch).letters]
    assert (sum(batch.num_rows for batch in batches), letters) == (len(clients), []) and len(clients) == 8


def examples() -> list[str]:
    """The examples of the client's README, of which the first makes a report."""
    blocks = re.findall(
        r"```js\n(.*?)```", (ROOT / "clients" / "javascript" / "README.md").read_text(), re.DOTALL
    )
    assert len(blocks) == 3
    return blocks


def test_types_take_what_the_client_takes_and_refuse_mistakes(node: str, installed: Path) -> None:
    npm = shutil.which("npm")
    wanted = ("install", "--no-save", "--no-audit", "--no-fund", "--fetch-retries=0", "typescript@5")
    got = subprocess.run([npm, *wanted], cwd=installed, capture_output=True, text=True)
    if got.returncode:
        pytest.skip("TypeScript cannot be had from a registry of npm: the types are not checked")
    shutil.copy(Path(__file__).with_name("types.ts"), installed)
    files = ["types.ts"]
    for place, example in enumerate(examples()):
        files.append(f"example{place}.ts")
        (installed / files[-1]).write_text(example)
    compiler = installed / "node_modules" / "typescript" / "bin" / "tsc"
    options = ("--noEmit", "--strict", "--module", "nodenext", "--target", "es2022", "--resolveJsonModule")
    ran = subprocess.run([node, compiler, *options, *files], cwd=installed, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout


def test_every_mechanism_has_a_type() -> None:
    types = (ROOT / "clients" / "javascript" / "index.d.ts").read_text()
    for name, mechanism in registered_mechanisms().items():
        for word in (name, *(c for o in options_of(mechanism).values() for k in o.kinds for c in k.choices)):
            assert f'"{word}"' in types, word
        for option in options_of(mechanism):
            assert re.search(rf"\b{option}: ", types), option


def test_it_sends_what_perturb_sends(every: list[dict[str, Any]], lines: Callable[[Any], bytes]) -> None:
    random = np.random.default_rng(15)
    asked = [
        {
            "service": service,
            "people": [
                {"user_id": "u", "value": value_in(service, random), "draws": [*random.random(DRAWS)]}
                for _ in range(20)
            ],
        }
        for service in every
    ]
    reports = iter(lines(asked).splitlines())
    for service, people in ((part["service"], part["people"]) for part in asked):
        mechanism = mechanism_of(service)
        for person in people:
            expected = sent(service, mechanism, person["value"], Given(person["draws"]))
            found = json.loads(next(reports))["payload"]
            if isinstance(found, str):
                assert found == expected, (service, person)
            else:
                # Both compute the constants in doubles, and the report here has twelve digits.
                assert found == pytest.approx(expected, rel=1e-11, abs=1e-11), (service, person)
    assert next(reports, None) is None


def test_what_it_draws_itself_is_accepted(every: list[dict[str, Any]], lines: Callable[[Any], bytes]) -> None:
    # Of fewer, all may be equal by chance: three in four people send no set bit with a padding of 3.
    random, people = np.random.default_rng(16), 100
    asked = [
        {
            "service": service,
            "people": [{"user_id": f"u{k}", "value": value_in(service, random)} for k in range(people)],
        }
        for service in every
    ]
    printed = lines(asked).splitlines()
    for start, service in enumerate(every):
        own = b"\n".join(printed[people * start : people * (start + 1)])
        (batch,) = decode_lines(0, own, Columns())
        assert batch.num_rows == people
        payloads, problems = checked_payloads(mechanism_of(service), batch, np.arange(people))
        assert not problems.any(), service
        assert len(np.unique(payloads)) > 1, service


@pytest.mark.parametrize(
    ("field", "most"),
    [("user_id", LONGEST_USER_ID), ("report_id", LONGEST_REPORT_ID), ("region", LONGEST_GROUP)],
)
def test_it_refuses_the_texts_that_readers_refuse(
    field: str, most: int, node: str, lines: Callable[[Any], bytes]
) -> None:
    validation = Validation(parse_study(STUDY + "groups: {field: region}\n"))
    wanted = Columns("minutes", "maps", ("region",))
    service = {"mechanism": "piecewise", "epsilon": 1.5, "domain": {"numeric": [0, 180]}}
    person = {"user_id": "u", "event_time": "2026-11-20T11:30:00Z", "value": 7, field: "é" * (most // 2)}
    (batch,) = decode_lines(0, lines([{"service": service, "people": [person]}]), wanted)
    assert not list(validation.validate(batch).letters)
    # One byte more is a dead letter, so the client refuses it.
    longer = pa.array([person[field] + "x"]).cast(batch.column(field).type)
    batch = batch.set_column(batch.schema.get_field_index(field), field, longer)
    (letters,) = validation.validate(batch).letters
    assert letters.column("reason").to_pylist() == [{"region": "group"}.get(field, field) + "_too_long"]
    asked = [{"service": service, "people": [{**person, field: person[field] + "x"}]}]
    driver = Path(__file__).with_name("reports.mjs")
    ran = subprocess.run([node, driver], input=json.dumps(asked), capture_output=True, text=True)
    assert ran.returncode and f"TypeError: {field} must be text of" in ran.stderr
