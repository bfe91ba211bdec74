"""Simulated clients: the reports that people with known true values would send."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ldpbeam.attributes import Attribute
from ldpbeam.domains import Domain, Floats, KeyValuePairs, Numeric, Vector
from ldpbeam.mechanisms import Mechanism, SecureUniforms, Uniforms
from ldpbeam.memoised import Memo
from ldpbeam.memoised.memos import fields_of
from ldpbeam.pipelines.errors import UserError
from ldpbeam.pipelines.estimates.people import People
from ldpbeam.pipelines.simulated.report_files import SentReports
from ldpbeam.schemas.reports.casts import cast_column
from ldpbeam.schemas.reports.memos import memo_of
from ldpbeam.schemas.reports.payloads import payload_column
from ldpbeam.schemas.reports.stamps import stamp_of
from ldpbeam.schemas.reports.turns import in_turn
from ldpbeam.study import Service, Study


def uniforms_for(seed: int | None, purpose: str) -> Uniforms:
    """The operating system's secure source; with a seed, a generator for tests, fixed by seed and purpose."""
    if seed is None:
        return SecureUniforms()
    words = np.frombuffer(hashlib.sha256(purpose.encode()).digest(), dtype="<u4")
    return cast(Uniforms, np.random.default_rng([seed, *words.tolist()]))


def user_keys(people: People, seed: int | None) -> NDArray[np.bytes_]:
    """User keys of fixed width, shape (people,): the file's ids, or 16 random bytes per person."""
    if people.users is None:
        draws = uniforms_for(seed, "users").random(3 * people.count)
        words = (draws.reshape(-1, 3) * 2**48).astype("<u8").view("<u2").reshape(-1, 12)
        # One draw gives 48 random bits: three draws fill 16 bytes.
        kept = words[:, [0, 1, 2, 4, 5, 6, 8, 9]]
        return np.ascontiguousarray(kept).view("V16").ravel()
    return padded(people.users, "user ids")


def device_keys(key: bytes, users: NDArray[np.bytes_]) -> list[bytes]:
    """The device key of each simulated user: HMAC-SHA256 of the user id under the key of them all."""
    purpose = fields_of("ldpbeam simulated device 1")
    ids = [user.tobytes().rstrip(b"\0") if users.dtype.kind == "S" else user.tobytes() for user in users]
    return [hmac.digest(key, purpose + user, hashlib.sha256) for user in ids]


def _ids(users: NDArray[np.bytes_]) -> pa.Array:
    """User keys as readers of reports see them: bytes, those of a UUID in text."""
    column = payload_column(users) if users.dtype.kind == "V" else pa.array(np.char.decode(users, "utf-8"))
    return cast_column("user_id", column)


