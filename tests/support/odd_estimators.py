"""An installed package of estimators that do what no estimator should, to test the processes they run in."""

from __future__ import annotations

from pathlib import Path

CODE = '''
import multiprocessing, os, pathlib, signal, time, warnings
from ldpbeam.estimators import Estimate, Estimator
from threadpoolctl import threadpool_info

def elsewhere():
    return multiprocessing.current_process().name != "MainProcess"

def answer(question, **details):
    return question.answer("odd", mean=float(question.reports), details=details)

def tells(question):
    """Tells where it runs; where there are 800 reports, after another process has told."""
    folder = pathlib.Path(os.environ["ODD_FOLDER"])
    if question.reports != 800:
        (folder / f"told-{os.getpid()}").touch()
    while question.reports == 800 and not set(folder.glob("told-*")) - {folder / f"told-{os.getpid()}"}:
        time.sleep(0.01)
    threads = max(library["num_threads"] for library in threadpool_info())
    return answer(question, process=os.getpid(), threads=threads)

def warns(question):
    warnings.warn("this is odd", stacklevel=1)
    return answer(question)

def dies(question):
    if elsewhere():
        os.kill(os.getpid(), signal.SIGKILL)
    return answer(question)

def divides(question):
    return question.reports / 0 if elsewhere() else answer(question)

def has_no_memory(question):
    if elsewhere():
        raise MemoryError("for this")
    return answer(question)

def sleeps(question):
    if elsewhere():
        place = pathlib.Path(os.environ["ODD_FOLDER"]) / f"half-{os.getpid()}"
        place.touch()
        place.rename(place.with_name(f"asleep-{os.getpid()}"))
        time.sleep(600)
    return answer(question)

def fits(attribute, services):
    pass

tells, warns, dies, divides, has_no_memory, sleeps = (
    Estimator(function.__name__, "odd", function, fits)
    for function in (tells, warns, dies, divides, has_no_memory, sleeps)
)
'''
NAMES = ("tells", "warns", "dies", "divides", "has_no_memory", "sleeps")


def install(site: Path) -> None:
    """Write the package into a folder of packages."""
    about = site / "odd-1.0.dist-info"
    about.mkdir(parents=True)
    (site / "odd_code.py").write_text(CODE)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: odd\nVersion: 1.0\n")
    entries = "".join(f"{name} = odd_code:{name}\n" for name in NAMES)
    (about / "entry_points.txt").write_text(f"[ldpbeam.estimators]\n{entries}")
