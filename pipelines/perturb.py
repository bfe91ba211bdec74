"""``ldpbeam perturb``: what clients would send, as files of reports."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ldpbeam.attributes import Attribute
from ldpbeam.domains import Domain, Floats, KeyValuePairs, Numeric, Vector
from ldpbeam.mechanisms import Mechanism, SecureUniforms, Uniforms
from ldpbeam.mechanisms.privkv import PrivKVM
from ldpbeam.pipelines.errors import UserError
from ldpbeam.pipelines.people import People
from ldpbeam.schemas import avro
from ldpbeam.schemas.containers import SYNC_SIZE
from ldpbeam.schemas.reports import ATTRIBUTE_KEY, SERVICE_KEY, payload_column
from ldpbeam.schemas.study import ServiceModel, Study
from ldpbeam.schemas.times import rfc3339

#: A file has at most this many reports.
FILE_REPORTS = 2**22


@dataclass(frozen=True)
class SentReports:
    """What the clients of one service send.

    Attributes:
        attribute: the attribute's name.
        service: the service's name.
        users: user keys, ``fixed`` bytes: 16 raw ones, or text padded with zeros; shape (n,).
        times: epoch milliseconds, shape (n,).
        payloads: the mechanism's outputs, shape (n,).
        extras: the study's group and version fields, padded text, shape (n,) each.
        part: 0, or the number of further payload types where a service's versions have several.
    """

    attribute: str
    service: str
    users: NDArray[np.bytes_]
    times: NDArray[np.int64]
    payloads: NDArray[Any]
    extras: Mapping[str, NDArray[np.bytes_]]
    part: int = 0


def uniforms_for(seed: int | None, purpose: str) -> Uniforms:
    """The secure source, or for tests a generator that a seed and a purpose fix."""
    if seed is None:
        return SecureUniforms()
    words = np.frombuffer(hashlib.sha256(purpose.encode()).digest(), dtype="<u4")
    return cast(Uniforms, np.random.default_rng([seed, *words.tolist()]))


def user_keys(people: People, seed: int | None) -> NDArray[np.bytes_]:
    """User keys of fixed width: the file's ids, or 16 random bytes a person."""
    if people.users is None:
        draws = uniforms_for(seed, "users").random(3 * people.count)
        words = (draws.reshape(-1, 3) * 2**48).astype("<u8").view("<u2").reshape(-1, 12)
        # 48 random bits a draw: three draws fill 16 bytes.
        kept = words[:, [0, 1, 2, 4, 5, 6, 8, 9]]
        return np.ascontiguousarray(kept).view("V16").ravel()
    return padded(people.users, "user ids")


def padded(text: pa.Array, what: str) -> NDArray[np.bytes_]:
    """Text as UTF-8 padded with zero bytes, never 16 wide: 16 bytes are raw keys."""
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
) -> Iterator[SentReports]:
    """What the people's clients send to each service.

    Args:
        study: the study.
        attribute: the attribute of ``people.values``.
        people: who they are, with their true values.
        services: which services they answer.
        versions: which version a service's clients have, where its versions are told apart by a field.
        start: the first event time, where the people have none.
        spread: how many milliseconds the event times are spread over, evenly at random.
        seed: for tests only; None draws from the operating system's secure source.
        means: of the round before, scaled to [0, 1], shape (keys,), where the mechanism has rounds.

    Raises:
        UserError: if a mechanism needs means, and there are none.
    """
    users = user_keys(people, seed)
    model = study.attributes[attribute.name]
    values = _scaled(attribute.domain, people.values)
    extras: dict[str, NDArray[np.bytes_]] = {}
    if study.groups is not None and people.groups is not None:
        extras[study.groups.field] = padded(people.groups.fill_null(""), "groups")
    times = people.times
    if times is None:
        # A person answers all services at one time, so that windows do not part what is to be joined.
        draws = uniforms_for(seed, f"{attribute.name}/times").random(people.count)
        times = start + np.floor(draws * spread).astype(np.int64)
    for service in services:
        uniforms = uniforms_for(seed, f"{attribute.name}/{service}")
        described = model.services[service]
        own_extras = dict(extras)
        chosen = _versions(attribute, service, described, versions.get(service), times, own_extras)
        alike = _alike(
            (rows, _perturbed(attribute.versions[index].mechanism, values, rows, uniforms, means))
            for index, rows in chosen
        )
        for part, (rows, payloads) in enumerate(alike):
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
            )


def _scaled(domain: Domain, values: NDArray[Any] | KeyValuePairs) -> NDArray[Any] | KeyValuePairs:
    """Values as mechanisms take them: numbers scaled to [0, 1]."""
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
    """The reports of some people."""
    if not isinstance(values, KeyValuePairs):
        return mechanism.perturb(values[rows], uniforms)
    own = values.chosen(rows)
    if isinstance(mechanism, PrivKVM) and mechanism.round > 1:
        if means is None:
            raise UserError(
                f"round {mechanism.round} of privkvm needs the means of the round before: estimate it, and "
                "give its estimates.jsonl with --means"
            )
        return mechanism.perturb_with(own, means, uniforms)
    return mechanism.perturb(own, uniforms)


def _alike(
    parts: Iterable[tuple[NDArray[np.int64], NDArray[Any]]],
) -> list[tuple[NDArray[np.int64], NDArray[Any]]]:
    """Versions' rows and payloads, those of one payload type together: a file has one."""
    by_type: dict[np.dtype[Any], list[tuple[NDArray[np.int64], NDArray[Any]]]] = {}
    for rows, payloads in parts:
        by_type.setdefault(payloads.dtype, []).append((rows, payloads))
    return [
        (np.concatenate([rows for rows, _ in same]), np.concatenate([payloads for _, payloads in same]))
        for same in by_type.values()
    ]


