"""The transforms as Beam YAML takes them: outputs have names, and a key is named by its file.

``providers.yaml`` beside this file names them. The arguments are those of the classes without ``Ldp``.
"""

# Annotations are not postponed here: Beam reads the types of the arguments.
# ruff: noqa: UP045

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Optional, Union

import apache_beam as beam

from ldpbeam.beam.estimate import Estimate, Statistics
from ldpbeam.beam.perturb import Perturb
from ldpbeam.beam.read import ReadReports
from ldpbeam.pipelines.errors import UserError
from ldpbeam.pipelines.runs.keys import read_key

#: The file that a pipeline in YAML includes among its providers.
PROVIDERS = str(Path(__file__).with_name("providers.yaml"))

_Study = Union[str, Mapping[str, Any]]  # noqa: UP007


class _Named(beam.PTransform):
    """A transform whose outputs are a dict, by which Beam YAML names them."""

    def __init__(self, transform: beam.PTransform) -> None:
        super().__init__()
        self.transform = transform

    def expand(self, reports: Any) -> dict[str, beam.PCollection[Any]]:
        """Apply the transform, and name what it gives."""
        outputs: dict[str, beam.PCollection[Any]] = self.transform.expand(reports)._asdict()
        return outputs

    def display_data(self) -> dict[str, Any]:
        """What the transform shows."""
        shown: dict[str, Any] = self.transform.display_data()
        return shown


def LdpReadReports(  # noqa: N802
    study: _Study,
    patterns: Union[str, Sequence[str]],  # noqa: UP007
    attribute: Optional[str] = None,
    service: Optional[str] = None,
    columns: Optional[Mapping[str, str]] = None,
    skip_bad_files: bool = False,
    user_id_key_file: Optional[str] = None,
    keep_bad_records: bool = False,
) -> beam.PTransform:
    """Read files of reports; the outputs are ``reports``, ``dead_letters`` and ``counts``."""
    return _Named(
        ReadReports(
            study,
            patterns,
            attribute=attribute,
            service=service,
            columns=columns,
            skip_bad_files=skip_bad_files,
            user_id_key=_key(user_id_key_file),
            keep_bad_records=keep_bad_records,
        )
    )


LdpReadReports._yaml_requires_inputs = False  # type: ignore[attr-defined] # Beam YAML asks for it


def _of_reports(transform: type[Estimate] | type[Statistics], about: str) -> Callable[..., beam.PTransform]:
    """A transform of reports under the arguments that both have."""

    def named(
        study: _Study,
        attribute: Optional[str] = None,
        service: Optional[str] = None,
        columns: Optional[Mapping[str, str]] = None,
        event_time: Optional[str] = "event_time",
        partitions: Optional[int] = None,
        user_id_key_file: Optional[str] = None,
        keep_bad_records: bool = False,
    ) -> beam.PTransform:
        return _Named(
            transform(
                study,
                attribute=attribute,
                service=service,
                columns=columns,
                event_time=event_time,
                partitions=partitions,
                user_id_key=_key(user_id_key_file),
                keep_bad_records=keep_bad_records,
            )
        )

    named.__doc__ = f"{about} The input is a collection of reports, or all outputs of ``LdpReadReports``."
    return named


LdpEstimate = _of_reports(
    Estimate,
    "Estimate; the outputs are ``estimates``, ``shares``, ``statistics``, ``dead_letters`` and ``counts``.",
)
LdpStatistics = _of_reports(
    Statistics, "Count; the outputs are ``statistics``, ``dead_letters``, ``counts``."
)


def LdpPerturb(  # noqa: N802
    study: _Study,
    service: Optional[str] = None,
    attribute: Optional[str] = None,
    value: str = "value",
    user_id: str = "user_id",
    event_time: Optional[str] = "event_time",
    version: Optional[str] = None,
    clip: bool = False,
) -> beam.PTransform:
    """Perturb true values into reports, which are dicts."""
    return Perturb(
        study,
        service,
        attribute=attribute,
        value=value,
        user_id=user_id,
        event_time=event_time,
        version=version,
        clip=clip,
    )


def _key(path: str | None) -> bytes | None:
    try:
        return read_key(path)
    except UserError as error:
        raise ValueError(str(error).replace("--user-id-key-file", "user_id_key_file")) from None
