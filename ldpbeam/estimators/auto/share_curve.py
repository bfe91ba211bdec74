"""The shares as a smooth curve along the order of the categories, if they have one.

The log of the curve is a cubic spline with a penalty on its second derivative (a P-spline; Eilers and Marx,
Statist. Sci. 1996), as a normal prior distribution of the spline's coefficients. The curves of several
strengths of the penalty are averaged, each weighted by the evidence: the probability of the reports, averaged
over the prior distribution of the curve (Laplace's approximation).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.interpolate import BSpline

from ldpbeam.domains import Floats
from ldpbeam.estimators.auto.share_likelihood import Likelihood

#: The most coefficients; with as many categories or fewer, each category has its own.
MOST_COEFFICIENTS = 60
#: The penalties on the integral of the squared second derivative, the strongest first.
PENALTIES = np.geomspace(1e4, 1e-3, 12)
#: The standard deviations of the log-ratio of the last to the first share of a straight line.
SLOPES = (0.7, 4.0)
#: Newton's method ends if a step would gain less than this, or after so many steps.
LEAST_GAIN, MOST_STEPS = 1e-3, 25


@dataclass(frozen=True)
class Curve:
    """The averaged curve.

    Attributes:
        shares: the share of each category, shape (categories,), with sum 1.
        log_evidence: the log of the reports' average likelihood.
    """

    shares: Floats
    log_evidence: float


def basis(categories: int) -> Floats:
    """The B-splines at the midpoint of each category, shape (categories, coefficients)."""
    if categories <= MOST_COEFFICIENTS:
        return np.eye(categories)
    inner = np.linspace(0.0, 1.0, MOST_COEFFICIENTS - 2)
    knots = np.concatenate((np.zeros(3), inner, np.ones(3)))
    points = (np.arange(categories) + 0.5) / categories
    found: Floats = BSpline.design_matrix(points, knots, 3).toarray()
    return found


def curve(likelihood: Likelihood) -> Curve:
    """The curve of categories whose likelihood has no groups."""
    splines = basis(likelihood.categories)
    found = [_at(likelihood, splines, slope, PENALTIES) for slope in SLOPES]
    fits = [fit for several in found for fit in several]
    evidence = np.array([fit.log_evidence for fit in fits])
    weights = np.exp(evidence - evidence.max())
    log_evidence = float(evidence.max() + math.log(weights.mean()))
    weights /= weights.sum()
    shares = weights @ np.array([fit.shares for fit in fits])
    return Curve(shares / shares.sum(), log_evidence)


def _at(likelihood: Likelihood, splines: Floats, slope: float, penalties: Floats) -> list[Curve]:
    """The curve of each penalty; each starts at the curve of the penalty before."""
    many = splines.shape[1]
    second = np.diff(np.eye(many), 2, axis=0) * many**1.5
    roughness = second.T @ second
    line = np.arange(many) - (many - 1) / 2.0
    line /= np.linalg.norm(line)
    # A constant cancels; any proper prior distribution of it does.
    proper = np.outer(line, line) * 12.0 / (many * slope**2) + 1.0 / many
    coefficients, found = np.zeros(many), []
    for penalty in penalties:
        prior = penalty * roughness + proper
        coefficients = _newton(likelihood, splines, prior, coefficients)
        shares, slopes = _shares(splines, coefficients)
        curvature = slopes.T @ (likelihood.information(shares)[:, None] * slopes) + prior
        log_evidence = (
            float(likelihood.log_likelihood(shares).sum())
            - 0.5 * float(coefficients @ prior @ coefficients)
            + 0.5 * float(np.linalg.slogdet(prior)[1] - np.linalg.slogdet(curvature)[1])
        )
        found.append(Curve(shares, log_evidence))
    return found


def _shares(splines: Floats, coefficients: Floats) -> tuple[Floats, Floats]:
    """(shares, their derivatives by the coefficients)."""
    logs = splines @ coefficients
    shares = np.exp(logs - logs.max())
    shares /= shares.sum()
    return shares, shares[:, None] * (splines - shares @ splines)


def _newton(likelihood: Likelihood, splines: Floats, prior: Floats, start: Floats) -> Floats:
    """The most probable coefficients, by Fisher scoring."""

    def height(coefficients: Floats) -> float:
        shares, _ = _shares(splines, coefficients)
        told = float(likelihood.log_likelihood(shares).sum())
        return told - 0.5 * float(coefficients @ prior @ coefficients)

    coefficients, reached = start, height(start)
    for _ in range(MOST_STEPS):
        shares, slopes = _shares(splines, coefficients)
        curvature = slopes.T @ (likelihood.information(shares)[:, None] * slopes) + prior
        gradient = slopes.T @ likelihood.slope(shares) - prior @ coefficients
        step = np.linalg.solve(curvature, gradient)
        length = 1.0
        while (after := height(coefficients + length * step)) < reached and length > 1e-3:
            length *= 0.5
        if after < reached:
            break
        coefficients, reached = coefficients + length * step, after
        if gradient @ step < LEAST_GAIN:
            break
    return coefficients
