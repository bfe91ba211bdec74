"""The fixed point of EMS by Newton's method, for the reports of a service and for users of many services.

A plain update of EMS multiplies the weights by the slopes of the likelihood and smooths them. The fixed point
is reached when a further update changes no share by more than :data:`LARGEST_CHANGE`. Plain updates take
thousands of steps, because smoothing moves weight only from one bucket to the next. A Newton step solves the
linearised equation instead (:mod:`ldpbeam.estimators.linearised`).

:meth:`Newton.step` turns one :class:`State` into the next. One function handles each way in which a step can
go wrong: :func:`at_least`, :func:`held`, :func:`with_the_update`, :func:`bounded`, :func:`shortened`,
:func:`rate_of`, and :attr:`State.growing`. The step that ends at the fixed point takes no evaluation.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ldpbeam.domains import Floats
from ldpbeam.estimators.iteration import Fit, Trace, accelerate, smooth
from ldpbeam.estimators.linearised import Linearised, Smoothing
from ldpbeam.estimators.products import Products

#: At the fixed point a further plain update changes no share by more than this.
LARGEST_CHANGE = 1e-9
#: And at most this share of all weight has still to move, judging by the last Newton steps.
LARGEST_MOVE = 3e-7
#: The bounds of a rate of convergence, the rate before two steps give one, and the longest step that
#: estimates of the remaining move allow.
FASTEST, SLOWEST, UNKNOWN, LONGEST = 0.05, 0.99, 0.5, 30.0
#: A held weight that would grow is given the share LIFT of all weight, at most MOST_LIFTS times.
LIFT, MOST_LIFTS = 1e-3, 5
#: A bucket is held near zero if all buckets within this part of the range are near zero too: otherwise the
#: tail of a distribution would grow by one bucket per step.
AROUND = 256
#: The most Newton steps before the solver continues with larger plain updates.
MOST_STEPS = 100
#: After this many steps, further steps are cut shorter and shorter while they are longer than LONG.
PATIENCE, LONG = 20, 0.01
#: How often larger updates check for the fixed point, in iterations of two or three updates.
CHECK_EVERY = 50
#: A step changes a weight by at most these factors, as logarithms. A weight below ``FAINT`` of the uniform
#: one may rise by ``FAINT_RISE``, up to ``FAINT``, because it hardly changes the likelihood.
LARGEST_FALL, LARGEST_RISE, FAINT_RISE, FAINT = -4.0, 2.0, 6.0, 1e-4
#: The least weight, relative to the uniform one: far below the accuracy that is asked of a share.
LEAST = 1e-10


@dataclass(frozen=True)
class Curvature:
    """The curvature H = sum over k of h_k a_k a_k' as B' M B, where a_k is the likelihood of kind k.

    It need not be exact: it affects the number of steps, not the result.

    Attributes:
        means: from h = ``counts / forward(weights)**2 / n``, shape (kinds,), to M, shape (rows, rows).
        basis: B, shape (rows, value buckets); None for the blocks of
            :func:`ldpbeam.estimators.linearised.block_starts`.
    """

    means: Callable[[Floats], Floats]
    basis: Floats | None = None


@dataclass(frozen=True)
class State:
    """Where Newton's method stands after one evaluation, and the step that it would take next.

    Attributes:
        before: the weights before they are smoothed, shape (value buckets,), all above zero.
        weights: the smoothed weights, with sum 1.
        slopes: of the likelihood over the number of observations, shape (value buckets,), all above zero.
        likelihood: the log-likelihood of the weights.
        ahead: the weights before they are smoothed after the next step, shape (value buckets,).
        move: the share of all weight that the next step would move if it were not bounded.
        rate: the length of the next step relative to the last one.
        steps: the number of steps so far.
        lifts: how often held weights have been lifted.
    """

    before: Floats
    weights: Floats
    slopes: Floats
    likelihood: float
    ahead: Floats
    move: float
    rate: float
    steps: int = 0
    lifts: int = 0

    @functools.cached_property
    def growing(self) -> Floats | None:
        """The shares by which to lift weights that are held near zero and would grow; None if none would."""
        if self.lifts == MOST_LIFTS:
            return None
        return Smoothing(len(self.weights)).growing(self.weights, self.slopes)

    @property
    def is_settled(self) -> bool:
        """Whether a plain update moves little, and so do all steps after the next one."""
        missing = self.move * self.rate / (1.0 - self.rate)
        return missing <= LARGEST_MOVE and change_of_update(self.weights, self.slopes) <= LARGEST_CHANGE

    @functools.cached_property
    def is_done(self) -> bool:
        """Whether the next step ends at the fixed point."""
        return self.is_settled and self.growing is None


@dataclass(frozen=True)
class Newton:
    """Newton's method for the fixed point of EMS.

    Attributes:
        products: the likelihoods of the kinds of observations.
        counts: the number of observations of each kind, shape (kinds,), all above zero.
        curvature: the curvature of the likelihood.
    """

    products: Products
    counts: Floats
    curvature: Curvature

    def start(self, weights: Floats) -> State:
        """The state of weights before smoothing, shape (value buckets,), with sum 1."""
        return self._at(at_least(weights), np.inf, 0, 0)

    def step(self, state: State) -> State:
        """The next state, with one evaluation."""
        if state.is_settled and state.growing is not None:
            lifted = state.before + LIFT * state.growing
            return self._at(lifted, np.inf, state.steps + 1, state.lifts + 1)
        return self._at(state.ahead, state.move, state.steps + 1, state.lifts)

    def _at(self, before: Floats, last_move: float, steps: int, lifts: int) -> State:
        """The state of weights before smoothing, with one evaluation."""
        weights, n = smooth(before), self.counts.sum()
        probabilities, slopes = self.products.evaluate(weights, self.counts)
        slopes = np.maximum(slopes / n, np.finfo(np.float64).tiny)
        likelihood = float(self.counts @ np.log(probabilities))
        residual = np.log(weights * slopes / before)
        still = held(before, residual)
        means, basis = self.curvature.means(self.counts / probabilities**2 / n), self.curvature.basis
        try:
            linearised = Linearised(before, weights, slopes, means, still, basis)
            step = linearised.solve(np.where(still, 0.0, residual))
        except np.linalg.LinAlgError:
            return State(before, weights, slopes, likelihood, before, np.nan, np.nan, steps, lifts)
        step = with_the_update(step, residual, weights)
        move = float(weights @ np.abs(np.expm1(np.minimum(step, LONGEST))))
        ahead = before * np.exp(bounded(step, before, shortened(steps, move)))
        ahead = at_least(ahead / ahead.sum())
        return State(before, weights, slopes, likelihood, ahead, move, rate_of(move, last_move), steps, lifts)


def change_of_update(weights: Floats, slopes: Floats) -> float:
    """The largest change of a share by a plain, smoothed update."""
    return float(np.abs(smooth(weights * slopes) - weights).max())


def at_least(before: Floats) -> Floats:
    """The weights, raised to the least weight, so that their logarithms are finite."""
    return np.maximum(before, LEAST / len(before))


def held(before: Floats, residual: Floats) -> NDArray[np.bool_]:
    """Which buckets a step leaves where they are, shape (value buckets,).

    A bucket at the least weight would fall further, and the logarithm of such a small weight has a large
    residual. The bucket is held if all buckets near it are at the least weight too.
    """
    buckets = len(before)
    around = max(1, buckets // AROUND)
    falling = (before <= 1.0001 * LEAST / buckets) & (residual < 0.0)
    free = np.concatenate(([0], np.cumsum(~falling)))
    bucket = np.arange(buckets)
    last, first = np.minimum(bucket + around + 1, buckets), np.maximum(bucket - around, 0)
    return np.asarray(free[last] == free[first])


def with_the_update(step: Floats, residual: Floats, weights: Floats) -> Floats:
    """The step, or the plain update if the step goes against it.

    The residual is the plain update in logarithms. Far from the fixed point, the solution of the linearised
    equation can lie on the other side, and steps would go to and fro.
    """
    return step if weights @ (step * residual) >= 0.0 else residual


def shortened(steps: int, move: float) -> float:
    """The share of its bounds that a step may use, which shrinks if steps stay long for too long."""
    return float(0.5 ** max(0, (steps - PATIENCE) // 5)) if move > LONG else 1.0


def bounded(step: Floats, before: Floats, share: float) -> Floats:
    """A step cut to this share of its bounds; faint weights may rise faster."""
    faint = FAINT / len(before)
    within = np.clip(step, share * LARGEST_FALL, share * LARGEST_RISE)
    faintly = np.minimum(np.minimum(step, FAINT_RISE), np.log(np.maximum(faint / before, 1.0)))
    return np.maximum(within, faintly)


def rate_of(move: float, last_move: float) -> float:
    """The length of a step relative to the last one, within the bounds of what is believed."""
    return min(max(move / last_move, FASTEST), SLOWEST) if 0.0 < last_move < np.inf else UNKNOWN


def fixed_point(
    products: Products, counts: Floats, start: Floats, trace: Trace, *, curvature: Curvature
) -> Fit:
    """The fixed point of EMS from any start, for any likelihood that is linear in the weights.

    Each iteration is one evaluation. If Newton's method does not arrive, larger plain updates take over.

    Args:
        products: the products with the likelihoods of the kinds of observations.
        counts: the number of observations of each kind, shape (kinds,), all above zero.
        start: the first weights, shape (value buckets,), with sum 1; at least three.
        trace: counts the iterations; once it is full, the solver ends, not converged.
        curvature: the curvature of the likelihood.
    """
    newton = Newton(products, counts, curvature)
    state = newton.start(start)
    while True:
        trace.tell(state.likelihood)
        if state.is_done:
            return trace.fit(smooth(state.ahead), True)
        if len(trace.likelihoods) >= min(trace.most, MOST_STEPS) or np.isnan(state.move):
            break
        state = newton.step(state)
    return _larger_updates(products, counts, state.weights, trace)


def _larger_updates(products: Products, counts: Floats, weights: Floats, trace: Trace) -> Fit:
    """The rest of the way to the fixed point, by SQUAREM, which needs no curvature and always ends."""
    while not trace.is_full:
        done = len(trace.likelihoods)
        part = Trace(min(CHECK_EVERY, trace.most - done), trace.progress, trace.before + done)
        fit = accelerate(products, counts, weights, part, smoothing=True, tolerance=-np.inf, tested=False)
        weights = fit.weights
        trace.likelihoods += part.likelihoods
        _, slopes = products.evaluate(weights, counts)
        if change_of_update(weights, slopes / counts.sum()) <= LARGEST_CHANGE:
            return trace.fit(weights, True)
    return trace.fit(weights, False)
