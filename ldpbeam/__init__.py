"""Estimates from reports perturbed under local differential privacy.

A program of your own needs three names: :class:`Study`, what is asked; :class:`Client`, which perturbs; and
:func:`estimate`, which estimates from a table of reports::

    import ldpbeam as ldp

    study = ldp.Study.from_yaml("study.yaml")
    print(ldp.estimate(study, reports).summary())

``ldpbeam.beam`` has the transforms for a Beam pipeline of your own.

Every name is imported when it is first used, so that ``import ldpbeam`` costs nothing. The modules of this
package compute the statistics, with numpy and scipy only. ``ldpbeam.schemas``, ``ldpbeam.transforms``,
``ldpbeam.pipelines`` and ``ldpbeam.runners`` are the Beam pipelines that use them, and ``ldpbeam.library`` is
behind the three names.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if sys.version_info < (3, 11):  # noqa: UP036 - a checkout on the path of an older Python
    raise ImportError("ldpbeam needs Python 3.11 or newer; this is Python " + sys.version.split()[0])

if TYPE_CHECKING:
    __version__: str
    from ldpbeam import beam as beam
    from ldpbeam.attributes import Attribute, ServiceVersion
    from ldpbeam.clients.client import Client
    from ldpbeam.domains import Categories, Numeric
    from ldpbeam.errors import StudyError
    from ldpbeam.estimators import Estimate, registered_estimators
    from ldpbeam.library.before_after import before_after
    from ldpbeam.library.by_user import difference
    from ldpbeam.library.differences import Differences
    from ldpbeam.library.estimate import estimate
    from ldpbeam.library.evaluate import Evaluated, evaluate
    from ldpbeam.library.result import Estimates
    from ldpbeam.library.study import Study
    from ldpbeam.mechanisms import build_mechanism, registered_mechanisms
    from ldpbeam.statistics import Answers, Statistic, empty, merge, tally

__all__ = [
    "Answers",
    "Attribute",
    "Categories",
    "Client",
    "Differences",
    "Estimate",
    "Estimates",
    "Evaluated",
    "Numeric",
    "ServiceVersion",
    "Statistic",
    "Study",
    "StudyError",
    "before_after",
    "build_mechanism",
    "difference",
    "empty",
    "estimate",
    "evaluate",
    "merge",
    "registered_estimators",
    "registered_mechanisms",
    "tally",
]

#: The module of each name.
_MODULES = {
    "Answers": "ldpbeam.statistics",
    "Attribute": "ldpbeam.attributes",
    "Categories": "ldpbeam.domains",
    "Client": "ldpbeam.clients.client",
    "Differences": "ldpbeam.library.differences",
    "Estimate": "ldpbeam.estimators",
    "Estimates": "ldpbeam.library.result",
    "Evaluated": "ldpbeam.library.evaluate",
    "Numeric": "ldpbeam.domains",
    "ServiceVersion": "ldpbeam.attributes",
    "Statistic": "ldpbeam.statistics",
    "Study": "ldpbeam.library.study",
    "StudyError": "ldpbeam.errors",
    "before_after": "ldpbeam.library.before_after",
    "build_mechanism": "ldpbeam.mechanisms",
    "difference": "ldpbeam.library.by_user",
    "empty": "ldpbeam.statistics",
    "estimate": "ldpbeam.library.estimate",
    "evaluate": "ldpbeam.library.evaluate",
    "merge": "ldpbeam.statistics",
    "registered_estimators": "ldpbeam.estimators",
    "registered_mechanisms": "ldpbeam.mechanisms",
    "tally": "ldpbeam.statistics",
}


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
