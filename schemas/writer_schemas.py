"""The schemas of Avro records that name their writer's schema by an id: from files, or from a registry."""

from __future__ import annotations

import functools
import json
import re
import threading
import time
import uuid
from dataclasses import dataclass, field
from typing import Any

from ldpbeam.schemas.avro_schemas import Shape, measure

#: Seconds to wait for an answer of a registry.
ANSWER_SECONDS = 10.0
#: A registry that does not answer, or fails, is asked TRIES times again: at once, then after twice
#: TRIES_SECONDS, doubling each time, for half a minute in all.
TRIES, TRIES_SECONDS = 6, 0.5
#: What a registry that fails answers.
_FAILS = (429, 500, 502, 503, 504)
#: Anyone can send ids that no registry knows. A process looks up and remembers at most MOST_UNKNOWN of them
#: in UNKNOWN_SECONDS.
MOST_UNKNOWN, UNKNOWN_SECONDS = 1_000, 600.0


class UnknownSchemaError(ValueError):
    """Nobody knows the schema of an id, or it cannot be read; the text says why."""


@dataclass(frozen=True)
class WriterSchemas:
    """Where the schemas of ids are.

    Attributes:
        registry: the address of a registry; None for none.
        texts: (id, schema as JSON) of the schemas that are given; the registry is not asked for these.
    """

    registry: str | None = None
    texts: tuple[tuple[int, str], ...] = ()

    def text_of(self, number: int | uuid.UUID) -> str:
        """The schema of an id, or of a GUID, as JSON.

        Raises:
            UnknownSchemaError: if there is none.
            OSError: if the registry does not answer; the text names its address.
        """
        for known, text in self.texts:
            if known == number:
                return text
        if self.registry is None:
            raise UnknownSchemaError(f"no schema is given for the id {number}: name it with --schemas")
        return _asked(self.registry).text_of(number)

    def check(self) -> None:
        """Check that the schemas can be read, and that the registry answers.

        Raises:
            ValueError: if a schema is no valid one of a record.
            OSError: if the registry does not answer.
        """
        for number, text in self.texts:
            try:
                measured(text)
            except UnknownSchemaError as error:
                raise ValueError(f"the schema {number}: {error}") from None
        if self.registry is not None:
            _get(self.registry, "schemas/types", tries=0)


#: Nobody knows any schema.
NO_SCHEMAS = WriterSchemas()


@functools.lru_cache(maxsize=64)
def measured(text: str) -> tuple[Any, Shape]:
    """A schema of a record as JSON, parsed and measured.

    Raises:
        UnknownSchemaError: if it is no valid schema of a record.
    """
    try:
        schema = json.loads(text)
        if not isinstance(schema, dict) or schema.get("type") != "record":
            raise ValueError("it is not the schema of a record")
        return schema, measure(schema)
    except (ValueError, RecursionError) as error:
        raise UnknownSchemaError(str(error)) from None


@dataclass
class _Asked:
    """What a registry has said to this process."""

    registry: str
    known: dict[int | uuid.UUID, str] = field(default_factory=dict)
    unknown: dict[int | uuid.UUID, str] = field(default_factory=dict)
    since: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def text_of(self, number: int | uuid.UUID) -> str:
        with self.lock:
            if number in self.known:
                return self.known[number]
            if time.monotonic() - self.since > UNKNOWN_SECONDS:
                self.unknown, self.since = {}, time.monotonic()
            if number not in self.unknown:
                if len(self.unknown) >= MOST_UNKNOWN:
                    raise UnknownSchemaError(
                        f"the registry was not asked for the id {number}: it knew none of {MOST_UNKNOWN:,} "
                        f"others within {UNKNOWN_SECONDS / 60:.0f} minutes"
                    )
                try:
                    self.known[number] = _text_in(self.registry, number)
                    return self.known[number]
                except UnknownSchemaError as error:
                    self.unknown[number] = str(error)
            raise UnknownSchemaError(self.unknown[number])


_asked = functools.lru_cache(maxsize=8)(_Asked)


def _text_in(registry: str, number: int | uuid.UUID) -> str:
    kind = "ids" if isinstance(number, int) else "guids"
    answer = _get(registry, f"schemas/{kind}/{number}", TRIES)
    if answer is None:
        raise UnknownSchemaError(f"the registry has no schema of the id {number}")
    kind = answer.get("schemaType", "AVRO")
    if kind != "AVRO":
        raise UnknownSchemaError(f"the schema {number} is of the type {kind}; only AVRO is read")
    if answer.get("references"):
        raise UnknownSchemaError(f"the schema {number} refers to other schemas, which are not read")
    return str(answer.get("schema", ""))


def _get(registry: str, path: str, tries: int) -> dict[str, Any] | None:
    """What a registry answers; None if it has nothing of that name.

    Args:
        registry: its address.
        path: what it is asked for.
        tries: how many times it is asked again if it fails.

    Raises:
        OSError: if it does not answer as a registry does, or ``requests`` is not installed.
    """
    # It takes passwords from ~/.netrc.
    try:
        import requests
        from requests.adapters import HTTPAdapter, Retry
    except ImportError:
        raise OSError("a registry of schemas needs requests: pip install 'ldpbeam[kafka]'") from None

    shown = f"the schema registry at {re.sub('//[^/@]*@', '//', registry)}"
    retries = Retry(
        tries,
        status_forcelist=_FAILS,
        backoff_factor=TRIES_SECONDS,
        raise_on_status=False,
        respect_retry_after_header=False,
    )
    try:
        with requests.Session() as session:
            for scheme in ("http://", "https://"):
                session.mount(scheme, HTTPAdapter(max_retries=retries))
            answer = session.get(f"{registry.rstrip('/')}/{path}", timeout=ANSWER_SECONDS)
        if answer.status_code == requests.codes.not_found:
            return None
        answer.raise_for_status()
        found = answer.json()
    except requests.HTTPError:
        raise OSError(f"{shown} refused: {answer.status_code} {answer.reason}") from None
    except requests.JSONDecodeError:
        raise OSError(f"{shown} is not a schema registry: its answer is not JSON") from None
    except requests.RequestException as error:
        raise OSError(f"{shown} does not answer ({type(error).__name__})") from None
    return found if isinstance(found, dict) else {}
