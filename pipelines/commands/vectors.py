"""``ldpbeam vectors``: prints the test vectors that every client must pass (``docs/reports.md``)."""

from __future__ import annotations

import argparse
import json
from importlib.resources import files

from ldpbeam.pipelines.errors import DONE, UserError, meant_or_known


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
