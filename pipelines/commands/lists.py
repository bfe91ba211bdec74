"""What prints texts about studies and clients: explain and vectors."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from importlib.resources import files

from ldpbeam.answers.explain import explain
from ldpbeam.answers.registry_entry import registry_entry
from ldpbeam.clients.described import described_clients
from ldpbeam.command_line.checks import study_of
from ldpbeam.errors import DONE, UserError, meant_or_known
from ldpbeam.estimators import registered_estimators
from ldpbeam.mechanisms.registry import KINDS, registered_mechanisms
from ldpbeam.printing import document
from ldpbeam.schemas.study.json_schema import study_schema
from ldpbeam.study import Study
from ldpbeam.transforms.counted.sql import sql_of_numbers
from ldpbeam.untrusted import shown


def explain_command(options: argparse.Namespace) -> int:
    """Run ``ldpbeam explain`` and return its exit code."""
    if options.mechanisms:
        _print_mechanisms()
    elif options.estimators:
        _print_estimators()
    elif options.schema:
        print(json.dumps(study_schema(), indent=2))
    elif options.registry:
        print(json.dumps(registry_entry(study_of(options.registry)), indent=2))
    elif options.counts:
        _print_counts(study_of(options.counts))
    else:
        _print_study(study_of(options.study))
    return DONE


def _print_mechanisms() -> None:
    """Print a line for each mechanism: its name, what it perturbs, and a summary."""
    _print_rows(
        {"name": name, "perturbs": KINDS[mechanism.domain_type], "summary": mechanism.summary}
        for name, mechanism in registered_mechanisms().items()
    )


def _print_estimators() -> None:
    """Print a line for each estimator: its name and a summary."""
    _print_rows({"name": name, "summary": of.summary} for name, of in registered_estimators().items())


def _print_rows(given: Iterable[dict[str, str]]) -> None:
    rows = list(given)
    document(rows)
    for row in rows:
        *before, summary = row.values()
        print("".join(f"{text:<22}" for text in before) + summary)


def _print_counts(study: Study) -> None:
    """Print, for each service of numbers, the SQL of a report's cell and of its number of steps."""
    listed = list(sql_of_numbers(study))
    document(listed)
    for entry in listed:
        print(
            f"-- {entry['attribute']}, {entry['service']}\n{entry['cell']} AS cell,\n{entry['step']} AS step"
        )


def _print_study(study: Study) -> None:
    """Print what a study will do, a sentence per line."""
    sentences = explain(study)
    document({"study": study.name, "sentences": sentences, "clients": described_clients(study)})
    for number, sentence in enumerate(sentences, 1):
        print(f"{number}. {shown(sentence)}")


def vectors_command(options: argparse.Namespace) -> int:
    """Run ``ldpbeam vectors`` and return its exit code.

    It prints a JSON array with one object per line.
    """
    name = options.mechanism
    file = "memo_vectors.json" if options.memoised else "test_vectors.json"
    vectors = json.loads((files("ldpbeam.schemas") / file).read_text(encoding="utf-8"))
    if name is not None:
        known = list(dict.fromkeys(vector["mechanism"] for vector in vectors))
        vectors = [vector for vector in vectors if vector["mechanism"] == name]
        if not vectors:
            hint = meant_or_known(name, known)
            raise UserError(f"there are no test vectors of mechanism {name!r}; {hint}")
    print("[\n" + ",\n".join(map(json.dumps, vectors)) + "\n]")
    return DONE
