"""The registry of mechanisms by name, as study files name them."""

from __future__ import annotations

import dataclasses
import inspect
import math
from typing import Any, Literal, TypeVar

from ldpbeam.domains import Categories, Domain, KeyValues, Numeric, Vector
from ldpbeam.mechanisms.mechanism import Mechanism
from ldpbeam.mechanisms.vectors import SampledCoordinate
from ldpbeam.nearest import did_you_mean
from ldpbeam.plugins import Registry

#: What people have in each kind of domain, in words.
KINDS: dict[type[Domain], str] = {
    Numeric: "numeric values",
    Categories: "categories",
    KeyValues: "keys with values",
    Vector: "vectors",
}


def kind_of(domain: Domain) -> str:
    """The values of a domain, in words."""
    return next(words for kind, words in KINDS.items() if isinstance(domain, kind))


#: The name of a mechanism for categories: GRR or OLH, whichever has the lower variance.
AUTO: Literal["auto"] = "auto"
M = TypeVar("M", bound=type[Mechanism])


def _checked(plugin: object) -> tuple[str, type[Mechanism]]:
    if not (isinstance(plugin, type) and issubclass(plugin, Mechanism) and not inspect.isabstract(plugin)):
        raise TypeError(f"{plugin!r} is not a subclass of Mechanism that can be made")
    if plugin.domain_type not in KINDS or not isinstance(plugin.summary, str):
        raise TypeError(f"{plugin!r} needs a domain_type of ldpbeam and a summary")
    return plugin.name, plugin


_REGISTRY: Registry[type[Mechanism]] = Registry("mechanism", _checked)


def register(mechanism: M) -> M:
    """Class decorator: register the mechanism, so that study files can use it by its ``name``.

    Raises:
        ValueError: if another mechanism has this name.
    """
    _REGISTRY.add(mechanism.name, mechanism)
    return mechanism


def registered_mechanisms() -> dict[str, type[Mechanism]]:
    """Every mechanism by name: this package's, and those of the entry point group ``ldpbeam.mechanisms``.

    Raises:
        UserError: if an installed package adds one that cannot be used.
    """
    return dict(sorted(_REGISTRY.all().items()))


def better_oracle(size: int, epsilon: float) -> str:
    """``grr`` if size - 2 < 3 exp(epsilon), else ``olh`` (Wang et al., USENIX Security 2017)."""
    return "grr" if size - 2 < 3.0 * math.exp(epsilon) else "olh"


def build_mechanism(name: str, domain: Domain, epsilon: float, /, **options: Any) -> Mechanism:
    """The mechanism that a study file describes.

    For categories, the name ``auto`` means ``grr`` or ``olh``, whichever has the lower variance. For a
    vector, the name is that of a mechanism for numbers, which perturbs one sampled coordinate.

    Args:
        name: the mechanism's registered name, or ``auto``.
        domain: the attribute's domain.
        epsilon: the privacy budget of one report, above 1e-6 and at most 20.
        options: the mechanism's options.

    Raises:
        ValueError: for an unknown name, a domain of another kind, an unknown option, or a value that the
            mechanism refuses.
    """
    if not isinstance(name, str):
        raise ValueError(f"a mechanism is named by text, found {name!r}")
    if isinstance(domain, Vector):
        inner = build_mechanism(name, domain.values, epsilon, **options)
        return SampledCoordinate(epsilon=epsilon, size=domain.size, inner=inner)
    mechanisms = registered_mechanisms()
    if name == AUTO and isinstance(domain, Categories):
        name = better_oracle(domain.size, epsilon)
    fit = [candidate for candidate, kind in mechanisms.items() if isinstance(domain, kind.domain_type)]
    choices = [AUTO, *fit] if isinstance(domain, Categories) else fit
    there_are = f"for {kind_of(domain)} there are: {', '.join(choices)}"
    if name not in mechanisms:
        raise ValueError(
            f"unknown mechanism {name!r}; {did_you_mean(name, mechanisms, after=' ')}{there_are}"
        )
    mechanism = mechanisms[name]
    if name not in fit:
        raise ValueError(f"mechanism {name!r} is for {KINDS[mechanism.domain_type]}; {there_are}")
    accepted = {field.name for field in dataclasses.fields(mechanism)} - {"epsilon", "size"}
    for option in options:
        if option not in accepted:
            allowed = f"it takes {', '.join(sorted(accepted))}" if accepted else "it takes none"
            raise ValueError(f"mechanism {name!r} has no option {option!r}; {allowed}")
    return mechanism.for_domain(domain, epsilon, **options)
