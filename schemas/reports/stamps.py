"""Stamps: what a file of reports says of the mechanism that made them, in its metadata.

A stamp has up to four entries. Each that is there must be that of the study. Reports of a wrong epsilon often
fit some distribution of values, so that nothing but a stamp tells.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
from collections.abc import Iterator, Mapping
from typing import Any

from ldpbeam.attributes import Attribute, ServiceVersion
from ldpbeam.domains import Categories, Domain, KeyValues, Numeric, Vector
from ldpbeam.memoised import Memo
from ldpbeam.schemas.reports.columns import (
    ATTRIBUTE_KEY,
    DOMAIN_KEY,
    EPSILON_KEY,
    MECHANISM_KEY,
    OPTIONS_KEY,
    SERVICE_KEY,
    STAMP_KEYS,
)
from ldpbeam.study import Study

#: Epsilons that differ by less, relatively, are the same: a client may compute with 32 bits.
SAME_EPSILON = 1e-6
#: The hexadecimal digits of a domain's hash.
DIGITS = 32


def domain_hash(domain: Domain) -> str:
    """32 hexadecimal digits of a domain: the start of the SHA-256 of its kind, its names and its range.

    The bytes are ``numeric``, ``categories``, ``keys`` or ``vector`` in ASCII and a zero byte; then each
    category, key or coordinate in UTF-8 and a zero byte; then, where values are numbers, both ends of the
    range as big-endian doubles, and the step if there is one; then the name of the scale in ASCII, or each
    of its edges as a big-endian double.
    """
    numbers: Numeric | None = None
    if isinstance(domain, Categories):
        names = "categories", *domain.names
    elif isinstance(domain, KeyValues):
        names, numbers = ("keys", *domain.keys), domain.values
    elif isinstance(domain, Vector):
        names, numbers = ("vector", *domain.coordinates), domain.values
    else:
        assert isinstance(domain, Numeric)
        names, numbers = ("numeric",), domain
    text = b"".join(name.encode() + b"\0" for name in names)
    if numbers is not None:
        text += struct.pack(">2d", numbers.low + 0.0, numbers.high + 0.0)
        text += b"" if numbers.step is None else struct.pack(">d", numbers.step)
        scale = numbers.scale or ""
        text += scale.encode() if isinstance(scale, str) else struct.pack(f">{len(scale)}d", *scale)
    return hashlib.sha256(text).hexdigest()[:DIGITS]


def stamp_of(attribute: Attribute, index: int) -> dict[str, str]:
    """The stamp of reports to ``attribute.versions[index]``."""
    version = attribute.versions[index]
    mechanism, options = version.named, _options(version)
    return {
        MECHANISM_KEY: mechanism.name,
        EPSILON_KEY: repr(mechanism.epsilon),
        **({OPTIONS_KEY: json.dumps(options, sort_keys=True)} if options else {}),
        DOMAIN_KEY: domain_hash(attribute.domain),
    }


def _options(version: ServiceVersion) -> dict[str, Any]:
    """The parameters besides name and epsilon, as JSON represents them."""
    options: dict[str, Any] = json.loads(json.dumps(version.parameters))
    return {name: value for name, value in options.items() if name not in ("mechanism", "epsilon")}


def differences(stamp: Mapping[str, str], attribute: Attribute, index: int) -> list[str]:
    """What a stamp says otherwise than ``attribute.versions[index]``, in words; empty if nothing."""
    return list(_differences(stamp, attribute, index))


def _differences(stamp: Mapping[str, str], attribute: Attribute, index: int) -> Iterator[str]:
    version = attribute.versions[index]
    mechanism = version.named
    name = stamp.get(MECHANISM_KEY, mechanism.name)
    if name != mechanism.name:
        yield f"mechanism {name} instead of {mechanism.name}"
    if EPSILON_KEY in stamp and not _is_epsilon(stamp[EPSILON_KEY], mechanism.epsilon):
        yield f"epsilon {stamp[EPSILON_KEY]} instead of {mechanism.epsilon:g}"
    if OPTIONS_KEY in stamp and name == mechanism.name:
        yield from _other_options(stamp[OPTIONS_KEY], _options(version))
    unsaid = "lifetime_epsilon" not in stamp.get(OPTIONS_KEY, "")
    if version.lifetime is not None and MECHANISM_KEY in stamp and unsaid:
        yield f"fresh noise instead of a lifetime_epsilon of {version.lifetime.epsilon:g}"
    if DOMAIN_KEY in stamp and stamp[DOMAIN_KEY] != domain_hash(attribute.domain):
        yield f"another domain of {attribute.name!r}"


def _is_epsilon(text: str, epsilon: float) -> bool:
    try:
        return math.isclose(float(text), epsilon, rel_tol=SAME_EPSILON)
    except ValueError:
        return False


def _other_options(text: str, known: Mapping[str, Any]) -> Iterator[str]:
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict):
        yield f"options that are no JSON object ({text[:80]!r})"
        return
    for name, value in sorted(given.items()):
        if name not in known:
            yield f"an option {name} that does not exist"
        elif value != known[name]:
            yield f"option {name} {value!r} instead of {known[name]!r}"


def problem(
    study: Study, metadata: Mapping[str, str], attribute: str | None, service: str | None
) -> str | None:
    """A sentence on a file whose stamp is of no channel that its reports can be of; None if all is well.

    Args:
        study: the study.
        metadata: the file's metadata.
        attribute: the attribute of reports that do not name one.
        service: the service of reports that do not name one.
    """
    stamp = {key: metadata[key] for key in STAMP_KEYS if key in metadata}
    if not stamp:
        return None
    name, of = metadata.get(ATTRIBUTE_KEY, attribute), metadata.get(SERVICE_KEY, service)
    tried: list[tuple[str, list[str]]] = []
    for candidate in study.attributes if name is None else (name,):
        if candidate not in study.attributes:
            return None
        known = study.attribute(candidate)
        for index, version in enumerate(known.versions):
            if of is None or version.service == of:
                tried.append((f"{candidate!r} at {version.label}", differences(stamp, known, index)))
    if not tried or any(not differs for _, differs in tried):
        return None
    where, differs = min(tried, key=lambda entry: len(entry[1]))
    return f"its stamp differs from the study's {where}: {', '.join(differs)}"


def memo_of(study: Study, attribute: Attribute, index: int) -> Memo:
    """The memo of ``attribute.versions[index]``, whose clients remember their noise."""
    version = attribute.versions[index]
    assert version.lifetime is not None
    domain = domain_hash(attribute.domain)
    return Memo(study.name, attribute.name, version.service, version.version, domain, version.lifetime)
