"""HH, the hierarchical histogram (Kulkarni et al., VLDB 2019; square-wave paper, section 4.2)."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpbeam.channels import BinnedChannel, Channel, MixtureChannel
from ldpbeam.domains import Floats, Integers
from ldpbeam.mechanisms.categories.hadamard import HadamardRandomisedResponse
from ldpbeam.mechanisms.categories.local_hashing import LocalHashing
from ldpbeam.mechanisms.categories.mechanism import CategoricalMechanism
from ldpbeam.mechanisms.categories.randomised_response import RandomisedResponse
from ldpbeam.mechanisms.mechanism import Uniforms
from ldpbeam.mechanisms.ranges.binned import MOST_BINS, BinMechanism, check_leaves, oracle_over
from ldpbeam.mechanisms.registry import AUTO, register
from ldpbeam.options import Range

#: The oracles whose reports fit into the payload of any level.
_Oracle = Literal["auto", "grr", "olh", "hadamard"]


def parents(nodes: Floats, branching: int) -> Floats:
    """The sum over each node's children, given the next level's nodes, shape (nodes / branching,)."""
    return np.asarray(nodes.reshape(-1, branching).sum(axis=1))


def level_precisions_from_below(weights: ArrayLike, branching: int) -> Floats:
    """The precision of a node's share from its own level and all levels below, shape (levels,).

    It is pi_l = w_l + pi_(l+1) / B, where w_l is the precision from level l alone and B is ``branching``: the
    sum of B children has B times a child's variance.
    """
    precisions = np.array(weights, dtype=np.float64)
    for level in range(len(precisions) - 2, -1, -1):
        precisions[level] += precisions[level + 1] / branching
    return precisions


def constrained_inference(shares: Sequence[Floats], weights: ArrayLike, branching: int) -> Floats:
    """Least squares of all levels' shares under consistency and a total of 1 (Hay et al., VLDB 2010).

    The pass up the tree averages a node's own share and the sum of its children's, weighted by precision. The
    pass down divides the difference between a node and the sum of its children equally among the children.
    The result minimises the sum over levels of w_l ||A_l x - f_l||^2 over leaves x of sum 1.

    Args:
        shares: the shares of each level's nodes, from the level below the root to the leaves.
        weights: each level's precision (one over the variance of a node's share); 0 for a level without
            reports; shape (levels,).
        branching: the number of children of a node.

    Returns:
        The leaves' shares, which may be negative, shape (leaves,). If the deepest levels have weight 0, a
        node's share is divided equally among its leaves.
    """
    level_weights = np.asarray(weights, dtype=np.float64)
    total = level_precisions_from_below(level_weights, branching)
    upward = list(shares)
    for level in range(len(upward) - 1, -1, -1):
        # If neither this level nor a level below has weight, its shares are equal parts of its parents'.
        from_own = level_weights[level] / total[level] if total[level] > 0.0 else 0.0
        upward[level] = from_own * upward[level]
        if level + 1 < len(upward):
            upward[level] += (1.0 - from_own) * parents(upward[level + 1], branching)
    nodes = np.ones(1)
    for level_shares in upward:
        surplus = nodes - parents(level_shares, branching)
        nodes = level_shares + np.repeat(surplus / branching, branching)
    return nodes


def node_variance(oracle: CategoricalMechanism) -> float:
    """The variance of a node's share at its level, averaged over nodes, times the number of reports.

    It is half the variance of the difference between two nodes' shares if all nodes are equally frequent;
    other shares hardly change it. Noise that all nodes of a level have in common cancels, because the total
    is known. A level has few nodes and none is rare, so the variance for a rare category would be wrong.
    GRR has 1/(d (p-q)^2). OLH has the rare category's variance plus (1 - 2/g) / (d (p - 1/g)). HRR
    (``hadamard``) has the variance of a signed entry, ((E+1)/(E-1))^2.
    """
    if isinstance(oracle, RandomisedResponse):
        keep, q = oracle.support_probabilities
        return 1.0 / (oracle.size * (keep - q) ** 2)
    if isinstance(oracle, LocalHashing):
        p, q = oracle.support_probabilities
        return oracle.frequency_variance + (1.0 - 2.0 * q) / (oracle.size * (p - q))
    assert isinstance(oracle, HadamardRandomisedResponse)
    return 1.0 / math.tanh(oracle.epsilon / 2.0) ** 2


@register
@dataclasses.dataclass(frozen=True)
class Hierarchy(BinMechanism):
    """A report of the value's node at a uniformly drawn level of a tree, by the oracle of that level.

    A node of the tree has ``branching`` children, and the leaves are equal bins. The levels are 1 (below the
    root) to h = log_branching(leaves). The root is not reported: its share is 1. A report spends the whole
    epsilon on its one node. Unbiased shares come from constrained inference over all levels.

    Attributes:
        branching: the number of children of a node; about 5 is best (Wang et al., SIGMOD 2019).
        leaves: the number of leaves, a power of ``branching``.
        oracle: "grr", "olh" or "hadamard"; "auto" is GRR or OLH at each level, whichever has the lower
            variance.
    """

    name = "hierarchy"
    summary = "HH: a node of a tree of ranges; range queries, and HH-ADMM's reports"
    of_levels = True

    branching: Annotated[int, Range(least=2, most=MOST_BINS)] = 4
    leaves: int = 256
    oracle: _Oracle = AUTO

    def __post_init__(self) -> None:
        super().__post_init__()
        check_leaves(self.leaves, self.branching)
        _ = self.reporters  # raises an error if the oracle does not fit a level

    @property
    def bins(self) -> int:
        """The number of leaves."""
        return self.leaves

    @functools.cached_property
    def reporters(self) -> tuple[CategoricalMechanism, ...]:
        """The oracle of each level, from the level below the root to the leaves.

        Raises:
            ValueError: if OLH at a level would need any 32-bit seed, so that its counts are composite.
        """
        oracles = []
        size = self.branching
        while size <= self.leaves:
            oracle = oracle_over(size, self.oracle, self.epsilon)
            if oracle.composite:
                raise ValueError(
                    f"{oracle.name} at epsilon {self.epsilon:g} over {size} nodes keeps no counts by seed; "
                    "use oracle: auto or hadamard"
                )
            oracles.append(oracle)
            size *= self.branching
        return tuple(oracles)

    @property
    def parameters(self) -> dict[str, Any]:
        """The tree, and the parameters of each level's oracle (of the one that "auto" chose)."""
        return {
            "mechanism": self.name,
            "epsilon": self.epsilon,
            "branching": self.branching,
            "leaves": self.leaves,
            "oracles": [oracle.parameters for oracle in self.reporters],
        }

    @property
    def payload_dtype(self) -> np.dtype[Any]:
        """Nine bytes: level, seed (0 except for OLH), and the node, the hash, or the row and sign."""
        return np.dtype([("level", "u1"), ("seed", "<u4"), ("value", "<u4")])

    def perturb(self, values: ArrayLike, uniforms: Uniforms) -> NDArray[Any]:
        """One report per value in [0, 1], shape (n,)."""
        leaf = self.bin_of(values)
        reports = np.zeros(leaf.size, dtype=self.payload_dtype)
        reports["level"] = 1 + np.floor(uniforms.random(leaf.size) * len(self.reporters))
        for level, oracle in enumerate(self.reporters, 1):
            chosen = np.flatnonzero(reports["level"] == level)
            level_reports = oracle.perturb(leaf[chosen] // (self.leaves // oracle.size), uniforms)
            if level_reports.dtype.names:
                reports["seed"][chosen], reports["value"][chosen] = (
                    level_reports["seed"],
                    level_reports["hash"],
                )
            else:
                reports["value"][chosen] = level_reports
        return reports

    @staticmethod
    def _of_oracle(oracle: CategoricalMechanism, payloads: NDArray[Any]) -> NDArray[Any]:
        """The oracle's payloads, taken from reports of its level."""
        level_reports = np.zeros(len(payloads), dtype=oracle.payload_dtype)
        if level_reports.dtype.names:
            level_reports["seed"], level_reports["hash"] = payloads["seed"], payloads["value"]
        else:
            level_reports[:] = payloads["value"]
        return level_reports

    def is_report(self, payloads: NDArray[Any]) -> NDArray[np.bool_]:
        """Which payloads have a level of the tree and a possible report of that level's oracle."""
        valid = np.zeros(len(payloads), dtype=np.bool_)
        for level, oracle in enumerate(self.reporters, 1):
            chosen = np.flatnonzero(payloads["level"] == level)
            level_reports = self._of_oracle(oracle, payloads[chosen])
            valid[chosen] = oracle.is_report(level_reports)
            if not level_reports.dtype.names:
                valid[chosen] &= payloads["seed"][chosen] == 0
        return valid

    def _ends(self, resolution: int) -> Integers:
        """The index after the last cell of each level, shape (h,)."""
        return np.cumsum([oracle.cells(resolution) for oracle in self.reporters], dtype=np.int64)

    def cells(self, resolution: int) -> int:
        """The number of cells of all levels together."""
        return int(self._ends(resolution)[-1])

    def bucketise(self, payloads: NDArray[Any], resolution: int) -> Integers:
        """The oracle's bucket of each payload, after the cells of the levels above."""
        buckets = np.zeros(len(payloads), dtype=np.int64)
        starts = np.concatenate(([0], self._ends(resolution)))
        for level, oracle in enumerate(self.reporters, 1):
            chosen = np.flatnonzero(payloads["level"] == level)
            cells = oracle.bucketise(self._of_oracle(oracle, payloads[chosen]), resolution)
            buckets[chosen] = starts[level - 1] + cells
        return buckets

    def bin_channel(self, resolution: int) -> Channel:
        """The mixture of all levels' channels, each with share 1/h."""
        levels = [
            BinnedChannel(oracle.channel(oracle.size, resolution), self.leaves) for oracle in self.reporters
        ]
        return MixtureChannel(levels, [1.0 / len(levels)] * len(levels))

    def _level_histograms(self, histogram: Integers) -> list[Integers]:
        # The oracles' cells do not depend on the resolution.
        return np.split(histogram, self._ends(1)[:-1])

    def level_reports(self, histogram: Integers) -> Integers:
        """The number of reports of each level, shape (h,)."""
        return np.array([level.sum() for level in self._level_histograms(histogram)], dtype=np.int64)

    def level_shares(self, histogram: Integers) -> list[Floats]:
        """Unbiased shares of each level's nodes, from the level's reports; zeros if it has none."""
        return [
            oracle.unbiased_frequencies(level, int(level.sum())) if level.any() else np.zeros(oracle.size)
            for oracle, level in zip(self.reporters, self._level_histograms(histogram), strict=True)
        ]

    def level_precisions(self, histogram: Integers) -> Floats:
        """One over the variance of a node's share from its level's reports, shape (h,)."""
        variances = np.array([node_variance(oracle) for oracle in self.reporters])
        return np.asarray(self.level_reports(histogram) / variances)

    def unbiased_frequencies(self, histogram: Integers, reports: int) -> Floats:
        """Constrained inference from all levels, each weighted by its precision; shape (leaves,)."""
        return constrained_inference(
            self.level_shares(histogram), self.level_precisions(histogram), self.branching
        )

    @property
    def frequency_variance(self) -> float:
        """A leaf's variance, averaged over leaves: the sum over levels l of (1 - 1/B) B^(2(l-h)) / pi_l.

        The leaves' shares are a sum of parts. The part of level l is constant within the nodes of level l and
        sums to zero within those of the level above. Least squares estimates the parts separately. A leaf has
        (1 - 1/B) B^(l-h) of the part of level l, whose precision is B^(h-l) pi_l. Here
        pi_l = w_l + pi_(l+1) / B and w_l = 1 / (h a_l), where a_l is :func:`node_variance`, because each
        level has 1/h of the reports.
        """
        levels = len(self.reporters)
        level_weights = [1.0 / (levels * node_variance(oracle)) for oracle in self.reporters]
        precisions = level_precisions_from_below(level_weights, self.branching)
        above = np.arange(levels - 1, -1, -1)
        terms = (1.0 - 1.0 / self.branching) * float(self.branching) ** (-2 * above) / precisions
        return float(terms.sum())

    def output(self) -> str:
        """The layout of level, seed and value, and each level's oracle, in words."""
        levels = "; ".join(
            f"level {level} ({oracle.size} nodes) {oracle.name}: {oracle.output()}"
            for level, oracle in enumerate(self.reporters, 1)
        )
        return (
            f"level (1 byte), seed (4 bytes, 0 where none is used), value (4 bytes), little-endian; {levels}"
        )
