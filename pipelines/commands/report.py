"""``ldpbeam report``: what it reads and writes, and what it prints."""

from __future__ import annotations

import argparse
from importlib.util import find_spec

from ldpbeam.pipelines.errors import DONE, UserError
from ldpbeam.pipelines.runs.output import named_in_errors
from ldpbeam.pipelines.terminal import shown
from ldpbeam.transforms.storage import read_json, read_json_lines, write_bytes


def report_command(options: argparse.Namespace) -> int:
    """Run ``ldpbeam report`` and return its exit code.

    Raises:
        UserError: if an output folder cannot be read, the page cannot be written, or the extra is missing.
    """
    if find_spec("altair") is None or find_spec("vl_convert") is None:
        raise UserError("the page needs the extra [report]: pip install 'ldpbeam[report]'")
    from ldpbeam.pipelines.pages.contents import content_of
    from ldpbeam.pipelines.pages.page import page

    contents = []
    for output in options.outputs:
        with named_in_errors(output):
            records = read_json_lines(f"{output}/estimates.jsonl")
            contents.append(content_of(records, read_json(f"{output}/accounting.json")))
    text = page(contents).encode()
    with named_in_errors(options.output):
        write_bytes(options.output, text)
    print(f"{shown(options.output)}: {len(text) / 1e6:.1f} MB, opens in any browser")
    return DONE
