"""The transforms for Beam YAML: outputs have names, and a key is given by its file.

``providers.yaml`` beside this file names them. The arguments are those of the classes without ``Ldp``.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Optional, Union, get_args

import apache_beam as beam

from ldpbeam.beam.estimate_transform import Estimate, Statistics
from ldpbeam.beam.perturb import Perturb
from ldpbeam.beam.read import ReadReports
from ldpbeam.errors import UserError
from ldpbeam.inputs.key_files import read_key
from ldpbeam.study import Study

#: The file that a pipeline in YAML includes among its providers.
PROVIDERS = str(Path(__file__).with_name("providers.yaml"))
#: The types of arguments that YAML cannot write.
_NOT_IN_YAML = (Study, os.PathLike[str])


class _Named(beam.PTransform):
    """A transform whose outputs are a dict, by which Beam YAML names them."""

    def __init__(self, transform: beam.PTransform) -> None:
        super().__init__()
        self.transform = transform

    def expand(self, reports: Any) -> dict[str, beam.PCollection[Any]]:
        """Apply the transform, and name what it gives."""
        outputs: dict[str, beam.PCollection[Any]] = self.transform.expand(reports)._asdict()
        return outputs


def _in_yaml(
    transform: Callable[..., beam.PTransform], about: str, *, named: bool = True
) -> Callable[..., beam.PTransform]:
    """A transform with the same arguments, except that a key is in a file.

    Args:
        transform: the class of the transform.
        about: what it does, and its outputs, for Beam YAML.
        named: whether it has several outputs, which need names.
    """

    def made(**given: Any) -> beam.PTransform:
        if "user_id_key_file" in given:
            given["user_id_key"] = _key(given.pop("user_id_key_file"))
        return _Named(transform(**given)) if named else transform(**given)

    parameters = inspect.signature(transform, eval_str=True).parameters.values()
    made.__signature__ = inspect.Signature([_argument(parameter) for parameter in parameters])  # type: ignore[attr-defined]
    made.__doc__ = about
    return made


def _argument(parameter: inspect.Parameter) -> inspect.Parameter:
    """An argument for Beam YAML, whose schemas know Union and not X | Y."""
    if parameter.name == "user_id_key":
        return parameter.replace(name="user_id_key_file", annotation=Optional[str])  # noqa: UP045
    arms = tuple(arm for arm in get_args(parameter.annotation) if arm not in _NOT_IN_YAML)
    kind = Union[arms] if arms else parameter.annotation  # noqa: UP007
    return parameter.replace(annotation=kind, kind=parameter.KEYWORD_ONLY)


_INPUT = "The input is a collection of reports, or all outputs of ``LdpReadReports``."
LdpReadReports = _in_yaml(
    ReadReports, "Read files of reports; the outputs are ``reports``, ``dead_letters`` and ``counts``."
)
LdpReadReports._yaml_requires_inputs = False  # type: ignore[attr-defined] # Beam YAML asks for it
LdpEstimate = _in_yaml(
    Estimate,
    "Estimate; the outputs are ``estimates``, ``shares``, ``statistics``, ``dead_letters`` and ``counts``. "
    + _INPUT,
)
LdpStatistics = _in_yaml(
    Statistics, "Count; the outputs are ``statistics``, ``dead_letters``, ``counts``. " + _INPUT
)
LdpPerturb = _in_yaml(Perturb, "Perturb true values into reports, which are dicts.", named=False)


def _key(path: str | None) -> bytes | None:
    try:
        return read_key(path)
    except UserError as error:
        raise ValueError(str(error).replace("--user-id-key-file", "user_id_key_file")) from None
