"""The likelihood of all reports of each user, to several services, near the answer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ldpbeam.density.likelihoods import Exact, Quadratic
from ldpbeam.domains import Floats, Integers, number_of_values
from ldpbeam.estimators.auto.counted import fine_buckets, with_points
from ldpbeam.estimators.curvature import sampled_curvature
from ldpbeam.estimators.iteration import Trace
from ldpbeam.estimators.joint_fixed_point import fit_users
from ldpbeam.estimators.joint_likelihood import JointLikelihood, JointProducts
from ldpbeam.estimators.linearised import blocks_of
from ldpbeam.estimators.question import Question

#: The most blocks of value buckets.
MOST_BLOCKS = 256
#: Up to this many entries of the matrix P(kind | block) the likelihood is exact.
EXACT_ENTRIES = 2**18
#: The most evaluations of all users for finding the first centre of the expansion.
MOST_EVALUATIONS = 50


def is_joined(question: Question) -> bool:
    """Whether two or more services are asked for, and the joint histogram has all of them."""
    joined = question.attribute.joint_services
    return len(question.services) > 1 and all(service in joined for service in question.services)


class Blocked:
    """The likelihoods of kinds of users by block of value buckets, from products by bucket.

    A point is also a bucket of the products: the first and the last bucket are the ends of the range.
    """

    def __init__(self, products: JointProducts, sizes: Integers) -> None:
        self._products, self._sizes = products, np.maximum(sizes, 1)
        self._starts = np.cumsum(self._sizes) - self._sizes

    def _even(self, shares: Floats) -> Floats:
        return np.repeat(shares / self._sizes, self._sizes)

    def forward(self, weights: Floats) -> Floats:
        """The (scaled) probability of each kind under a distribution of blocks, shape (kinds,)."""
        return self._products.forward(self._even(weights))

    def backward(self, ratios: Floats) -> Floats:
        """The transpose of :meth:`forward`, shape (blocks,)."""
        return np.asarray(np.add.reduceat(self._products.backward(ratios), self._starts) / self._sizes)

    def evaluate(self, weights: Floats, counts: Floats) -> tuple[Floats, Floats]:
        """(``forward(weights)``, ``backward(counts / forward(weights))``)."""
        probabilities, slopes = self._products.evaluate(self._even(weights), counts)
        return probabilities, np.add.reduceat(slopes, self._starts) / self._sizes

    def rows(self, chosen: Integers) -> Floats:
        """The (scaled) likelihoods of some kinds, shape (chosen, blocks)."""
        return np.asarray(np.add.reduceat(self._products.rows(chosen), self._starts, axis=1) / self._sizes)


class JoinedLikelihood:
    """The likelihood of the kinds of users in a joint histogram, by block of value buckets.

    Attributes:
        log_scale: a constant to add to log-likelihoods.
        sizes: the number of equal parts of the range in each block, shape (blocks,).
        total: how many users with fresh noise would say as much.
        people: the least number of different people.
    """

    def __init__(self, question: Question) -> None:
        buckets = fine_buckets(question.attribute)
        steps = bool(number_of_values(question.attribute.domain))
        fine = replace(question, attribute=question.attribute.with_value_buckets(buckets))
        joint = JointLikelihood(fine, ends=not steps)
        _, sizes = blocks_of(buckets, min(buckets, MOST_BLOCKS))
        self.sizes = sizes if steps else with_points(sizes)
        self._products = Blocked(joint.products, self.sizes)
        # Services draw their noise independently, so the largest factor bounds that of all services together.
        factor = max(question.noise_factor(index) for index in question.versions)
        self._counts = joint.counts / factor
        self.total, self.people = float(self._counts.sum()), float(joint.counts.sum()) / question.repeats
        self.log_scale = joint.log_scale

    @property
    def exact(self) -> Exact | None:
        """The exact likelihood; None if there are many kinds of users."""
        kinds = len(self._counts)
        if kinds * len(self.sizes) > EXACT_ENTRIES:
            return None
        return Exact(self._products.rows(np.arange(kinds)), self._counts, self.sizes)

    def near(self, centre: Floats) -> Quadratic:
        """The second-order expansion around a distribution, shape (blocks,).

        The slopes are those of all users. The curvature is that of a sample of the kinds
        (:mod:`~ldpbeam.estimators.curvature`); its error is about 1% in every direction.
        """
        probabilities, slopes = self._products.evaluate(centre, self._counts)
        curvature = sampled_curvature(self._products, self._counts, len(centre), len(centre))
        value = float(self._counts @ np.log(probabilities))
        return Quadratic(centre, value, slopes, curvature(self._counts / probabilities**2), self.sizes)

    def first_centre(self) -> Floats:
        """The distribution to expand around first: that of EMS, shape (blocks,)."""
        trace = Trace(MOST_EVALUATIONS)
        return fit_users(self._products, self._counts, len(self.sizes), trace, smoothing=True).weights
