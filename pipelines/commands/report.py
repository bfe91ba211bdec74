"""``ldpbeam report``: what it reads and writes, and what it prints."""

from __future__ import annotations

import argparse
from importlib.util import find_spec

from ldpbeam.pipelines.clients.people import People
from ldpbeam.pipelines.commands.estimate_options import truth_of
from ldpbeam.pipelines.commands.explain import explain
from ldpbeam.pipelines.commands.options import study_of
from ldpbeam.pipelines.errors import DONE, UserError
from ldpbeam.pipelines.results.read import read_results
from ldpbeam.pipelines.runs.output import named_in_errors
from ldpbeam.pipelines.terminal import shown
from ldpbeam.study import Study
from ldpbeam.transforms.storage import write_bytes


def report_command(options: argparse.Namespace) -> int:
    """Run ``ldpbeam report`` and return its exit code.

    Raises:
        UserError: if an output folder cannot be read, the study is not that of an output, the page cannot be
            written, or the extra is missing.
    """
    check_extra()
    from ldpbeam.pipelines.pages.contents import content_of
    from ldpbeam.pipelines.pages.page import page

    if options.truth and not options.study:
        raise UserError("--truth needs --study, which says how the values are cut into buckets")
    study = study_of(options.study, options.attribute) if options.study else None
    people = _people(options, study)
    sentences = explain(study) if study is not None else []
    contents = []
    for output in options.outputs:
        results = read_results(output)
        if study is not None and results.about.study_fingerprint != study.fingerprint:
            raise UserError(
                f"--study {options.study}: {output} is of another study, or of an earlier form of it"
            )
        contents.append(content_of(results, study, sentences, people))
    text = page(contents).encode()
    with named_in_errors(options.output):
        write_bytes(options.output, text)
    print(f"{shown(options.output)}: {len(text) / 1e6:.1f} MB, opens in any browser")
    return DONE


def check_extra() -> None:
    """Check that the libraries of the page are installed.

    Raises:
        UserError: if they are not.
    """
    if find_spec("altair") is None or find_spec("vl_convert") is None:
        raise UserError("the page needs the extra [report]: pip install 'ldpbeam[report]'")


def _people(options: argparse.Namespace, study: Study | None) -> dict[str, People]:
    """True values by attribute; empty without ``--truth``."""
    if study is None:
        return {}
    found = truth_of(options, study)
    return {} if found is None else {options.attribute or next(iter(study.attributes)): found}
