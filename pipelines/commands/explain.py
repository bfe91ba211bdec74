"""``ldpbeam explain``: describes a run in sentences."""

from __future__ import annotations

import argparse

from ldpbeam.pipelines.commands.options import study_of
from ldpbeam.pipelines.errors import DONE
from ldpbeam.pipelines.estimates.explain import explain
from ldpbeam.pipelines.printing import document
from ldpbeam.untrusted import shown


def explain_command(options: argparse.Namespace) -> int:
    """Run ``ldpbeam explain`` and return its exit code."""
    study = study_of(options.study)
    sentences = explain(study)
    if document({"study": study.name, "sentences": sentences}):
        return DONE
    for number, sentence in enumerate(sentences, 1):
        print(f"{number}. {shown(sentence)}")
    return DONE
