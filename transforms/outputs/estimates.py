"""Files of estimates, one per attribute and window, which scheduled runs and streams write."""

from __future__ import annotations

from collections.abc import Iterable

from apache_beam.io.filesystems import FileSystems

from ldpbeam.schemas.outputs.estimates import SolvedEstimate, estimate_fields, write_json_lines
from ldpbeam.study import Study
from ldpbeam.transforms.outputs.names import estimates_name
from ldpbeam.transforms.storage import make_folder, replacing
from ldpbeam.windows import Bounds


def write_window_estimates(
    study: Study,
    folder: str,
    run: str,
    attribute: str,
    window: Bounds | None,
    estimates: Iterable[SolvedEstimate],
    *,
    named_by_run: bool = False,
) -> None:
    """Write the estimates of one attribute and window as JSON lines, beside the window's snapshots.

    Args:
        study: the study.
        folder: the folder of the file, created if it does not exist.
        run: the name of the run, which every line carries.
        attribute: the attribute, or the coordinate of a vector.
        window: the window.
        estimates: the estimates, in the order of the lines.
        named_by_run: whether the name of the file has the run's, for folders that runs share.
    """
    make_folder(folder)
    name = estimates_name(study.name, attribute, window, run if named_by_run else "")
    with replacing(FileSystems.join(folder, name)) as stream:
        write_json_lines(stream, (estimate_fields(study, solved, run) for solved in estimates))
