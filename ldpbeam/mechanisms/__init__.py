"""Mechanisms: one file per family.

To add a mechanism, write its file and import it here, or ship it in your own package under the entry point
group ``ldpbeam.mechanisms``.
"""

from ldpbeam.mechanisms.categories.block_hadamard import BlockHadamardResponse as BlockHadamardResponse
from ldpbeam.mechanisms.categories.hadamard import HadamardRandomisedResponse as HadamardRandomisedResponse
from ldpbeam.mechanisms.categories.local_hashing import LocalHashing as LocalHashing
from ldpbeam.mechanisms.categories.matrix import Matrix as Matrix
from ldpbeam.mechanisms.categories.mechanism import CategoricalMechanism as CategoricalMechanism
from ldpbeam.mechanisms.categories.randomised_response import RandomisedResponse as RandomisedResponse
from ldpbeam.mechanisms.categories.subset_selection import SubsetSelection as SubsetSelection
from ldpbeam.mechanisms.categories.unary_encoding import OptimisedUnaryEncoding as OptimisedUnaryEncoding
from ldpbeam.mechanisms.categories.unary_encoding import SymmetricUnaryEncoding as SymmetricUnaryEncoding
from ldpbeam.mechanisms.key_values.mechanism import KeySums as KeySums
from ldpbeam.mechanisms.key_values.mechanism import KeyValueMechanism as KeyValueMechanism
from ldpbeam.mechanisms.key_values.pckv import PCKVGRR as PCKVGRR
from ldpbeam.mechanisms.key_values.pckv_piecewise import PCKVPM as PCKVPM
from ldpbeam.mechanisms.key_values.pckv_slots import PCKVUE as PCKVUE
from ldpbeam.mechanisms.key_values.privkv import PrivKV as PrivKV
from ldpbeam.mechanisms.key_values.privkv import PrivKVM as PrivKVM
from ldpbeam.mechanisms.mechanism import FrequencyMechanism as FrequencyMechanism
from ldpbeam.mechanisms.mechanism import Mechanism as Mechanism
from ldpbeam.mechanisms.mechanism import NumericMechanism as NumericMechanism
from ldpbeam.mechanisms.mechanism import SecureUniforms as SecureUniforms
from ldpbeam.mechanisms.mechanism import UnbiasedMechanism as UnbiasedMechanism
from ldpbeam.mechanisms.mechanism import Uniforms as Uniforms
from ldpbeam.mechanisms.mechanism import WholeReports as WholeReports
from ldpbeam.mechanisms.numbers.discrete_square_wave import DiscreteSquareWave as DiscreteSquareWave
from ldpbeam.mechanisms.numbers.gaussian import Gaussian as Gaussian
from ldpbeam.mechanisms.numbers.general_wave import GeneralWave as GeneralWave
from ldpbeam.mechanisms.numbers.hybrid import Hybrid as Hybrid
from ldpbeam.mechanisms.numbers.laplace import Laplace as Laplace
from ldpbeam.mechanisms.numbers.piecewise import Piecewise as Piecewise
from ldpbeam.mechanisms.numbers.square_wave import SquareWave as SquareWave
from ldpbeam.mechanisms.numbers.stochastic_rounding import StochasticRounding as StochasticRounding
from ldpbeam.mechanisms.ranges.binned import Binned as Binned
from ldpbeam.mechanisms.ranges.haar import Haar as Haar
from ldpbeam.mechanisms.ranges.hierarchy import Hierarchy as Hierarchy
from ldpbeam.mechanisms.registry import build_mechanism as build_mechanism
from ldpbeam.mechanisms.registry import register as register
from ldpbeam.mechanisms.registry import registered_mechanisms as registered_mechanisms
from ldpbeam.mechanisms.vectors import SampledCoordinate as SampledCoordinate
