"""The output folder of a run: the names in it, and its existing files."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ldpbeam.cells import rules_version
from ldpbeam.errors import UserError, without_number
from ldpbeam.transforms.outputs.names import ACCOUNTING as ACCOUNTING
from ldpbeam.transforms.outputs.names import ESTIMATES as ESTIMATES
from ldpbeam.transforms.outputs.names import RUN as RUN
from ldpbeam.transforms.outputs.names import RUNS as RUNS
from ldpbeam.transforms.outputs.names import STATISTICS as STATISTICS
from ldpbeam.transforms.patterns import Entry, matching
from ldpbeam.transforms.storage import join, literal, split

if TYPE_CHECKING:
    from ldpbeam.study import Study

#: The version of the layout of output folders, in ``run.json``; a folder that states none has version 1.
FORMAT = 1
LEDGER = "ledger.json"
#: The folder of files of what users spent, for the ledger over periods; the folder of their parts while a run
#: writes; the sums in the first; and the file of the ledger itself.
LEDGER_FOLDER, LEDGER_PARTS, LEDGER_SUMS = "ledger", ".ledger", "sums.arrow"
LEDGER_PERIODS = "ledger_periods.json"
FIT = "fit.json"
#: The tests of fit in the folder of a stream's run: a file for each attribute and window.
FIT_FOLDER = "fit"
STUDY = "study.json"
DEAD_LETTERS = "dead_letters"


@dataclass(frozen=True)
class Output:
    """The study, the output folder and the name of a run.

    Attributes:
        study: the study.
        output: the folder of the outputs.
        run: the run's name, which every snapshot and estimate carries.
    """

    study: Study
    output: str
    run: str

    def path(self, *names: str) -> str:
        """A path below the output folder."""
        return join(self.output, *names)

    @property
    def about(self) -> dict[str, Any]:
        """The fields of ``run.json`` that identify the run and its study."""
        about = {"run": self.run, "study": self.study.name, "study_fingerprint": self.study.fingerprint}
        clock = self.study.clock
        return (
            about if clock is None else {**about, "zone_rules": clock.fingerprint, "tzdata": rules_version()}
        )


@contextlib.contextmanager
def named_in_errors(output: str) -> Iterator[None]:
    """Turn errors of the file system inside the block into messages about ``--output``.

    Raises:
        UserError: for an OSError or ValueError inside; it names the output folder.
    """
    try:
        yield
    except (OSError, ValueError) as error:
        raise UserError(f"--output {output or repr(output)}: {without_number(str(error))}") from None


def files_in(folder: str, pattern: str) -> list[Entry]:
    """The files in a folder that match a pattern; the folder's name is taken literally.

    Raises:
        PermissionError: if the folder may not be read.
    """
    return matching(join(literal(folder), pattern))


def names_in(folder: str, pattern: str) -> list[str]:
    """The sorted names, without the folder, of the files in a folder that match a pattern."""
    return sorted(split(entry.path)[1] for entry in files_in(folder, pattern))


def folder_of(entry: Entry) -> str:
    """The name of a file's folder."""
    return split(split(entry.path)[0])[1]
