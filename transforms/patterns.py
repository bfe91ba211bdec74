"""The files that a pattern matches, on any file system that Beam knows.

Beam lists the files of other file systems; whether one matches is decided here, alike for all of them.
"""

from __future__ import annotations

import contextlib
import errno
import fnmatch
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from ldpbeam.transforms.storage import beam_filesystems, is_local, literal

_WILDCARD = re.compile(r"(\*\*|[*?]|\[!?\]?[^\]]*\])")
#: What :func:`literal` makes of a character.
_LITERAL = re.compile(r"\[([*?[])\]")
#: Where no name begins with a dot.
_NO_DOT = r"(?!(?<![^/])\.)"
_EXPRESSIONS = {"**": f"(?:{_NO_DOT}.)*", "*": f"{_NO_DOT}[^/]*", "?": f"{_NO_DOT}[^/]"}


class Entry(NamedTuple):
    """A file as Beam describes those of other file systems; times are in seconds since 1970."""

    path: str
    size_in_bytes: int
    last_updated_in_seconds: float


def matching(pattern: str) -> list[Entry]:
    """The files that match a pattern, sorted by their paths.

    ``*`` stands for any characters of a name (in Beam for none of Windows' separators, so that names with a
    backslash would be left out), ``?`` for one, ``[a-c]`` and ``[!a-c]`` for one of these or of all others,
    and ``**`` for those of folders, too. As in shells, no wildcard stands for the dot that a name begins
    with, links are followed, and a pattern that ends with a slash means all files of a folder.

    Raises:
        PermissionError: if a local folder in which it looks may not be read.
        BeamIOError: if another file system does not answer.
    """
    if pattern.endswith("/"):
        pattern += "*"
    if is_local(pattern):
        entries = _local_entries(pattern)
    elif _is_name(pattern):
        path, system = _LITERAL.sub(r"\1", pattern), beam_filesystems().get_filesystem(pattern)
        entries = [system.metadata(path)] if system.exists(path) else []
    else:
        everything, wanted = re.sub(r"[*?[].*", "**", pattern, flags=re.DOTALL), _expression(pattern)
        listed = beam_filesystems().match([everything])[0].metadata_list
        entries = [entry for entry in listed if wanted.fullmatch(entry.path)]
    return sorted(entries, key=lambda entry: entry.path)


def _is_name(pattern: str) -> bool:
    return _WILDCARD.search(_LITERAL.sub("", pattern)) is None


def _expression(pattern: str) -> re.Pattern[str]:
    texts = _WILDCARD.split(pattern)
    texts[::2] = map(re.escape, texts[::2])
    texts[1::2] = [
        # fnmatch knows sets of characters. It ends what it translates with two letters for the end of text.
        _EXPRESSIONS.get(wildcard) or f"{_NO_DOT}(?!/){fnmatch.translate(wildcard)[:-2]}"
        for wildcard in texts[1::2]
    ]
    return re.compile("".join(texts), re.DOTALL)


def _local_entries(pattern: str) -> list[Entry]:
    entries = []
    try:
        # An empty name is not that of the folder in which the program runs.
        for path in filter(None, _local_paths("", pattern.split("/"))):
            # A file may have gone by now. A link that leads nowhere is found, so that who opens it says so.
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                state = Path(path).stat(follow_symlinks=Path(path).exists())
                entries.append(Entry(path, state.st_size, state.st_mtime))
    except PermissionError as error:
        folder = error.filename.rpartition("/")[0] or os.curdir
        raise PermissionError(errno.EACCES, f"the folder {folder} may not be read") from None
    return entries


def _local_paths(folder: str, names: Sequence[str]) -> Iterator[str]:
    """The paths in a folder that the names of a pattern match; a path without wildcards need not exist.

    Args:
        folder: empty, or with a slash at its end.
        names: what stands between the slashes of a pattern, one or more.
    """
    name, *rest = names
    if _is_name(name):
        path = folder + _LITERAL.sub(r"\1", name)
        yield from _local_paths(f"{path}/", rest) if rest else [path]
    elif "**" in name:
        wanted = _expression("/".join(names))
        yield from (path for path in _files_below(folder, ()) if wanted.fullmatch(path[len(folder) :]))
    else:
        wanted = _expression(name)
        for entry in _entries_in(folder):
            if wanted.fullmatch(entry.name) and entry.is_dir() == bool(rest):
                yield from _local_paths(folder, [literal(entry.name), *rest])


def _files_below(folder: str, above: tuple[Path, ...]) -> Iterator[str]:
    """The paths of the files below a folder; a link to a folder ``above`` it is not followed."""
    for entry in _entries_in(folder):
        path = folder + entry.name
        if not entry.is_dir():
            yield path
        elif (real := Path(path).resolve()) not in above:
            yield from _files_below(f"{path}/", (*above, real))


def _entries_in(folder: str) -> list[os.DirEntry[str]]:
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        return list(os.scandir(folder or os.curdir))
    return []
