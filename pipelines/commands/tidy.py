"""``ldpbeam tidy``: merges the files of a stream's old windows, those of each UTC day into one.

Windows stay separate in a merged file, so every reader of the folder gives the same results as before. The
merged file is written before the old ones are deleted, and nothing is added to it twice, so a command that
was killed can be run again.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence

from ldpbeam.command_line.checks import duration_of
from ldpbeam.errors import DONE, UserError
from ldpbeam.folders.output import ESTIMATES, FIT_FOLDER, RUNS, STATISTICS, files_in, named_in_errors
from ldpbeam.folders.read import read_estimates, read_study
from ldpbeam.folders.written import TABLE_FOLDERS, snapshots_in
from ldpbeam.pipelines.runs.ownership import held, is_of_streams
from ldpbeam.printing import document, progress_bar
from ldpbeam.study import Study
from ldpbeam.times import UNITS, milliseconds
from ldpbeam.transforms.outputs.estimates import write_tables
from ldpbeam.transforms.outputs.names import OF_A_DAY, span_name
from ldpbeam.transforms.outputs.snapshots import write_together
from ldpbeam.transforms.storage import delete, join, open_raw, read_json, split, write_bytes, write_json
from ldpbeam.untrusted import shown
from ldpbeam.words import counted

DAY = UNITS["d"]
_TIME = r"\d{8}T\d{6}(?:\.\d{3})?Z"
#: The name of a file of a window, or of a merged day.
_NAME = re.compile(rf"(?P<what>.+)-(?P<start>{_TIME})-(?P<end>{_TIME})(?P<run>\..+?)?(?:{OF_A_DAY})?\.[a-z]+")

#: The folders that runs share, and the endings of their files; tables go with the estimates.
_SHARED = {STATISTICS: "avro", ESTIMATES: "jsonl"}


def tidy_command(options: argparse.Namespace) -> int:
    """Run ``ldpbeam tidy`` and return its exit code."""
    output, older = options.folder, duration_of("--older-than", options.older_than)
    if not is_of_streams(output):
        raise UserError(
            f"{output}: not a folder of ldpbeam stream; other runs write few files, or replace those of "
            "their windows"
        )
    study = read_study(output)
    if older < DAY or study.windows is None:
        raise UserError(f"--older-than {options.older_than}: give a day or more")
    before = time.time_ns() // 1_000_000 - older - study.windows.allowed_lateness
    with held(output, alone=True), named_in_errors(output):
        fits = sorted(
            {split(entry.path)[0] for entry in files_in(join(output, RUNS), f"*/{FIT_FOLDER}/*.json")}
        )
        kinds = {
            **{folder: _days(folder, "json", before) for folder in fits},
            **{
                join(output, kind): _days(join(output, kind), ending, before)
                for kind, ending in _SHARED.items()
            },
        }
        files = 0
        with progress_bar("days", lambda: sum(map(len, kinds.values()))) as show:
            for folder, days in kinds.items():
                for name, names in days.items():
                    files += _merged(study, output, folder, name, names)
                    show(1)
    whole = {name.partition(".")[0] for days in kinds.values() for name in days}
    document({"output": output, "files": files, "days": len(whole)})
    print(f"{counted(files, 'file')} merged in {shown(output)}")
    return DONE


def _days(folder: str, ending: str, before: int) -> Mapping[str, Sequence[str]]:
    """The file of each attribute, run and UTC day that ended by a time, and the files that it takes in."""
    days = defaultdict[str, list[str]](list)
    for name in sorted(split(entry.path)[1] for entry in files_in(folder, f"*.{ending}")):
        if named := _NAME.fullmatch(name):
            start, end = milliseconds(named["start"]), milliseconds(named["end"])
            day = start // DAY * DAY
            if end <= day + DAY <= before:
                run = named["run"] or ""
                days[f"{named['what']}-{span_name(day, day + DAY)}{run}{OF_A_DAY}.{ending}"].append(name)
    return {name: names for name, names in days.items() if len(names) > 1}


def _merged(study: Study, output: str, folder: str, name: str, names: Sequence[str]) -> int:
    """Write the file of a day, delete those that are in it, and return how many these are."""
    path, paths = join(folder, name), [join(folder, old_name) for old_name in names]
    if name.endswith(".avro"):
        write_together(study, path, [snapshot for old_path in paths for snapshot in snapshots_in(old_path)])
    elif name.endswith(".json"):
        fits = [read_json(old_path) for old_path in paths]
        tests = dict.fromkeys(json.dumps(test) for fit in fits for test in fit["tests"])
        untested = dict.fromkeys(sentence for fit in fits for sentence in fit["not_tested"])
        write_json(path, {**fits[0], "tests": list(map(json.loads, tests)), "not_tested": list(untested)})
    else:
        lines = dict[bytes, None]()
        for old_path in paths:
            with open_raw(old_path) as stream:
                lines |= dict.fromkeys(stream.read().splitlines(keepends=True))
        write_bytes(path, b"".join(lines))
        table, *tables = (old_name.replace(".jsonl", ".parquet") for old_name in (name, *names))
        kinds = {kind: join(output, *of) for kind, of in TABLE_FOLDERS.items()}
        write_tables({kind: join(of, table) for kind, of in kinds.items()}, list(read_estimates(path)))
        paths += [join(of, other) for of in kinds.values() for other in tables if other != table]
    old = [old_path for old_path in paths if old_path != path]
    delete(old)
    return len(old)
