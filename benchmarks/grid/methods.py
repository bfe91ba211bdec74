"""The mechanisms of the grid, and the fixed methods that `auto` is compared with.

Fixed methods are every estimator that the project had before `auto` (commit e20e1bf) and that gives a
distribution from the mechanism's reports: with its default options; with each of its switches set the other
way, alone; and with the combination that the guide named (`mr` with `strategy: pool`, `keep: 0.01`). Their
options are spelled out where a default has changed since. The others are the papers' released programs, as
they run (:mod:`benchmarks.grid.released`).

What `auto` is made of, and the guess that all shares are equal, are no fixed methods. The list does not
change while `auto` is tuned.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from ldpbeam import Attribute, Categories, Numeric, ServiceVersion, build_mechanism
from ldpbeam.resolution import enough_buckets

#: SW, PM, GRR and OLH are one service; ULE is SR, PM and SW, with the same epsilon, joined by user.
Mechanism = Literal["SW", "PM", "GRR", "OLH", "ULE"]
MECHANISMS: tuple[Mechanism, ...] = get_args(Mechanism)
OF_NUMBERS: tuple[Mechanism, ...] = ("SW", "PM", "ULE")
SERVICES: Mapping[Mechanism, tuple[str, ...]] = {
    "SW": ("square_wave",),
    "PM": ("piecewise",),
    "GRR": ("grr",),
    "OLH": ("olh",),
    "ULE": ("stochastic_rounding", "piecewise", "square_wave"),
}
#: The buckets of the project's estimators, and of the released ones.
BUCKETS, RELEASED_BUCKETS = 256, 1_024
#: Report cells of each service for the released ULE (:mod:`benchmarks.grid.released` says why not 1,024).
RELEASED_JOINT = 256


@dataclass(frozen=True)
class Ours:
    """An estimator of the project with some options.

    Attributes:
        name: the name in tables.
        estimator: the name in study files.
        options: as in study files.
    """

    name: str
    estimator: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Released:
    """A released program, written anew in :mod:`benchmarks.grid.released`.

    Attributes:
        name: the name in tables.
        function: the name of its function there.
        buckets: the report and value buckets that it works with; 0 for categories.
    """

    name: str
    function: str
    buckets: int = RELEASED_BUCKETS


Method = Ours | Released

#: The method that is compared with the fixed ones.
AUTO = Ours("auto", "auto")

_EM = (Ours("em", "em"), Ours("em, accelerated", "em", {"accelerated": True}))
_EMS = (Ours("ems", "ems"), Ours("ems, accelerated", "ems", {"accelerated": True}))
_HALVING = {"strategy": "halving", "pre_merge": False, "keep": 0.25}
_MR = Ours("mr, halving", "mr", _HALVING)
_ONE_NUMBER = (*_EM, *_EMS, _MR)
_FREQUENCIES = (
    *_EM,
    _MR,
    Ours("mr, halving, pre-merged", "mr", {**_HALVING, "pre_merge": True}),
    Ours("mr, halving, accelerated", "mr", {**_HALVING, "accelerated": True}),
    Ours("mr, greedy", "mr", {**_HALVING, "strategy": "greedy"}),
    Ours("mr, pool", "mr", {**_HALVING, "strategy": "pool"}),
    Ours("mr, pool, keep 0.01", "mr", {**_HALVING, "strategy": "pool", "keep": 0.01}),
    Ours("inversion", "inversion"),
    Ours("norm_sub", "norm_sub"),
    Ours("norm_cut", "norm_cut"),
    Ours("norm_mul", "norm_mul"),
    Ours("iiw", "iiw"),
    Ours("iiw, not corrected", "iiw", {"correction": False}),
    Ours("base_cut", "base_cut"),
    Ours("threshold", "threshold"),
)

FIXED: Mapping[Mechanism, tuple[Method, ...]] = {
    "SW": (
        *_ONE_NUMBER,
        Released("released SW-EM (LDP_Protocols)", "sw_em"),
        Released("released SW-EMS (LDP_Protocols)", "sw_ems"),
        Released("released SW-EMS (LDP-EM-MR)", "sw_ems_fading"),
    ),
    "PM": (*_ONE_NUMBER, Released("released PM-EMS (LDP-EM-MR)", "pm_ems")),
    "GRR": (
        *_FREQUENCIES,
        Ours("mle", "mle"),
        Released("released GRR-EM (LDP-EM-MR)", "grr_em", 0),
        Released("released GRR-MR (LDP-EM-MR)", "grr_mr", 0),
    ),
    "OLH": _FREQUENCIES,
    "ULE": (
        *_ONE_NUMBER,
        Ours("ule", "ule"),
        Ours("ule, not smoothed", "ule", {"smooth": False}),
        Released("released ULE (Distribution_ULE)", "ule"),
    ),
}


def asked(mechanism: Mechanism, epsilon: float, categories: int, buckets: int = BUCKETS) -> Attribute:
    """The attribute that one mechanism's reports are of.

    Args:
        mechanism: the mechanism.
        epsilon: of each service.
        categories: the number of categories; ignored for numbers.
        buckets: value and report buckets of numbers.
    """
    names = tuple(map(str, range(categories)))
    domain = Numeric(0.0, 1.0) if mechanism in OF_NUMBERS else Categories(names)
    services = SERVICES[mechanism]
    versions = tuple(ServiceVersion(name, "", build_mechanism(name, domain, epsilon)) for name in services)
    if len(services) == 1:
        return Attribute("value", domain, buckets, versions)
    if buckets == RELEASED_BUCKETS:
        return Attribute("value", domain, buckets, versions, services, RELEASED_JOINT)
    # The resolution that a study without joint_buckets has.
    chosen = tuple(enough_buckets(version.mechanism, buckets) for version in versions)
    return Attribute("value", domain, buckets, versions, services, chosen)
