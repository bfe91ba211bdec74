"""The program that runs the clients in JavaScript."""

from __future__ import annotations

import os
import shutil

import pytest


@pytest.fixture(scope="module")
def node() -> str:
    """The program that runs JavaScript."""
    found = shutil.which("node")
    if found is None:
        sentence = "node is not here: install Node 20 or later to test the client in JavaScript"
        if os.environ.get("LDPBEAM_REQUIRE_INTEGRATION") == "1":
            pytest.fail(sentence)
        pytest.skip(sentence)
    return found
