"""The reports of clients whose draws are given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ldpbeam import build_mechanism
from ldpbeam.attributes import domain_of_numbers
from ldpbeam.domains import Domain, Floats, KeyValuePairs, KeyValues, Numeric
from ldpbeam.mechanisms import Mechanism, PrivKVM
from ldpbeam.schemas.study.models import DomainModel


class Given:
    """A source of draws that are given."""

    def __init__(self, draws: Sequence[float]) -> None:
        self.draws = list(draws)

    def random(self, size: int) -> Floats:
        drawn, self.draws = self.draws[:size], self.draws[size:]
        assert len(drawn) == size
        return np.array(drawn, dtype=np.float64)


class OnePerCall:
    """Uniform draws that are given, one per call, the same for everybody; a call for nobody takes none."""

    def __init__(self, *draws: float) -> None:
        self.draws = list(draws)

    def random(self, size: int) -> Floats:
        return np.full(size, self.draws.pop(0)) if size else np.zeros(0)


def domain_of(service: Mapping[str, Any]) -> Domain:
    """The domain of a test vector's service."""
    return DomainModel(**service["domain"]).domain


def mechanism_of(service: Mapping[str, Any], budget: float = 1.0) -> Mechanism:
    """The mechanism of a test vector's service, with so many times its epsilon."""
    epsilon = budget * service["epsilon"]
    return build_mechanism(service["mechanism"], domain_of(service), epsilon, **service["options"])


def sent(service: Mapping[str, Any], mechanism: Mechanism, value: Any, source: Given) -> float | str:
    """What a client sends, as a test vector states it: to twelve digits, or as hexadecimal digits."""
    domain = domain_of(service)
    numbers = domain_of_numbers(domain)
    values: Any = numbers.to_unit([value]) if isinstance(numbers, Numeric) else np.array([value])
    if isinstance(domain, KeyValues):
        keys = np.array([*value]).astype(int)
        values = KeyValuePairs(np.array([0, len(keys)]), keys, np.array([*value.values()], dtype=np.float64))
    if isinstance(mechanism, PrivKVM) and "means" in service:
        report = mechanism.perturb_with(values, np.array(service["means"]), source)
    else:
        report = mechanism.perturb(values, source)
    bytes_ = mechanism.payload_dtype.kind == "V"
    return report.tobytes().hex() if bytes_ else float(f"{report[0]:.12g}")
