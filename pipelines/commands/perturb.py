"""``ldpbeam perturb``: what clients would send, for a round of PrivKVM with the means of the one before."""

from __future__ import annotations

import argparse
import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from ldpbeam.answers.people import read_people
from ldpbeam.attributes import Attribute
from ldpbeam.clients.client import versions_of_clients
from ldpbeam.command_line.checks import (
    duration_of,
    output_folder,
    people_columns,
    refuse_all_outside,
    study_of,
    warn_of_rows,
)
from ldpbeam.domains import KeyValues
from ldpbeam.errors import DONE, UserError, naming
from ldpbeam.folders.read import read_estimates
from ldpbeam.inputs.key_files import read_key
from ldpbeam.inputs.times import time_of
from ldpbeam.nearest import did_you_mean
from ldpbeam.pipelines.simulated.perturb import simulate
from ldpbeam.pipelines.simulated.report_files import make_room, write_reports
from ldpbeam.printing import document, note, progress_bar, warn
from ldpbeam.schemas.reports import event_times
from ldpbeam.study import Study
from ldpbeam.words import counted


def perturb_command(options: argparse.Namespace) -> int:
    """Run ``ldpbeam perturb`` and return its exit code."""
    study = study_of(options.study, options.attribute)
    attribute = study.attribute(options.attribute)
    columns = people_columns(options, attribute.domain)
    services = list(dict.fromkeys(options.services or services_of_round(attribute, options.round)))
    versions = versions_named(options, study, services)
    check_what_clients_need(options, study, attribute, services, versions)
    start, spread = event_times_of(options, study)
    means = read_means(options.means, study, attribute) if options.means else None
    people = read_people(options.input, columns, attribute.domain)
    refuse_all_outside(people, options.input, options.attribute)
    folder = output_folder(options.output)
    for service in services:
        make_room(folder, options.attribute, service, options.overwrite)
        described = study.attributes[options.attribute].services[service]
        if described.fields and service not in versions:
            first = next(iter(described.versions))
            note(f"{service}: as clients of version {first}; --versions {service}=... for another")
    key = read_key(options.device_key_file, "--device-key-file", "undo the permanent noise with it")
    if key is not None:
        warn(
            f"--device-key-file {options.device_key_file}: whoever has this file can undo the permanent "
            "noise of these reports; real devices have keys of their own, which never leave them"
        )
    if options.seed is not None:
        warn("drawn from a seed: for tests only, these reports protect nobody")
    written: list[dict[str, object]] = []
    sent_to = Counter(dict.fromkeys(services, 0))
    with (
        _emptied_if_stopped(folder, options.attribute, services),
        progress_bar("services", len(services)) as show,
    ):
        for sent in simulate(
            study, attribute, people, services=services, versions=versions, start=start, spread=spread,
            seed=options.seed, means=means, device_key=key,
        ):  # fmt: skip
            paths = write_reports(folder, sent, options.format)
            show(len(written) + 1, None)
            sent_to[sent.service] += len(sent.payloads)
            written.append(
                {"service": sent.service, "reports": len(sent.payloads), "files": list(map(str, paths))}
            )
            print(f"{counted(len(sent.payloads), 'report')} to {sent.service}: {paths[0]}"
                  + (f" and {len(paths) - 1} more" if len(paths) > 1 else ""))  # fmt: skip
    document({"reports": written, "rows_left_out": people.skipped, "values_clipped": people.clipped})
    for service, count in sent_to.items():
        by_time = study.attributes[options.attribute].services[service].by_time
        why = ["not in their users' turn (panel)"] * (study.panel is not None)
        why += ["of a time that no version of the service has"] * by_time
        if count < people.count:
            others = f"{count:,} of {people.count:,} values are sent; the others are {' or '.join(why)}"
            note(f"{service}: {others}")
    if people.users is not None and columns.time is None and attribute.has_users:
        repeated = people.count - len(people.users.unique())
        if repeated:
            note(
                f"rows of users who have an earlier row: {repeated:,}; of a user's reports to a service in a "
                "window, the first counts"
            )
    warn_of_rows(people)
    return DONE


def versions_named(options: argparse.Namespace, study: Study, services: Sequence[str]) -> dict[str, str]:
    """The version of each service that ``--versions`` names.

    Raises:
        UserError: if the attribute has no such service or version.
    """
    known = study.attributes[options.attribute].services
    for service in services:
        if service not in known:
            hint = did_you_mean(service, tuple(known), after=" ")
            raise UserError(f"--services {service}: {hint}there are {', '.join(known)}; spaces between them")
    versions = dict(entry.partition("=")[::2] for entry in options.versions)
    for service, version in versions.items():
        if service not in known or not known[service].fields:
            raise UserError(f"--versions {service}: no field tells versions of this service apart")
        if version not in known[service].versions:
            there = ", ".join(known[service].versions)
            raise UserError(f"--versions {service}={version}: there are {there}")
    return versions


