"""Unix sockets in a folder that no other account may enter, so that no other account can connect to them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from ldpbeam.temporary import PREFIX, temporary_folder, temporary_root

#: The most bytes of a socket's path that every system accepts.
LONGEST_PATH = 100
#: The most bytes that the random end of a folder's name and a socket's name add.
_LONGEST_NAMES = 21


@contextmanager
def private_folder() -> Iterator[Path]:
    """A temporary folder for sockets that only this account may enter.

    Raises:
        OSError: if the folder cannot be made.
    """
    with temporary_folder(root_of_sockets()) as folder:
        yield folder


def root_of_sockets() -> Path:
    """The folder for folders of sockets: ``/tmp`` where the paths of sockets would be too long elsewhere.

    Raises:
        OSError: if the temporary folder cannot be written to.
    """
    root = temporary_root()
    return root if len(os.fsencode(root / PREFIX)) + _LONGEST_NAMES <= LONGEST_PATH else Path("/tmp")


def target(socket: Path) -> str:
    """The address of a socket for gRPC clients and servers."""
    return f"unix://{quote(str(socket))}"
