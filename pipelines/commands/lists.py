"""``ldpbeam mechanisms``, ``estimators`` and ``schema``: what a study can name."""

from __future__ import annotations

import argparse
import json

from ldpbeam.estimators import registered_estimators
from ldpbeam.mechanisms.registry import KINDS, registered_mechanisms
from ldpbeam.pipelines.errors import DONE
from ldpbeam.schemas.study.models import StudyModel


def mechanisms_command(_: argparse.Namespace) -> int:
    """Print a line for each mechanism: its name, what it perturbs, and a summary."""
    for name, mechanism in registered_mechanisms().items():
        print(f"{name:<22}{KINDS[mechanism.domain_type]:<18}{mechanism.summary}")
    return DONE


def estimators_command(_: argparse.Namespace) -> int:
    """Print a line for each estimator: its name and a summary."""
    for name, estimator in registered_estimators().items():
        print(f"{name:<22}{estimator.summary}")
    return DONE


def schema_command(_: argparse.Namespace) -> int:
    """Print the JSON Schema of study files."""
    print(json.dumps(StudyModel.model_json_schema(), indent=2))
    return DONE
