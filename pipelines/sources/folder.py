"""Files that appear, as a source of streams."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from ldpbeam.errors import UserError, without_number
from ldpbeam.pipelines.sources.opening import Opened, Opening, Run
from ldpbeam.transforms.sources.files import entries_of
from ldpbeam.transforms.sources.folder import FolderFeed, merged


def opening(options: argparse.Namespace) -> Opening:
    """What opens the files that the options name."""
    return partial(open_files, tuple(options.input))


@contextmanager
def open_files(patterns: tuple[str, ...], run: Run) -> Iterator[Opened]:
    """The files that match patterns, but for what this run and earlier ones have read.

    Raises:
        UserError: if a pattern cannot be searched for.
    """
    for pattern in patterns:
        try:
            entries_of([pattern])
        except (OSError, ValueError) as error:
            raise UserError(f"--input {pattern}: {without_number(str(error))}") from None
    position = merged(run.earlier) if run.position is None else run.position
    yield Opened(FolderFeed(patterns, run.columns), position)