def padded(text: pa.Array, what: str) -> NDArray[np.bytes_]:
    """Text as UTF-8, padded with zero bytes to one width, never 16: a key of 16 bytes is a raw one.

    Raises:
        UserError: if a text is longer than 256 bytes; ``what`` names the texts.
    """
    encoded = np.array([value.encode() for value in text.to_pylist()])
    if len(encoded) and encoded.dtype.itemsize > 256:
        raise UserError(f"{what} are longer than 256 bytes")
    width = encoded.dtype.itemsize + (encoded.dtype.itemsize == 16)
    return encoded.astype(f"S{max(width, 1)}")


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
    means: Floats | None = None,
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
        means: each key's mean from the round before, scaled to [0, 1], shape (keys,), for PrivKVM.
        device_key: the key from which that of each user follows; None if no client remembers its noise.

    Yields:
        The reports to one service, of one payload type. With a panel, people out of turn send none.

    Raises:
        UserError: if a mechanism needs means and has none, a version does not exist, or an id is too long.
    """
    users = user_keys(people, seed)
    model = study.attributes[attribute.name]
    values = scaled(attribute.domain, people.values)
    extras: dict[str, NDArray[np.bytes_]] = {}
    if study.groups is not None and people.groups is not None:
        extras[study.groups.field] = padded(people.groups.fill_null(""), "groups")
    times = people.times
    if times is None:
        # A person answers all services at one time, so that reports to be joined fall into the same window.
        draws = uniforms_for(seed, f"{attribute.name}/times").random(people.count)
        times = start + np.floor(draws * spread).astype(np.int64)
    if study.panel is not None:
        turn = np.flatnonzero(in_turn(study.panel, attribute.name, _ids(users), times))
        users, times = users[turn], times[turn]
        values = values.chosen(turn) if isinstance(values, KeyValuePairs) else values[turn]
        extras = {name: column[turn] for name, column in extras.items()}
    keys = [] if device_key is None else device_keys(device_key, users)
    for service in services:
        uniforms = uniforms_for(seed, f"{attribute.name}/{service}")
        described = model.services[service]
        own_extras = dict(extras)
        chosen = _versions(attribute, service, described, versions.get(service), times, own_extras)
        alike = _alike(
            (
                index,
                rows,
                _perturbed(attribute.versions[index].mechanism, values, rows, uniforms, means)
                if attribute.versions[index].lifetime is None
                else _remembered(memo_of(study, attribute, index), keys, values, rows, uniforms),
            )
            for index, rows in chosen
        )
        for part, (indexes, rows, payloads) in enumerate(alike):
            order = np.argsort(rows)
            sent = rows[order]
            yield SentReports(
                attribute.name,
                service,
                users[sent],
                times[sent],
                payloads[order],
                {name: column[sent] for name, column in own_extras.items()},
                part,
                # A file may have several versions that event times tell apart, and its metadata states one.
                stamp_of(attribute, indexes[0]) if len(indexes) == 1 else {},
            )


def scaled(domain: Domain, values: NDArray[Any] | KeyValuePairs) -> NDArray[Any] | KeyValuePairs:
    """The values in the scale of the mechanisms: numbers scaled to [0, 1], all others as they are."""
    if isinstance(domain, Numeric) and not isinstance(values, KeyValuePairs):
        return domain.to_unit(values)
    if isinstance(domain, Vector) and not isinstance(values, KeyValuePairs):
        return domain.values.to_unit(values)
    return values


def _perturbed(
    mechanism: Mechanism,
    values: NDArray[Any] | KeyValuePairs,
    rows: NDArray[np.int64],
    uniforms: Uniforms,
    means: Floats | None,
) -> NDArray[Any]:
    """The payloads of the people in ``rows``, shape (rows,).

    Raises:
        UserError: if the mechanism needs the means of the round before and has none.
    """
    if mechanism.round > 1 and means is None:
        raise UserError(
            f"round {mechanism.round} of {mechanism.name} needs the means of the round before: estimate "
            "it, and give its estimates.jsonl with --means"
        )
    chosen = values.chosen(rows) if isinstance(values, KeyValuePairs) else values[rows]
    return mechanism.perturb_with(chosen, means, uniforms)


def _remembered(
    memo: Memo,
    keys: Sequence[bytes],
    values: NDArray[Any] | KeyValuePairs,
    rows: NDArray[np.int64],
    uniforms: Uniforms,
) -> NDArray[Any]:
    """The payloads of the people in ``rows``, whose clients remember their noise, shape (rows,)."""
    assert not isinstance(values, KeyValuePairs)
    return memo.perturb([keys[row] for row in rows.tolist()], values[rows], uniforms)


def _alike(
    parts: Iterable[tuple[int, NDArray[np.int64], NDArray[Any]]],
) -> list[tuple[list[int], NDArray[np.int64], NDArray[Any]]]:
    """Concatenate the versions' rows and payloads by payload type, since a file has one type.

    Args:
        parts: (index of a version, the people whose clients have it, their payloads).

    Returns:
        (indexes of the versions that have people, the people, their payloads) for each payload type.
    """
    by_type: dict[np.dtype[Any], list[tuple[int, NDArray[np.int64], NDArray[Any]]]] = {}
    for index, rows, payloads in parts:
        by_type.setdefault(payloads.dtype, []).append((index, rows, payloads))
    return [
        (
            [index for index, rows, _ in same if len(rows)],
            np.concatenate([rows for _, rows, _ in same]),
            np.concatenate([payloads for _, _, payloads in same]),
        )
        for same in by_type.values()
    ]


def _versions(
    attribute: Attribute,
    service: str,
    model: Service,
    wanted: str | None,
    times: NDArray[np.int64],
    extras: dict[str, NDArray[np.bytes_]],
) -> list[tuple[int, NDArray[np.int64]]]:
    """(index of a version, the people whose clients have it), for each version in use.

    It adds the version field to ``extras`` where a field tells the versions apart.

    Raises:
        UserError: if the wanted version does not exist.
    """
    indexes = attribute.versions_of([service])
    everyone = np.arange(len(times))
    if not model.versions:
        return [(indexes[0], everyone)]
    if model.version_field is None:
        return [
            (index, np.flatnonzero(~model.versions[attribute.versions[index].version].span.outside(times)))
            for index in indexes
        ]
    names = {attribute.versions[index].version: index for index in indexes}
    version = wanted or next(iter(names))
    if version not in names:
        raise UserError(f"--versions {service}={version}: there are {', '.join(names)}")
    value = padded(pa.array(model.versions[version].values[:1]), "values of versions")
    extras[model.version_field] = np.repeat(value, len(times))
    return [(names[version], everyone)]
