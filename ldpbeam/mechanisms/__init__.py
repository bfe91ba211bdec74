"""Mechanisms: one file per family.

To add a mechanism, write its file and import it here, or ship it in your own package under the entry point
group ``ldpbeam.mechanisms``.
"""

from ldpbeam.mechanisms.categories.block_hadamard import BlockHadamardResponse
from ldpbeam.mechanisms.categories.hadamard import HadamardRandomisedResponse
from ldpbeam.mechanisms.categories.local_hashing import LocalHashing
from ldpbeam.mechanisms.categories.matrix import Matrix
from ldpbeam.mechanisms.categories.mechanism import CategoricalMechanism
from ldpbeam.mechanisms.categories.randomised_response import RandomisedResponse
from ldpbeam.mechanisms.categories.subset_selection import SubsetSelection
from ldpbeam.mechanisms.categories.unary_encoding import (
    OptimisedUnaryEncoding,
    SymmetricUnaryEncoding,
    UnaryEncoding,
)
from ldpbeam.mechanisms.key_values.mechanism import KeySums, KeyValueMechanism
from ldpbeam.mechanisms.key_values.pckv import PCKVGRR
from ldpbeam.mechanisms.key_values.pckv_piecewise import PCKVPM
from ldpbeam.mechanisms.key_values.pckv_slots import PCKVUE
from ldpbeam.mechanisms.key_values.privkv import PrivKV, PrivKVM
from ldpbeam.mechanisms.mechanism import (
    FrequencyMechanism,
    Mechanism,
    NumericMechanism,
    SecureUniforms,
    UnbiasedMechanism,
    Uniforms,
    WholeReports,
)
from ldpbeam.mechanisms.numbers.discrete_square_wave import DiscreteSquareWave
from ldpbeam.mechanisms.numbers.gaussian import Gaussian
from ldpbeam.mechanisms.numbers.general_wave import GeneralWave
from ldpbeam.mechanisms.numbers.hybrid import Hybrid
from ldpbeam.mechanisms.numbers.laplace import Laplace
from ldpbeam.mechanisms.numbers.piecewise import Piecewise
from ldpbeam.mechanisms.numbers.square_wave import SquareWave
from ldpbeam.mechanisms.numbers.stochastic_rounding import StochasticRounding
from ldpbeam.mechanisms.ranges.binned import Binned
from ldpbeam.mechanisms.ranges.haar import Haar
from ldpbeam.mechanisms.ranges.hierarchy import Hierarchy
from ldpbeam.mechanisms.registry import build_mechanism, register, registered_mechanisms
from ldpbeam.mechanisms.vectors import SampledCoordinate

__all__ = [
    "PCKVGRR",
    "PCKVPM",
    "PCKVUE",
    "Binned",
    "BlockHadamardResponse",
    "CategoricalMechanism",
    "DiscreteSquareWave",
    "FrequencyMechanism",
    "Gaussian",
    "GeneralWave",
    "Haar",
    "HadamardRandomisedResponse",
    "Hierarchy",
    "Hybrid",
    "KeySums",
    "KeyValueMechanism",
    "Laplace",
    "LocalHashing",
    "Matrix",
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
    "SubsetSelection",
    "SymmetricUnaryEncoding",
    "UnaryEncoding",
    "UnbiasedMechanism",
    "Uniforms",
    "WholeReports",
    "build_mechanism",
    "register",
    "registered_mechanisms",
]