def _versions(
    attribute: Attribute,
    service: str,
    model: ServiceModel,
    wanted: str | None,
    times: NDArray[np.int64],
    extras: dict[str, NDArray[np.bytes_]],
) -> list[tuple[int, NDArray[np.int64]]]:
    """Each version's index and which people's clients have it."""
    indexes = attribute.versions_of([service])
    everyone = np.arange(len(times))
    if not model.versions:
        return [(indexes[0], everyone)]
    if model.version_field is None:
        return [
            (index, np.flatnonzero((times >= own.span[0]) & (times < own.span[1])))
            for index in indexes
            for own in (model.versions[attribute.versions[index].version],)
        ]
    names = {attribute.versions[index].version: index for index in indexes}
    version = wanted or next(iter(names))
    if version not in names:
        raise UserError(f"--versions {service}={version}: there are {', '.join(names)}")
    value = (model.versions[version].values or [version])[0]
    column = np.array([value.encode()])
    width = column.dtype.itemsize + (column.dtype.itemsize == 16)
    extras[model.version_field] = np.repeat(column.astype(f"S{width}"), len(times))
    return [(names[version], everyone)]


def make_room(folder: Path, attribute: str, service: str, overwrite: bool) -> None:
    """See that a folder has no reports of an attribute and service yet: nobody may count twice.

    Raises:
        UserError: if it has, and they are not to be replaced.
    """
    before = sorted(folder.glob(f"{attribute}.{service}.*-of-*.*"))
    if before and not overwrite:
        raise UserError(
            f"--output {folder}: it has reports of {attribute} to {service} already ({before[0].name}); name "
            "another folder, or replace them with --overwrite"
        )
    for path in before:
        path.unlink()


def write_reports(folder: Path, sent: SentReports, kind: str) -> list[Path]:
    """Files of at most :data:`FILE_REPORTS` reports in one format: avro, parquet or jsonl."""
    count = max(1, -(-len(sent.payloads) // FILE_REPORTS))
    paths = []
    for index in range(count):
        rows = slice(index * FILE_REPORTS, (index + 1) * FILE_REPORTS)
        part = SentReports(
            sent.attribute, sent.service, sent.users[rows], sent.times[rows], sent.payloads[rows],
            {name: column[rows] for name, column in sent.extras.items()},
        )  # fmt: skip
        service = f"{sent.service}.{sent.part}" if sent.part else sent.service
        name = f"{sent.attribute}.{service}.{index:05d}-of-{count:05d}.{kind}"
        path = folder / name
        temporary = path.with_name(f".{name}")
        _WRITERS[kind](temporary, part)
        temporary.replace(path)
        paths.append(path)
    return paths


def _metadata(sent: SentReports) -> dict[str, str]:
    return {ATTRIBUTE_KEY: sent.attribute, SERVICE_KEY: sent.service}


def _write_avro(path: Path, sent: SentReports) -> None:
    widths = {"user_id": sent.users.dtype.itemsize}
    if sent.payloads.dtype != np.float64:
        widths["payload"] = sent.payloads.dtype.itemsize
    widths |= {name: column.dtype.itemsize for name, column in sent.extras.items()}
    schema = avro.fixed_report_schema(widths)
    dtype = avro.fixed_dtype(schema)
    assert dtype is not None
    records = np.zeros(len(sent.payloads), dtype=dtype)
    columns = {"user_id": sent.users, "event_time": sent.times, "payload": sent.payloads}
    for name, column in {**columns, **sent.extras}.items():
        target = dtype[name]
        raw = column if target.kind == "f" else np.ascontiguousarray(column).view(target)
        records[name] = raw
    # The sync marker only has to be unlikely in the data, and the same reports give the same bytes.
    sync = hashlib.sha256(records.tobytes()[: 2**20] + path.name.encode()).digest()[:SYNC_SIZE]
    with path.open("wb") as stream:
        avro.write_fixed(stream, records, schema, _metadata(sent), sync)


def _write_parquet(path: Path, sent: SentReports) -> None:
    users: Any = sent.users
    if users.dtype.kind == "V":
        ids = pa.array(users.tolist(), type=pa.binary(16))
    else:
        ids = pa.array(np.char.decode(users, "utf-8"), type=pa.string())
    columns = {
        "user_id": ids,
        "event_time": pa.array(sent.times).cast(pa.timestamp("ms", "UTC")),
        "payload": payload_column(sent.payloads),
        **{name: pa.array(np.char.decode(column, "utf-8")) for name, column in sent.extras.items()},
    }
    table = pa.table(columns).replace_schema_metadata(_metadata(sent))
    pq.write_table(table, path, row_group_size=2**18)


def _write_json_lines(path: Path, sent: SentReports) -> None:
    if sent.users.dtype.kind == "V":
        users = [_uuid(raw.tobytes().hex()) for raw in sent.users]
    else:
        users = np.char.decode(sent.users, "utf-8").tolist()
    extras = {name: np.char.decode(column, "utf-8").tolist() for name, column in sent.extras.items()}
    payloads = sent.payloads
    plain = [p.tobytes().hex() for p in payloads] if payloads.dtype.kind == "V" else payloads.tolist()
    with path.open("w", encoding="utf-8") as stream:
        for row, (user, time, payload) in enumerate(zip(users, sent.times.tolist(), plain, strict=True)):
            record = {
                "user_id": user,
                "attribute": sent.attribute,
                "service": sent.service,
                "event_time": rfc3339(time),
                "payload": payload,
                **{name: column[row] for name, column in extras.items()},
            }
            stream.write(json.dumps(record) + "\n")


def _uuid(digits: str) -> str:
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


_WRITERS = {"avro": _write_avro, "parquet": _write_parquet, "jsonl": _write_json_lines}
