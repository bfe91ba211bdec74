"""A disk on which a process may end at any step, and which loses what it was not told to keep.

It is a real folder. Beside it stands what would be lost with the power: contents that were not synced, and
names of files and folders that their folder was not synced with. :meth:`UnsafeDisk.crash` draws which of
these are.
"""

from __future__ import annotations

import errno
import random
import shutil
from collections import Counter
from pathlib import Path
from typing import IO

from ldpbeam.transforms.storage import Disk


class KilledError(BaseException):
    """The process ended here. Nothing in the product catches it."""


class UnsafeDisk(Disk):
    """The disk of a simulation.

    Args:
        chance: draws what is lost.
        met: counts the kinds of faults that were met.
    """

    def __init__(self, chance: random.Random, met: Counter[str]) -> None:
        self._chance, self._met = chance, met
        #: The steps until the process ends; None for never.
        self.ends_after: int | None = None
        #: Whether the disk is full.
        self.full = False
        #: Whether the contents are lost that were not synced, as with the power, or only the process ends.
        self.loses = True
        #: Files whose contents are not on the disk; by name, what the disk has of names that are not synced;
        #: folders whose names are not.
        self._unsynced: dict[str, None] = {}
        self._names: dict[str, bytes | None] = {}
        self._folders: dict[str, None] = {}
        self._open: dict[int, str] = {}
        self._dead = False

    def create(self, path: str, mode: int) -> IO[bytes]:
        """A new file, unless the disk is full."""
        self._step("write")
        self._take(path)
        self._unsynced[path] = None
        self._remember(path)
        file = super().create(path, mode)
        self._open[file.fileno()] = path
        return file

    def sync(self, file: IO[bytes]) -> None:
        """Keep the contents of a file."""
        self._step("sync")
        file.flush()
        self._unsynced.pop(self._open[file.fileno()], None)

    def make_folder(self, path: str, mode: int) -> None:
        """A new folder, unless the disk is full."""
        self._step("new folder")
        self._take(path)
        self._folders[path] = None
        super().make_folder(path, mode)

    def rename(self, source: str, target: str) -> None:
        """Give a file another name."""
        self._step("rename")
        self._remember(target)
        super().rename(source, target)
        if source in self._unsynced:
            del self._unsynced[source]
            self._unsynced[target] = None
        self._names.pop(source, None)

    def sync_folder(self, path: str) -> None:
        """Keep the names in a folder."""
        self._step("sync of a folder")
        for name in [name for name in self._names if str(Path(name).parent) == path]:
            del self._names[name]
        for folder in [folder for folder in self._folders if str(Path(folder).parent) == path]:
            del self._folders[folder]

    def unlink(self, path: str) -> None:
        """Delete a file."""
        self._step("delete")
        self._remember(path)
        super().unlink(path)

    def _take(self, path: str) -> None:
        if self.full:
            self._met["fault: a full disk"] += 1
            raise OSError(errno.ENOSPC, "No space left on device", path)

    def _remember(self, path: str) -> None:
        if path not in self._names:
            self._names[path] = Path(path).read_bytes() if Path(path).exists() else None

    def _step(self, kind: str) -> None:
        if self._dead:
            raise KilledError(kind)
        if self.ends_after is None:
            return
        self.ends_after -= 1
        if self.ends_after < 0:
            self._met[f"fault: killed at a {kind}"] += 1
            self.ends_after, self._dead = None, True
            raise KilledError(kind)

    def crash(self) -> None:
        """Lose some of what was not synced; then another process may begin."""
        self._dead = False
        if self.loses:
            for path, before in self._names.items():
                if self._chance.random() < 0.5:
                    self._met["fault: a name was lost"] += 1
                    if before is None:
                        Path(path).unlink(missing_ok=True)
                    else:
                        Path(path).write_bytes(before)
            for path in self._unsynced:
                file = Path(path)
                if file.exists() and self._chance.random() < 0.5:
                    self._met["fault: a write was torn"] += 1
                    file.write_bytes(file.read_bytes()[: self._chance.randrange(file.stat().st_size + 1)])
            for path in self._folders:
                if self._chance.random() < 0.5:
                    self._met["fault: a new folder was lost"] += 1
                    shutil.rmtree(path, ignore_errors=True)
        self._names.clear()
        self._unsynced.clear()
        self._folders.clear()
