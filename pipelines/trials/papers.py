"""Papers' experiments by name, as far as their populations are public or specified."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Paper:
    """An experiment of a paper.

    Attributes:
        source: where the paper describes it.
        left_out: what of it is not done here, and why.
        study: the text of a study with one attribute.
        populations: the names of populations.
        epsilons: each is the epsilon of all services in turn.
        users: numbers of people.
        trials: how often everything is repeated.
    """

    source: str
    left_out: str
    study: str
    populations: tuple[str, ...]
    epsilons: tuple[float, ...]
    users: tuple[int, ...]
    trials: int


_SQUARE_WAVE = """\
study: square-wave
attributes:
  value:
    domain: {numeric: [0, 1]}
    buckets: 256
    quantiles: [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]
    services:
      sw: {mechanism: square_wave, epsilon: 1.0}
      hh: {mechanism: hierarchy, epsilon: 1.0, branching: 4, leaves: 256}
      haar: {mechanism: haar, epsilon: 1.0, leaves: 256}
      bins: {mechanism: binned, epsilon: 1.0, bins: 32}
      pm: {mechanism: piecewise, epsilon: 1.0}
      sr: {mechanism: stochastic_rounding, epsilon: 1.0}
    estimates:
      SW-EMS: {estimator: ems, services: [sw]}
      SW-EM: {estimator: em, services: [sw]}
      HH: {estimator: inversion, services: [hh]}
      HH-ADMM: {estimator: admm, services: [hh]}
      HaarHRR: {estimator: inversion, services: [haar]}
      CFO-32: {estimator: norm_sub, services: [bins]}
      PM: {estimator: ivw, services: [pm]}
      SR: {estimator: ivw, services: [sr]}
"""
_MIXTURE_REDUCTION = """\
study: mixture-reduction
attributes:
  value:
    domain: {numeric: [-1, 1]}
    buckets: 1024
    quantiles: [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]
    services:
      sr: {mechanism: stochastic_rounding, epsilon: 1.0}
      pm: {mechanism: piecewise, epsilon: 1.0}
      sw: {mechanism: square_wave, epsilon: 1.0}
      laplace: {mechanism: laplace, epsilon: 1.0}
    estimates:
      SR: {estimator: ivw, services: [sr]}
      PM: {estimator: ivw, services: [pm]}
      PM-EM: {estimator: ems, services: [pm]}
      PM-MR: {estimator: mr, services: [pm]}
      SW-EMS: {estimator: ems, services: [sw]}
      SW-MR: {estimator: mr, services: [sw]}
      Laplace-EM: {estimator: ems, services: [laplace]}
      Laplace-MR: {estimator: mr, services: [laplace]}
"""
_MULTI_SERVICE = """\
study: multi-service
attributes:
  value:
    domain: {numeric: [0, 1]}
    buckets: 1024
    services:
      sr: {mechanism: stochastic_rounding, epsilon: 0.3}
      pm: {mechanism: piecewise, epsilon: 0.3}
      sw: {mechanism: square_wave, epsilon: 0.3}
    estimates:
      SR: {estimator: ivw, services: [sr]}
      PM: {estimator: ems, services: [pm]}
      SW: {estimator: ems, services: [sw]}
      UA: {estimator: ua}
      UWA: {estimator: uwa}
      ULE: {estimator: ule}
"""
_PRIVKV_EM = """\
study: privkv-em
attributes:
  rating:
    domain: {keys: 50, values: [-1, 1]}
    services:
      privkv: {mechanism: privkv, epsilon: 1.0}
    estimates:
      PrivKV-EM: {estimator: privkv_em}
      PrivKV: {estimator: key_value}
"""

#: The experiments, by the name that ``ldpbeam evaluate --paper`` takes.
PAPERS: Mapping[str, Paper] = {
    "square-wave": Paper(
        "Li et al., Estimating Numerical Distributions under Local Differential Privacy (SIGMOD 2020), "
        "section 6",
        "incomes are a made-up population that rounds as people do; Taxi and Retirement are not included",
        _SQUARE_WAVE,
        ("left_skewed", "spiky"),
        (0.5, 1.0, 1.5, 2.0, 2.5),
        (100_000,),
        10,
    ),
    "mixture-reduction": Paper(
        "Ye et al., Revisiting EM-Based LDP Protocols (NDSS 2025), sections VI-B and VI-D",
        "numbers of S-MN only: SFC and the categories of Income need their data (--study and --data)",
        _MIXTURE_REDUCTION,
        ("two_humps",),
        (0.5, 1.0, 2.0),
        (2_000, 100_000),
        10,
    ),
    "multi-service": Paper(
        "Du et al., Privacy for Free: Leveraging LDP Perturbed Data from Multiple Services (VLDB 2025), "
        "section 6.2",
        "Beta(2,5) only, one epsilon for all services, and no Laplace service for the mean",
        _MULTI_SERVICE,
        ("skewed",),
        (0.1, 0.3, 0.6),
        (100_000,),
        5,
    ),
    "privkv-em": Paper(
        "Horigome et al., EM Estimation for Key-Value Data Randomized with LDP (AINA 2023), Table 4",
        "PrivKVM needs several rounds",
        _PRIVKV_EM,
        ("gaussian", "power_law", "linear"),
        (0.1, 0.5, 1.0, 3.0, 5.0),
        (100_000,),
        10,
    ),
}
