"""The most likely distribution under a prior, and the prior's marginal likelihood by Laplace's method."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs

from ldpbeam.density.curves import Curves
from ldpbeam.density.likelihoods import Likelihood
from ldpbeam.domains import Floats

#: Newton's method ends when the next step promises less than this gain of the log posterior density.
LEAST_GAIN = 1e-3
#: The most Newton steps.
MOST_STEPS = 60
#: A step is halved until its gain is ENOUGH_GAIN of the predicted gain, or it is shorter than SHORTEST.
ENOUGH_GAIN, SHORTEST = 1e-4, 1e-6


@dataclass(frozen=True)
class Mode:
    """The mode of a posterior density of coefficients.

    Attributes:
        coefficients: the coefficients z at the mode, shape (m,); their priors are standard normal.
        shares: the distribution at the mode, shape (blocks,).
        log_density: the log-likelihood plus the log prior density, without its constant.
        root: the upper triangle U with U'U = identity + information at the mode, shape (m, m).
        steps: the number of Newton steps.
        converged: whether a further step promised less than :data:`LEAST_GAIN`.
    """

    coefficients: Floats
    shares: Floats
    log_density: float
    root: Floats
    steps: int
    converged: bool

    @cached_property
    def log_evidence(self) -> float:
        """The log marginal likelihood by Laplace's method, exact if the coefficients' posterior is normal."""
        return self.log_density - float(np.log(np.diag(self.root)).sum())


def log_posterior(likelihood: Likelihood, curves: Curves, coefficients: Floats) -> tuple[Floats, Floats]:
    """(log densities, shape (n,); shares, shape (blocks, n)) of coefficients of shape (m, n)."""
    shares = curves.shares(coefficients)
    return likelihood.values(shares) - 0.5 * (coefficients**2).sum(axis=0), shares


@dataclass(frozen=True)
class Derivatives:
    """The derivatives of a log posterior density by the coefficients.

    Attributes:
        gradient: the first derivatives, shape (m,).
        curvature: identity plus information, which is positive definite, shape (m, m). The information is
            minus the second derivatives of the log-likelihood, without the terms whose expectation is zero.
        bent: these terms, shape (m, m): the second derivatives are bent - curvature.
    """

    gradient: Floats
    curvature: Floats
    bent: Floats


def derivatives(likelihood: Likelihood, curves: Curves, coefficients: Floats, shares: Floats) -> Derivatives:
    """The derivatives at some coefficients, shape (m,), whose shares have the shape (blocks,)."""
    slopes, bends = curves.derivatives(coefficients)
    mean = shares @ slopes
    moves = slopes - mean
    moves *= shares[:, None]
    rises, curvature = likelihood.expanded(shares, moves)
    np.einsum("mm->m", curvature)[:] += 1.0
    climb = rises @ moves
    excess = shares * (rises - rises @ shares)
    bent = (curves.matrix * (excess * bends)[:, None]).T @ curves.matrix
    crossed = climb[:, None] * mean
    bent -= crossed + crossed.T
    return Derivatives(climb - coefficients, curvature, bent)


def _root(matrix: Floats) -> Floats | None:
    """The upper triangle U with U'U equal to the matrix; None if that is not positive definite or not finite.

    LAPACK is called directly, because for a matrix of 30 rows SciPy's checks take longer than the work.
    """
    root, failed = dpotrf(matrix)
    return None if failed or not np.isfinite(root.trace()) else np.asarray(root)


def _root_of_curvature(expansion: Derivatives) -> Floats:
    root = _root(expansion.curvature)
    if root is None:
        raise np.linalg.LinAlgError("a matrix of a density's curvature is not positive definite")
    return root


def _step(expansion: Derivatives) -> Floats:
    """Newton's step; where the density is not concave, that of Fisher's scoring, which needs more steps."""
    root = _root(expansion.curvature - expansion.bent)
    if root is None:
        root = _root_of_curvature(expansion)
    return np.asarray(dpotrs(root, expansion.gradient)[0])


def mode_of(likelihood: Likelihood, curves: Curves, start: Floats) -> Mode:
    """The mode by Newton's method, which starts at coefficients of shape (m,).

    Raises:
        np.linalg.LinAlgError: if the likelihood is not finite.
    """
    z = start
    log_densities, columns = log_posterior(likelihood, curves, z[:, None])
    log_density, shares = float(log_densities[0]), columns[:, 0]
    converged, steps = False, 0
    while True:
        expansion = derivatives(likelihood, curves, z, shares)
        step = _step(expansion)
        promised = float(expansion.gradient @ step)
        converged = promised < LEAST_GAIN
        if converged or steps == MOST_STEPS:
            break
        length = 1.0
        while length >= SHORTEST:
            log_densities, columns = log_posterior(likelihood, curves, (z + length * step)[:, None])
            if log_densities[0] >= log_density + ENOUGH_GAIN * length * promised:
                break
            length *= 0.5
        else:
            break
        z, log_density, shares = z + length * step, float(log_densities[0]), columns[:, 0]
        steps += 1
    return Mode(z, shares, log_density, _root_of_curvature(expansion), steps, converged)
