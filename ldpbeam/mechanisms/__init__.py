"""Mechanisms: one file a family.

To add one, write its file and name it here, or ship it in a package of your own under the entry point group
``ldpbeam.mechanisms``.
"""

from ldpbeam.mechanisms.hadamard import HadamardResponse
from ldpbeam.mechanisms.laplace import Laplace
from ldpbeam.mechanisms.mechanism import (
    CategoricalMechanism,
    FrequencyMechanism,
    Mechanism,
    NumericMechanism,
    Uniforms,
)
from ldpbeam.mechanisms.piecewise import Piecewise
from ldpbeam.mechanisms.randomised_response import RandomisedResponse
from ldpbeam.mechanisms.registry import build_mechanism, register, registered_mechanisms
from ldpbeam.mechanisms.secure import SecureUniforms
from ldpbeam.mechanisms.square_wave import SquareWave
from ldpbeam.mechanisms.stochastic_rounding import StochasticRounding

__all__ = [
    "CategoricalMechanism",
    "FrequencyMechanism",
    "HadamardResponse",
    "Laplace",
    "Mechanism",
    "NumericMechanism",
    "Piecewise",
    "RandomisedResponse",
    "SecureUniforms",
    "SquareWave",
    "StochasticRounding",
    "Uniforms",
    "build_mechanism",
    "register",
    "registered_mechanisms",
]