def check_what_clients_need(
    options: argparse.Namespace,
    study: Study,
    attribute: Attribute,
    services: Sequence[str],
    versions: Mapping[str, str],
) -> None:
    """Check that the options give what the clients of these services need, and nothing else.

    Raises:
        UserError: if they do not.
    """
    clients = [
        version
        for service in services
        for version in versions_of_clients(study, attribute, service, versions.get(service)).values()
    ]
    later = [version.mechanism for version in clients if version.mechanism.round > 1]
    if later and options.means is None:
        raise UserError(
            f"round {later[0].round} of {later[0].name} needs the means of the round before: estimate "
            "it, and give its estimates.jsonl with --means"
        )
    remembering = [version.service for version in clients if version.lifetime is not None]
    if remembering and options.device_key_file is None:
        raise UserError(
            f"--services {remembering[0]}: its clients remember their noise (lifetime_epsilon): add "
            "--device-key-file FILE, with 16 random bytes or more"
        )
    if options.device_key_file is not None and not remembering:
        raise UserError("--device-key-file: no service has a lifetime_epsilon; leave it out")
    if options.group_column and study.groups is None:
        raise UserError("--group-column: the study has no groups")
    if study.groups is not None and not options.group_column:
        raise UserError(
            f"the study has groups, by the field {study.groups.field!r} of reports: add --group-column COLUMN"
        )


def event_times_of(options: argparse.Namespace, study: Study) -> tuple[int, int]:
    """When the first report is made, and over how long reports are spread, in milliseconds.

    Raises:
        UserError: if the options give event times twice, not at all, or beyond 2200.
    """
    start = time_of("--start", options.start)
    if start is not None and options.time_column is not None:
        raise UserError("--start and --time-column both give event times: give one of them")
    if start is None and options.time_column is None and study.needs_time:
        raise UserError("the study uses event times: give --time-column, or --start and --spread")
    spread = duration_of("--spread", options.spread)
    if (start or 0) + spread > event_times.YEAR_2200:
        raise UserError(
            f"--spread {options.spread}: event times would lie in 2200 or later, where reports are not "
            "used; give an earlier --start or a shorter --spread"
        )
    return start or 0, spread


@contextlib.contextmanager
def _emptied_if_stopped(folder: Path, attribute: str, services: Sequence[str]) -> Iterator[None]:
    """Delete the written reports after an error or Ctrl-C, since a part of them would look like all."""
    try:
        yield
    except BaseException:
        for service in services:
            make_room(folder, attribute, service, overwrite=True)
        raise


def services_of_round(attribute: Attribute, number: int | None) -> tuple[str, ...]:
    """The services whose mechanism belongs to a round of PrivKVM; all services if the round is None.

    Raises:
        UserError: if no service belongs to the round.
    """
    if number is None:
        return attribute.services
    services = [v.service for v in attribute.versions if 0 < v.mechanism.round == number]
    if not services:
        rounds = sorted({v.mechanism.round for v in attribute.versions} - {0})
        there = f"there are rounds {', '.join(map(str, rounds))}" if rounds else "no service runs privkvm"
        raise UserError(f"--round {number}: {there}")
    return tuple(dict.fromkeys(services))


def read_means(path: str, study: Study, attribute: Attribute) -> dict[str, float]:
    """Each key's mean, from a file of estimates (``estimates.jsonl``).

    Exactly one estimate in the file must have means of the attribute's keys in this study.

    Raises:
        UserError: if the file cannot be read, has no such estimate or several, or its means are out of range.
    """
    domain = attribute.domain
    if not isinstance(domain, KeyValues):
        raise UserError(f"--means: attribute {attribute.name} has no keys")
    wanted = study.name, attribute.name, domain.keys
    with naming(f"--means {path}"):
        estimates = [
            record.key_means
            for record in read_estimates(path)
            if record.key_means is not None and (record.study, record.attribute, record.keys) == wanted
        ]
    if len(estimates) != 1:
        raise UserError(
            f"--means {path}: it has {len(estimates) or 'no'} estimates of the means of {attribute.name} in "
            f"study {study.name}; keep only the line of the window, group and estimate meant"
        )
    means = np.array(estimates[0])
    slack = 1e-9 * domain.values.width
    if not ((means >= domain.values.low - slack) & (means <= domain.values.high + slack)).all():
        raise UserError(f"--means {path}: key_means must be numbers in {domain.values.ends}")
    return dict(zip(domain.keys, np.clip(means, domain.values.low, domain.values.high).tolist(), strict=True))
