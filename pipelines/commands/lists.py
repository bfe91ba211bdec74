"""``ldpbeam mechanisms``, ``estimators`` and ``schema``: what a study can name."""

from __future__ import annotations

import argparse
import json

from ldpbeam.estimators import registered_estimators
from ldpbeam.mechanisms.registry import KINDS, registered_mechanisms
from ldpbeam.pipelines.errors import DONE
from ldpbeam.pipelines.printing import document
from ldpbeam.schemas.study.json_schema import study_schema


def mechanisms_command(_: argparse.Namespace) -> int:
    """Print a line for each mechanism: its name, what it perturbs, and a summary."""
    known = registered_mechanisms()
    listed = [
        {"name": name, "perturbs": KINDS[mechanism.domain_type], "summary": mechanism.summary}
        for name, mechanism in known.items()
    ]
    if document(listed):
        return DONE
    for name, mechanism in known.items():
        print(f"{name:<22}{KINDS[mechanism.domain_type]:<18}{mechanism.summary}")
    return DONE


def estimators_command(_: argparse.Namespace) -> int:
    """Print a line for each estimator: its name and a summary."""
    known = registered_estimators()
    if document([{"name": name, "summary": estimator.summary} for name, estimator in known.items()]):
        return DONE
    for name, estimator in known.items():
        print(f"{name:<22}{estimator.summary}")
    return DONE


def schema_command(_: argparse.Namespace) -> int:
    """Print the JSON Schema of study files."""
    print(json.dumps(study_schema(), indent=2))
    return DONE
