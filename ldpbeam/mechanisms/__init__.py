"""Mechanisms: one file a family.

To add one, write its file and name it here, or ship it in a package of your own under the entry point group
``ldpbeam.mechanisms``.
"""

from ldpbeam.mechanisms.binned import Binned
from ldpbeam.mechanisms.discrete_square_wave import DiscreteSquareWave
from ldpbeam.mechanisms.gaussian import Gaussian
from ldpbeam.mechanisms.general_wave import GeneralWave
from ldpbeam.mechanisms.haar import Haar
from ldpbeam.mechanisms.hadamard import HadamardResponse
from ldpbeam.mechanisms.hierarchy import Hierarchy
from ldpbeam.mechanisms.hybrid import Hybrid
from ldpbeam.mechanisms.key_value import KeyValueMechanism
from ldpbeam.mechanisms.laplace import Laplace
from ldpbeam.mechanisms.local_hashing import LocalHashing
from ldpbeam.mechanisms.mechanism import (
    CategoricalMechanism,
    FrequencyMechanism,
    Mechanism,
    NumericMechanism,
    Uniforms,
)
from ldpbeam.mechanisms.pckv import PCKVGRR
from ldpbeam.mechanisms.pckv_piecewise import PCKVPM
from ldpbeam.mechanisms.pckv_slots import PCKVUE
from ldpbeam.mechanisms.piecewise import Piecewise
from ldpbeam.mechanisms.privkv import PrivKV, PrivKVM
from ldpbeam.mechanisms.randomised_response import RandomisedResponse
from ldpbeam.mechanisms.registry import build_mechanism, register, registered_mechanisms
from ldpbeam.mechanisms.sampled_coordinate import SampledCoordinate
from ldpbeam.mechanisms.secure import SecureUniforms
from ldpbeam.mechanisms.square_wave import SquareWave
from ldpbeam.mechanisms.stochastic_rounding import StochasticRounding
from ldpbeam.mechanisms.unary_encoding import (
    OptimisedUnaryEncoding,
    SymmetricUnaryEncoding,
    UnaryEncoding,
)

__all__ = [
    "PCKVGRR",
    "PCKVPM",
    "PCKVUE",
    "Binned",
    "CategoricalMechanism",
    "DiscreteSquareWave",
    "FrequencyMechanism",
    "Gaussian",
    "GeneralWave",
    "Haar",
    "HadamardResponse",
    "Hierarchy",
    "Hybrid",
    "KeyValueMechanism",
    "Laplace",
    "LocalHashing",
    "Mechanism",
    "NumericMechanism",
    "OptimisedUnaryEncoding",
    "Piecewise",
    "PrivKV",
    "PrivKVM",
    "RandomisedResponse",
    "SampledCoordinate",
    "SecureUniforms",
    "SquareWave",
    "StochasticRounding",
    "SymmetricUnaryEncoding",
    "UnaryEncoding",
    "Uniforms",
    "build_mechanism",
    "register",
    "registered_mechanisms",
]
