"""Estimates from reports perturbed under local differential privacy.

Three names are enough for most programs: :class:`Study` describes the questions, :class:`Client` perturbs
values into reports, and :func:`estimate` turns a table of reports into estimates::

    import ldpbeam as ldp

    study = ldp.Study.from_yaml("study.yaml")
    print(ldp.estimate(study, reports).summary())

``ldpbeam.beam`` has the transforms for your own Beam pipeline. :func:`difference` and :func:`before_after`
compare windows, and :func:`evaluate` measures how accurate a study is. The other names are for your own
mechanisms and estimators.

Each name is imported when it is first used, so ``import ldpbeam`` itself is quick.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if sys.version_info < (3, 11):  # noqa: UP036 - a checkout on the path of an older Python
    raise ImportError("ldpbeam needs Python 3.11 or newer; this is Python " + sys.version.split()[0])

if TYPE_CHECKING:
    __version__: str
    from ldpbeam import beam as beam
    from ldpbeam.attributes import Attribute as Attribute
    from ldpbeam.attributes import ServiceVersion as ServiceVersion
    from ldpbeam.clients.client import Client as Client
    from ldpbeam.domains import Categories as Categories
    from ldpbeam.domains import Numeric as Numeric
    from ldpbeam.errors import StudyError as StudyError
    from ldpbeam.estimators import Estimate as Estimate
    from ldpbeam.estimators import registered_estimators as registered_estimators
    from ldpbeam.library.before_after import before_after as before_after
    from ldpbeam.library.by_user import difference as difference
    from ldpbeam.library.differences import Differences as Differences
    from ldpbeam.library.estimate import estimate as estimate
    from ldpbeam.library.evaluate import Evaluated as Evaluated
    from ldpbeam.library.evaluate import evaluate as evaluate
    from ldpbeam.library.result import Estimates as Estimates
    from ldpbeam.library.study import Study as Study
    from ldpbeam.mechanisms import build_mechanism as build_mechanism
    from ldpbeam.mechanisms import registered_mechanisms as registered_mechanisms
    from ldpbeam.statistics import Answers as Answers
    from ldpbeam.statistics import Statistic as Statistic
    from ldpbeam.statistics import empty as empty
    from ldpbeam.statistics import merge as merge
    from ldpbeam.statistics import tally as tally

#: The public names, by module.
_NAMES = {
    "ldpbeam.attributes": ("Attribute", "ServiceVersion"),
    "ldpbeam.clients.client": ("Client",),
    "ldpbeam.domains": ("Categories", "Numeric"),
    "ldpbeam.errors": ("StudyError",),
    "ldpbeam.estimators": ("Estimate", "registered_estimators"),
    "ldpbeam.library.before_after": ("before_after",),
    "ldpbeam.library.by_user": ("difference",),
    "ldpbeam.library.differences": ("Differences",),
    "ldpbeam.library.estimate": ("estimate",),
    "ldpbeam.library.evaluate": ("Evaluated", "evaluate"),
    "ldpbeam.library.result": ("Estimates",),
    "ldpbeam.library.study": ("Study",),
    "ldpbeam.mechanisms": ("build_mechanism", "registered_mechanisms"),
    "ldpbeam.statistics": ("Answers", "Statistic", "empty", "merge", "tally"),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}
__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    """Import a name when it is first used (PEP 562)."""
    if name == "beam":
        return import_module("ldpbeam.beam")
    if name == "__version__":
        return import_module("importlib.metadata").version("ldpbeam")
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module 'ldpbeam' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(module), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__", "beam"})
