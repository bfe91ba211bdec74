"""The lifetime epsilon of a service: what its clients remember, and the mechanism of one window."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ldpbeam.domains import Numeric
from ldpbeam.mechanisms import (
    GeneralWave,
    LocalHashing,
    Mechanism,
    OptimisedUnaryEncoding,
    Piecewise,
    RandomisedResponse,
    SquareWave,
    StochasticRounding,
    SymmetricUnaryEncoding,
)
from ldpbeam.mechanisms.mechanism import LARGEST_EPSILON
from ldpbeam.memoised import chains
from ldpbeam.memoised.chains import NumberChain, SupportChain

#: The classes of the mechanisms whose reports can have a lifetime epsilon.
MEMOISED: tuple[type[Mechanism], ...] = (
    RandomisedResponse,
    OptimisedUnaryEncoding,
    SymmetricUnaryEncoding,
    LocalHashing,
    StochasticRounding,
    SquareWave,
    Piecewise,
)
_NUMBERS = (StochasticRounding, SquareWave, Piecewise)
#: The most memo buckets of a number.
MOST_MEMO_BUCKETS = 65_536


@dataclass(frozen=True)
class Lifetime:
    """What the clients of a service remember.

    Attributes:
        named: the mechanism that the study names, with the epsilon of one window.
        epsilon: the lifetime epsilon, of all reports about one value; it is above that of a window.
        as_published: whether clients use the published constants of L-GRR and LOLOHA; for the other
            mechanisms of categories, the published constants are exact.
        memo_buckets: for numbers, the number of buckets to which values and reports are rounded; 0 for
            categories.
        values: the number of values of a domain with a step: then only reports are rounded to memo buckets;
            0 without a step.

    Raises:
        ValueError: if the mechanism has no permanent answer, or a number is out of range.
    """

    named: Mechanism
    epsilon: float
    as_published: bool = False
    memo_buckets: int = 0
    values: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.named, MEMOISED):
            names = ", ".join(kind.name for kind in MEMOISED)
            raise ValueError(f"lifetime_epsilon is for {names}, and not for {self.named.name}")
        if not self.named.epsilon < self.epsilon <= LARGEST_EPSILON:
            raise ValueError(
                f"lifetime_epsilon must be above epsilon ({self.named.epsilon:g}) and at most "
                f"{LARGEST_EPSILON:g}, found {self.epsilon:g}"
            )
        if isinstance(self.named, OptimisedUnaryEncoding) and self.named.own != 0.5:
            raise ValueError("lifetime_epsilon is for oue with own: 0.5, the default")
        of_number = isinstance(self.named, _NUMBERS)
        if of_number and self.as_published:
            raise ValueError("as_published is for grr, olh, oue and sue: nothing is published for numbers")
        if of_number and not 2 <= self.memo_buckets <= MOST_MEMO_BUCKETS:
            raise ValueError(f"memo_buckets must be from 2 to {MOST_MEMO_BUCKETS}, found {self.memo_buckets}")
        if not of_number and self.memo_buckets:
            raise ValueError(f"memo_buckets is for numbers, and not for {self.named.name}")

    @property
    def options(self) -> Mapping[str, Any]:
        """What fingerprints and stamps state besides the mechanism that the study names."""
        return {
            "lifetime_epsilon": self.epsilon,
            **({"as_published": True} if self.as_published else {}),
            **({"memo_buckets": self.memo_buckets} if self.memo_buckets else {}),
        }

    @property
    def inputs(self) -> int:
        """For numbers, the number of different inputs of the permanent step."""
        return self.values or self.memo_buckets

    @functools.cached_property
    def half_width(self) -> float:
        """Half the width of the permanent wave of ``square_wave`` or ``piecewise``, for values in [0, 1]."""
        if isinstance(self.named, Piecewise):
            return 0.5 * math.exp(-self.epsilon / 2.0)
        return SquareWave(self.epsilon).half_width

    @functools.cached_property
    def chain(self) -> SupportChain | NumberChain:
        """The constants of the permanent and of the instant step."""
        named, epsilons = self.named, (self.epsilon, self.named.epsilon)
        if isinstance(named, RandomisedResponse):
            return chains.randomised_response(named.size, *epsilons, as_published=self.as_published)
        if isinstance(named, LocalHashing):
            return chains.local_hashing(named.hashes, *epsilons, as_published=self.as_published)
        if isinstance(named, OptimisedUnaryEncoding):
            return chains.optimised_unary(named.size, *epsilons)
        if isinstance(named, SymmetricUnaryEncoding):
            return chains.symmetric_unary(named.size, *epsilons)
        if isinstance(named, StochasticRounding):
            return chains.rounding(*epsilons, self.inputs)
        return chains.wave(self.half_width, *epsilons, self.inputs)

    @functools.cached_property
    def window(self) -> Mechanism:
        """The mechanism whose channel describes the reports of one window.

        It is the mechanism that the study names, with two exceptions: the reports of a wave have the wave of
        the lifetime epsilon, which is narrower; and published constants make reports noisier.
        """
        if isinstance(self.named, SquareWave | Piecewise):
            return GeneralWave(self.named.epsilon, top=1.0, half_width=self.half_width)
        if self.as_published and isinstance(self.named, RandomisedResponse | LocalHashing):
            chain = self.chain
            assert isinstance(chain, SupportChain)
            cells = chain.inputs
            p = chain.window[0]
            # Rounding must not raise it above the study's epsilon.
            epsilon = min(math.log(p * (cells - 1.0) / (1.0 - p)), self.named.epsilon)
            return replace(self.named, epsilon=epsilon)
        return self.named

    def explain(self) -> str:
        """The mechanism, its budgets and its reports, in words."""
        named = self.named
        published = ""
        if self.window.epsilon != named.epsilon:
            published = f", with published constants of epsilon {self.window.epsilon:.3g} a window"
        return (
            f"{named.name} with epsilon {named.epsilon:g} a window and {self.epsilon:g} for life{published}, "
            f"by clients that remember their noise: a report is {self.window.output()}"
        )

    def explain_loss(self, instant: float) -> str:
        """What a user's reports reveal in several windows, in words.

        Args:
            instant: the largest epsilon of the instant step.
        """
        values = "hash values" if isinstance(self.named, LocalHashing) else "values"
        if self.memo_buckets and not self.values:
            values = "memo buckets"
        return (
            f"A user's reports in T windows reveal at most T x {self.named.epsilon:g}, and at most "
            f"c x {self.epsilon:g} with c different {values}, of which values these were; at most "
            f"T x {instant:.3g} with the times of their changes. Reports that repeat a permanent "
            "answer can be linked to one device"
        )

    def explain_rounding(self, domain: Numeric) -> str:
        """How much clients round a number of a domain, in words; empty if they do not."""
        if not self.memo_buckets or self.values:
            return ""
        return (
            f"Clients round values to the middles of {self.memo_buckets:,} equal buckets, which moves none "
            f"by more than {0.5 * domain.width / self.memo_buckets:.3g}"
            if domain.scale is None
            else f"Clients round values to the middles of {self.memo_buckets:,} buckets, equal on their scale"
        )


def released_options(name: str, lifetime: float, epsilon: float) -> Mapping[str, Any]:
    """The options of a mechanism in released clients with published constants.

    OLOLOHA draws seeds from the whole range, hashes a category's index in decimal digits, and chooses the
    number of hash values itself.

    Args:
        name: the mechanism's name.
        lifetime: the lifetime epsilon.
        epsilon: the epsilon of one window.
    """
    if name != LocalHashing.name or lifetime <= epsilon:
        return {}
    return {"seeds": "any", "hashed": "text", "hashes": chains.published_hashes(lifetime, epsilon)}
