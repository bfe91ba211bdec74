"""The JSON Schema of studies: it takes every good study, and underlines what an editor should underline."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator
from test_study_file import MISTAKES

from ldpbeam.errors import StudyError
from ldpbeam.estimators import registered_estimators
from ldpbeam.mechanisms import registered_mechanisms
from ldpbeam.mechanisms.mechanism_options import options_of
from ldpbeam.schemas.study.json_schema import study_schema
from ldpbeam.schemas.study.yaml_file import _Loader, parse_study

ROOT = Path(__file__).parents[2]
GOOD = """\
study: s
attributes:
  price:
    domain: {numeric: [0, 100]}
    services:
      auction: {mechanism: piecewise, epsilon: 1.0}
      shop: {mechanism: general_wave, epsilon: 1.0, top: 0.5}
    estimates: {all: {estimator: ems, max_iterations: 100}, plain: {}}
"""
KINDS = ("numeric", "categories", "candidates", "keys", "coordinates")


@pytest.fixture(scope="module")
def schema() -> Draft202012Validator:
    """What checks a study as an editor does."""
    schema_of_studies = study_schema()
    Draft202012Validator.check_schema(schema_of_studies)
    return Draft202012Validator(schema_of_studies)


def loaded(text: str) -> Any:
    return yaml.load(text, _Loader)


def studies() -> dict[str, str]:
    """Every good study of the examples, documents and tests, by where it is."""
    texts = {str(path.relative_to(ROOT)): path.read_text() for path in ROOT.glob("examples/*/*.yaml")}
    for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]:
        for number, block in enumerate(re.findall(r"```yaml\n(.*?)```", path.read_text(), re.DOTALL)):
            if block.startswith("study:"):
                texts[f"{path.relative_to(ROOT)} {number}"] = block
    for path in [*ROOT.glob("tests/**/*.py"), *ROOT.glob("ldpbeam/**/*.py")]:
        for number, block in enumerate(re.findall(r'= """\\\n(study: .*?)"""', path.read_text(), re.DOTALL)):
            texts[f"{path.relative_to(ROOT)} {number}"] = block
    return {name: text for name, text in texts.items() if good(text)}


def good(text: str) -> bool:
    """Whether a study can be read; that of the example of a plugin cannot without the plugin."""
    try:
        parse_study(text)
    except StudyError:
        return False
    return True


STUDIES = studies()


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_that_is_read_is_taken(name: str, schema: Draft202012Validator) -> None:
    assert [error.message for error in schema.iter_errors(loaded(STUDIES[name]))] == []


def test_there_are_studies_of_every_kind() -> None:
    assert len(STUDIES) > 40
    assert all(any(f"{kind}:" in text for text in STUDIES.values()) for kind in KINDS)


#: What only a reader that compiles a study sees, by what it says.
BEYOND = (
    *("unknown service", "does not fit", "does not group", "low < high", "low <= high"),
    *("found nan", "finite number"),
    *("does not divide", "there may", "must divide that"),
    *("names as in UTC", "is no time zone"),
    *("is for categories", "are listed twice in the domain", "two categories or more", "step is for numbers"),
)
#: Mistakes of keys, options and values that test_study_file does not have.
WRONG = [
    ("study: s\n", ""),
    ("top: 0.5", "top: 1.5"),
    ("top: 0.5", "top: wide"),
    ("top: 0.5", "tip: 0.5"),
    ("plain: {}", "plain: {penal: 1.0}"),
    ("study: s\n", "study: s\nwindows: {}\n"),
    ("study: s\n", "study: s\ngroups: {field: region, at_most: 0}\n"),
    ("study: s\n", "study: s\nduplicates: sometimes\n"),
    ("study: s\n", "study: s\nintervals: {level: 95}\n"),
]


def test_the_study_that_is_changed_is_good(schema: Draft202012Validator) -> None:
    parse_study(GOOD)
    assert list(schema.iter_errors(loaded(GOOD))) == []


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [*((old, new, says) for old, new, _, says in MISTAKES), *((*wrong, "") for wrong in WRONG)],
)
def test_what_a_study_cannot_say_is_underlined(
    old: str, new: str, says: str, schema: Draft202012Validator, commute_text: str
) -> None:
    good_text = commute_text if says else GOOD
    text = good_text.replace(old, new)
    assert text != good_text
    if not says:
        with pytest.raises(StudyError):
            parse_study(text)
    errors = [error.message for error in schema.iter_errors(loaded(text))]
    assert bool(errors) != any(beyond in says for beyond in BEYOND)


def test_an_unknown_key_is_named_in_the_hint(schema: Draft202012Validator) -> None:
    (error,) = schema.iter_errors(loaded(GOOD.replace("study: s\n", "study: s\nepsilon_gap: 1\n")))
    assert "'epsilon_gap' was unexpected" in error.message


@pytest.mark.parametrize(
    "versions",
    [
        "{mechanism: grr, epsilon: 1, version_field: app, versions: {a: {}, b: {epsilon: 2}}}",
        "{version_field: app, versions: {a: {mechanism: grr, epsilon: 1}, "
        "b: {mechanism: olh, epsilon: 2, seeds: any}}}",
        "{mechanism: auto, epsilon: 1, versions: {a: {until: '2026-11-20T10:00:00Z'}, "
        "b: {since: '2026-11-20T10:00:00Z', mechanism: oue}}}",
        "{mechanism: auto, epsilon: 1}",
        "{mechanism: olh, epsilon: {field: eps, values: [1, 2]}, seeds: {field: seeds, values: [64, 1024]}}",
        "{mechanism: grr, rate: {field: p, values: [0.5, 0.25]}}",
        "{mechanism: grr, epsilon: 1, replacement: any}",
        "{mechanism: oue, own: 0.65, other: 0.35}",
        "{mechanism: grr, versions: {a: {rate: 0.5, until: '2026-11-20T10:00:00Z'}, "
        "b: {epsilon: 2, since: '2026-11-20T10:00:00Z'}}}",
    ],
)
def test_versions_may_say_what_the_service_does_not(versions: str, schema: Draft202012Validator) -> None:
    head = "study: s\nattributes:\n  x:\n    domain: {categories: [a, b, c]}\n"
    text = f"{head}    services: {{one: {versions}}}\n"
    parse_study(text)
    assert list(schema.iter_errors(loaded(text))) == []
    if "versions" in text:
        assert list(schema.iter_errors(loaded(text.replace("versions: {a: {", "versions: {a: {sings: 2, "))))


def test_every_mechanism_estimator_and_option_is_described(schema: Draft202012Validator) -> None:
    service, estimate = (
        schema.schema["$defs"][f"{part}Model"]["properties"] for part in ("Service", "Estimate")
    )
    summaries = [
        {choice["const"]: choice["description"] for choice in choices["oneOf"]}
        for choices in (service["mechanism"], estimate["estimator"])
    ]
    assert summaries[0].pop("auto")
    registered = registered_mechanisms(), registered_estimators()
    assert summaries == [{name: of.summary for name, of in known.items()} for known in registered]
    for properties, options in (
        *((service, options_of(mechanism)) for mechanism in registered[0].values()),
        *((estimate, estimator.options) for estimator in registered[1].values()),
    ):
        for option in options:
            assert "description" in json.dumps(properties[option])
            assert {"type", "anyOf"} & set(properties[option])


def test_the_command_prints_it(command: Any) -> None:
    ran = command("explain", "--schema")
    assert json.loads(ran.out) == study_schema()
