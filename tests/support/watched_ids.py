"""Reports whose user ids are known, and a search for them in all that a run writes, while it runs too."""

from __future__ import annotations

import base64
import contextlib
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import fastavro
import numpy as np

#: What all ids begin with.
PREFIX = "somebody-of-no-study-"
#: The bytes of an id that is a UUID, which all ids of this kind begin with.
RAW = bytes.fromhex("5a17bead0ddba11c0ffee5")


def user_id(number: int) -> str:
    """An id: text, or a UUID as text."""
    if number % 2:
        return f"{PREFIX}{number:06d}"
    digits = (RAW + number.to_bytes(5, "big")).hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def reports(count: int, times: Sequence[int] | np.ndarray, *, ids: bool = True) -> list[dict[str, Any]]:
    """Reports of numbers to two services, each after its id; of every three, two have one report id."""
    rng, found = np.random.default_rng(count), []
    for number in range(count):
        # Copies of a report have its time, so that a stream finds them in one window.
        twin = number - (number % 3 == 2)
        record: dict[str, Any] = {"user_id": user_id(number)} if ids else {}
        found.append(
            record
            | {
                "attribute": "minutes",
                "service": ("maps", "taxi")[twin % 2],
                "event_time": int(times[twin]),
                "payload": float(rng.uniform(-0.2, 1.2) if twin % 2 == 0 else rng.uniform(-1, 1)),
                "report_id": f"report-{twin}" if number % 3 else None,
            }
        )
    return found


def _forms() -> list[bytes]:
    """What text, hexadecimal digits and base64 show of an id, wherever it stands among other bytes."""
    forms = []
    for start in (PREFIX.encode(), RAW, RAW.hex().encode()):
        forms += [start, start.hex().encode(), start.hex().upper().encode()]
        for before in range(3):
            text = base64.b64encode(bytes(before) + start)
            # The first and the last characters depend on the bytes around.
            inner = text[-(-8 * before // 6) : (8 * (before + len(start))) // 6]
            forms += [inner, inner.replace(b"+", b"-").replace(b"/", b"_")]
    digits = RAW.hex()
    return [*forms, f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}".encode()]


FORMS = _forms()


def seen_in(data: bytes) -> bool:
    """Whether bytes show an id."""
    return any(form in data for form in FORMS)


def _blocks(path: Path) -> Iterator[bytes]:
    yield path.read_bytes()
    if path.suffix == ".avro":
        # A file may be half written.
        with contextlib.suppress(Exception), path.open("rb") as stream:
            for block in fastavro.block_reader(stream):
                yield block.bytes_.getvalue()


def shown_by(*folders: Path) -> set[str]:
    """The files of some folders that show an id, in their names too."""
    found = set()
    for folder in folders:
        for path in folder.rglob("*"):
            with contextlib.suppress(OSError):
                if seen_in(path.name.encode()) or (path.is_file() and any(map(seen_in, _blocks(path)))):
                    found.add(str(path))
    return found


class Watched:
    """What the files of some folders showed at any time while a block ran, and how many there were."""

    def __init__(self, *folders: Path) -> None:
        self.folders = folders
        self.shown: set[str] = set()
        self.files: set[str] = set()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def _look(self) -> None:
        while not self._done.wait(0.02):
            self._once()

    def _once(self) -> None:
        with contextlib.suppress(OSError):
            self.files |= {str(path) for folder in self.folders for path in folder.rglob("*")}
            self.shown |= shown_by(*self.folders)

    def __enter__(self) -> Watched:
        for folder in self.folders:
            folder.mkdir(parents=True, exist_ok=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        self._once()
