"""The files that a pattern matches, on this machine and in object stores, alike."""

from __future__ import annotations

import contextlib
import errno
import fnmatch
import itertools
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from ldpbeam.transforms import object_stores
from ldpbeam.transforms.object_stores import Entry as Entry
from ldpbeam.transforms.storage import is_local, literal

_WILDCARD = re.compile(r"(\*\*|[*?]|\[!?\]?[^\]]*\])")
#: What :func:`literal` makes of a character.
_LITERAL = re.compile(r"\[([*?[])\]")
#: Where no name begins with a dot.
_NO_DOT = r"(?!(?<![^/])\.)"
_EXPRESSIONS = {"**": f"(?:{_NO_DOT}.)*", "*": f"{_NO_DOT}[^/]*", "?": f"{_NO_DOT}[^/]"}


def matching(pattern: str) -> list[Entry]:
    """The files that match a pattern, sorted by their paths.

    ``*`` stands for any characters of a name, ``?`` for one, ``[a-c]`` and ``[!a-c]`` for one of these or of
    all others, and ``**`` for those of folders, too. As in shells, no wildcard stands for the dot that a name
    begins with, links are followed, and a pattern that ends with a slash means all files of a folder.

    Raises:
        PermissionError: if a local folder in which it looks may not be read.
        OSError: if an object store does not answer, or refuses.
    """
    if pattern.endswith("/"):
        pattern += "*"
    entries = _local_entries(pattern) if is_local(pattern) else _entries_elsewhere(pattern)
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


def _entries_elsewhere(pattern: str) -> list[Entry]:
    """The objects that a pattern matches; if it has no wildcards, what has this name, a folder too."""
    names = pattern.split("/")
    plain = list(itertools.takewhile(_is_name, names))
    if plain == names:
        here = object_stores.object_at(_unescaped(pattern))
        return [] if here is None else [here]
    folder, below = _unescaped("/".join([*plain, ""])), names[len(plain) :]
    listed = object_stores.objects_below(folder, deep=len(below) > 1 or "**" in below[0])
    wanted = _expression(pattern)
    return [each for each in listed if wanted.fullmatch(each.path)]


def _unescaped(pattern: str) -> str:
    return _LITERAL.sub(r"\1", pattern)


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
        path = folder + _unescaped(name)
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
