"""Files of estimates: of one attribute and window, as scheduled runs and streams write, or of a whole run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ldpbeam.schemas.outputs.estimates import write_json_lines
from ldpbeam.schemas.outputs.records import EstimateRecord
from ldpbeam.schemas.outputs.tables import SCHEMAS, write_table
from ldpbeam.study import Study
from ldpbeam.transforms.outputs.names import ESTIMATES, TABLES, estimates_name
from ldpbeam.transforms.storage import join, make_folder, replacing
from ldpbeam.windows import Bounds


def write_window_estimates(
    study: Study,
    output: str,
    run: str,
    attribute: str,
    window: Bounds | None,
    estimates: Sequence[EstimateRecord],
    *,
    named_by_run: bool = False,
) -> None:
    """Write the estimates of one attribute and window as JSON lines and as two tables.

    Args:
        study: the study.
        output: the output folder; the folders of the files are created if they do not exist.
        run: the name of the run.
        attribute: the attribute, or the coordinate of a vector.
        window: the window.
        estimates: the estimates, in the order of the lines.
        named_by_run: whether the name of the file has the run's, for folders that runs share.
    """
    name = estimates_name(study.name, attribute, window, run if named_by_run else "")
    table = f"{name.removesuffix('.jsonl')}.parquet"
    make_folder(join(output, ESTIMATES))
    with replacing(join(output, ESTIMATES, name)) as stream:
        write_json_lines(stream, estimates)
    for kind in SCHEMAS:
        make_folder(join(output, TABLES, kind))
    paths = {kind: join(output, TABLES, kind, table) for kind in SCHEMAS}
    write_tables(paths, estimates)


def write_run_tables(output: str, estimates: Sequence[EstimateRecord]) -> None:
    """Write the tables of all estimates of a run.

    Args:
        output: the output folder, which exists.
        estimates: the estimates, in the order of the rows.
    """
    paths = {kind: join(output, f"{kind}.parquet") for kind in SCHEMAS}
    write_tables(paths, estimates)


def write_tables(paths: Mapping[str, str], estimates: Sequence[EstimateRecord]) -> None:
    """Write the tables of estimates to files, by the kind of table."""
    for kind, path in paths.items():
        with replacing(path) as stream:
            write_table(stream, SCHEMAS[kind], estimates)
