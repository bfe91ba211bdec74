"""What an engine logs of an error that ends a stream is left out: the command has one sentence on it."""

from __future__ import annotations

import logging

import pytest

from ldpbeam.pipelines.runs.stream_watch import _engine_quiet

FULL_DISK = (
    "bundle inst1 stage-006 failed:Traceback (most recent call last):\n"
    '  File "storage.py", line 56, in replacing\n    yield stream\n'
    "OSError: [Errno 28] No space left on device\n"
)


def test_a_full_disk_is_not_logged_and_what_nobody_knows_is(caplog: pytest.LogCaptureFixture) -> None:
    unknown = FULL_DISK.replace("OSError: [Errno 28]", "ZeroDivisionError:")
    level = logging.getLogger("Prism").level
    with _engine_quiet():
        logging.getLogger("Prism").error("job failed")
        logging.getLogger().error(FULL_DISK)
        logging.getLogger().error(unknown)
    assert [record.getMessage() for record in caplog.records] == [unknown]
    assert logging.getLogger("Prism").level == level
    logging.getLogger().error(FULL_DISK)
    assert len(caplog.records) == 2
