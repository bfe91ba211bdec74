"""A headless Chromium for the tests of pages, and what a page did in it.

Without a browser these tests are skipped; with ``LDPBEAM_REQUIRE_INTEGRATION=1`` they fail.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

MISSING = "there is no chromium-headless-shell: apt-get install chromium-headless-shell"


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    program = shutil.which("chromium-headless-shell")
    if program is None:
        if os.environ.get("LDPBEAM_REQUIRE_INTEGRATION") == "1":
            pytest.fail(MISSING, pytrace=False)
        pytest.skip(MISSING)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # Chromium refuses its sandbox to root, who runs tests in containers.
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@dataclass
class Opened:
    """A page in the browser, what it asked for, and what it said in the console."""

    page: Any
    requests: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    @property
    def overflow(self) -> int:
        """By how many pixels the page is wider than the window."""
        return int(self.page.evaluate("document.documentElement.scrollWidth - innerWidth"))


@pytest.fixture
def open_page(chromium: Any) -> Iterator[Callable[..., Opened]]:
    contexts = []

    def open_it(path: Path, width: int = 1280, scheme: str = "light") -> Opened:
        context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        # A machine may be busy; what never comes is named all the same.
        context.set_default_timeout(300_000)
        contexts.append(context)
        opened = Opened(context.new_page())
        opened.page.on("request", lambda request: opened.requests.append(request.url))
        opened.page.on("console", lambda message: opened.said.append(message.text))
        opened.page.on("pageerror", lambda error: opened.said.append(str(error)))
        opened.page.goto(path.as_uri())
        return opened

    yield open_it
    for context in contexts:
        context.close()
