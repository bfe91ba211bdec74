"""Simulated clients: the reports that people with known true values would send."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ldpbeam.answers.people import People
from ldpbeam.attributes import Attribute
from ldpbeam.clients.client import Client, random_ids, versions_of_clients
from ldpbeam.clients.values import scaled
from ldpbeam.errors import UserError
from ldpbeam.mechanisms import SecureUniforms, Uniforms
from ldpbeam.memoised.memos import fields_of
from ldpbeam.pipelines.simulated.report_files import SentReports
from ldpbeam.schemas.reports.casts import cast_column
from ldpbeam.schemas.reports.payloads import payload_column
from ldpbeam.schemas.reports.stamps import stamp_of
from ldpbeam.schemas.reports.turns import in_turn
from ldpbeam.study import Study
from ldpbeam.transforms.reports.validation import LONGEST_USER_ID


def uniforms_for(seed: int | None, purpose: str) -> Uniforms:
    """The operating system's secure source; with a seed, a generator for tests, fixed by seed and purpose."""
    if seed is None:
        return SecureUniforms()
    words = np.frombuffer(hashlib.sha256(purpose.encode()).digest(), dtype="<u4")
    return cast(Uniforms, np.random.default_rng([seed, *words.tolist()]))


def device_keys(key: bytes, users: pa.Array) -> list[bytes]:
    """The device key of each simulated user: HMAC-SHA256 of the id, as reports have it, under one key."""
    purpose = fields_of("ldpbeam simulated device 1")
    ids = pc.fill_null(cast_column("user_id", users), b"").to_pylist()
    return [hmac.digest(key, purpose + user, hashlib.sha256) for user in ids]


def _checked(texts: pa.Array, what: str) -> pa.Array:
    """The texts.

    Raises:
        UserError: if a text is longer than 256 bytes; ``what`` names the texts.
    """
    if (pc.max(pc.binary_length(texts)).as_py() or 0) > LONGEST_USER_ID:
        raise UserError(f"{what} are longer than {LONGEST_USER_ID} bytes")
    return texts


def simulate(
    study: Study,
    attribute: Attribute,
    people: People,
    *,
    services: Sequence[str],
    versions: Mapping[str, str],
    start: int,
    spread: int,
    seed: int | None,
    means: Mapping[str, float] | None = None,
    device_key: bytes | None = None,
) -> Iterator[SentReports]:
    """Perturb people's true values into the reports that their clients send to each service.

    Args:
        study: the study.
        attribute: the attribute of ``people.values``.
        people: the people with their true values.
        services: the services that every person answers.
        versions: the clients' version of each service whose versions a field tells apart; else the first.
        start: the earliest event time in epoch milliseconds, if the people have no times.
        spread: the milliseconds after ``start`` over which event times are drawn uniformly at random.
        seed: for tests only; None draws from the operating system's secure source.
        means: each key's mean from the round before, for PrivKVM.
        device_key: the key from which that of each user follows; None if no client remembers its noise.

    Yields:
        The reports to one service, of one payload type. A person out of turn in a panel sends none, nor does
        one whose time belongs to no version of the service.

    Raises:
        UserError: if an id is too long.
        ValueError: as :class:`~ldpbeam.clients.client.Client`, for what the command checks before.
    """
    if people.users is None:
        users = payload_column(random_ids(people.count, uniforms_for(seed, "users")))
    else:
        users = _checked(people.users, "user ids")
    values = scaled(attribute.domain, people.values)
    extras: dict[str, pa.Array] = {}
    if study.groups is not None and people.groups is not None:
        extras[study.groups.field] = _checked(people.groups.fill_null(""), "groups")
    times = people.times
    if times is None:
        # A person answers all services at one time, so that reports to be joined fall into the same window.
        draws = uniforms_for(seed, f"{attribute.name}/times").random(people.count)
        times = start + np.floor(draws * spread).astype(np.int64)
    if study.panel is not None:
        turn = np.flatnonzero(in_turn(study.panel, attribute.name, cast_column("user_id", users), times))
        users, times = users.take(turn), times[turn]
        values = values[turn]
        extras = {name: column.take(turn) for name, column in extras.items()}
    keys = [] if device_key is None else device_keys(device_key, users)
    for service in services:
        known = versions_of_clients(study, attribute, service, versions.get(service)).values()
        client = Client(
            study,
            attribute.name,
            service,
            version=versions.get(service),
            rng=uniforms_for(seed, f"{attribute.name}/{service}"),
            means=means if any(version.mechanism.round > 1 for version in known) else None,
            device_key=device_key if any(version.lifetime is not None for version in known) else None,
        )
        named = {
            field: pa.repeat(_checked(pa.array([value]), "values of versions")[0], len(times))
            for field, value in client.version_fields.items()
        }
        for part, (indexes, rows, payloads) in enumerate(client.payloads(values, times, keys)):
            yield SentReports(
                attribute.name,
                service,
                users.take(rows) if attribute.has_users else pa.nulls(len(rows)),
                times[rows],
                payloads,
                {name: column.take(rows) for name, column in (extras | named).items()},
                part,
                # A file may have several versions that event times tell apart, and its metadata states one.
                stamp_of(attribute, indexes[0]) if len(indexes) == 1 else {},
            )
