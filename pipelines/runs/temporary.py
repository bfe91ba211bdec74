"""The temporary folder of a command that runs a pipeline."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ldpbeam.pipelines.interrupts import sigterm_is_ctrl_c
from ldpbeam.runners.temporary import temporary_folder


@contextmanager
def folder_of_run() -> Iterator[Path]:
    """A temporary folder, in which Beam makes its own as well: Beam leaves them.

    While it is open, SIGTERM is Ctrl-C, so that the folder is deleted.

    Raises:
        OSError: if the folder cannot be made.
    """
    with sigterm_is_ctrl_c(), temporary_folder() as folder:
        before, tempfile.tempdir = tempfile.tempdir, str(folder)
        try:
            yield folder
        finally:
            tempfile.tempdir = before
