"""Read the key that hides user ids, and the key of simulated devices."""

from __future__ import annotations

from pathlib import Path

from ldpbeam.errors import UserError
from ldpbeam.printing import warn
from ldpbeam.schemas.files.local_files import refuse_special
from ldpbeam.study import Study
from ldpbeam.transforms.reports.dead_letters import SHORTEST_KEY, Disclosure, disclosure_for


def disclosure_of(study: Study, key_file: str | None, keep_bad_records: bool) -> Disclosure:
    """What outputs may reveal about inputs.

    Args:
        study: the study.
        key_file: the file of the HMAC key that hides user ids; None to write them as they came.
        keep_bad_records: whether dead letters hold whole records.

    Raises:
        UserError: if the key cannot be read, or if bad records are kept although user ids are hidden, or
            not to be kept.
    """
    key = read_key(key_file)
    if key is not None and keep_bad_records:
        raise UserError(
            "--keep-bad-records: bad records hold the original user ids, which --user-id-key-file is meant "
            "to hide; leave out one of the two"
        )
    try:
        return disclosure_for(study, keep_bad_records, key)
    except ValueError as error:
        raise UserError(f"--keep-bad-records: {error}") from None


def read_key(
    path: str | None, option: str = "--user-id-key-file", revealed: str = "guess user ids with it"
) -> bytes | None:
    """The HMAC key in a file; None without a path. It warns if every account can read the file.

    Args:
        path: the file.
        option: the option that names it.
        revealed: what anyone who reads the key can do.

    Raises:
        UserError: if the file cannot be read, or is shorter than 16 bytes.
    """
    if path is None:
        return None
    try:
        refuse_special(path)
        key = Path(path).read_bytes()
    except OSError as error:
        hint = ""
        if isinstance(error, FileNotFoundError):
            hint = f"; openssl rand -out {path} 32 makes a new key, to be kept as long as its outputs"
        raise UserError(f"{option} {path}: {error.strerror or error}{hint}") from None
    if Path(path).stat().st_mode & 0o004:
        warn(f"{option} {path}: every account of this machine can read this key, and {revealed}: chmod 600")
    if len(key) < SHORTEST_KEY:
        raise UserError(f"{option} {path}: a key has {SHORTEST_KEY} bytes or more, found {len(key)}")
    return key
