"""``ldpbeam report``: what it reads and writes, and what it prints."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from importlib.util import find_spec

from ldpbeam.pipelines.clients.people import People
from ldpbeam.pipelines.commands.estimate_options import truth_of
from ldpbeam.pipelines.commands.explain import explain
from ldpbeam.pipelines.errors import DONE, UserError
from ldpbeam.pipelines.printing import document, step
from ldpbeam.pipelines.results.read import read_results
from ldpbeam.pipelines.results.results import Results
from ldpbeam.pipelines.runs.output import named_in_errors
from ldpbeam.pipelines.terminal import shown
from ldpbeam.transforms.storage import write_bytes


def report_command(options: argparse.Namespace) -> int:
    """Run ``ldpbeam report`` and return its exit code.

    Raises:
        UserError: if an output folder cannot be read, the truth is not of its study, the page cannot be
            written, or the extra is missing.
    """
    check_extra()
    with step("reading"):
        outputs = [read_results(output) for output in options.outputs]
    people = _people(options, outputs)
    with step("drawing"):
        size = write_page(options.output, outputs, people)
    if not document({"page": options.output, "bytes": size}):
        print(f"{shown(options.output)}: {size / 1e6:.1f} MB, opens in any browser")
    return DONE


def write_page(path: str, outputs: Sequence[Results], people: Mapping[str, People]) -> int:
    """Write the page of some outputs, whole or not at all, and return its size in bytes.

    Args:
        path: the file.
        outputs: what is in each output folder.
        people: true values to compare with, by attribute.

    Raises:
        UserError: if the page cannot be written.
    """
    from ldpbeam.pipelines.pages.contents import content_of
    from ldpbeam.pipelines.pages.page import page

    text = page(
        [
            content_of(results, explain(results.study) if results.study is not None else [], people)
            for results in outputs
        ]
    ).encode()
    with named_in_errors(path):
        write_bytes(path, text)
    return len(text)


def check_extra() -> None:
    """Check that the libraries of the page are installed.

    Raises:
        UserError: if they are not.
    """
    if find_spec("altair") is None or find_spec("vl_convert") is None:
        raise UserError("the page needs the extra [report]: pip install 'ldpbeam[report]'")


def _people(options: argparse.Namespace, outputs: Sequence[Results]) -> dict[str, People]:
    """True values by attribute; empty without ``--truth``."""
    if not options.truth:
        return {}
    for results in outputs:
        study = results.study
        if study is None:
            why = results.study_problem or "it does not hold its study; estimate again with this version"
            raise UserError(f"--truth: {results.folder}: {why}")
        if options.attribute is not None and options.attribute not in study.attributes:
            raise UserError(f"--attribute {options.attribute}: the study has {', '.join(study.attributes)}")
        if study.fingerprint != outputs[0].about.study_fingerprint:
            raise UserError("--truth: the outputs are of several studies: make a page for each")
    assert study is not None
    found = truth_of(options, study)
    return {} if found is None else {options.attribute or next(iter(study.attributes)): found}
