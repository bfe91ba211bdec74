"""Sharper shares from hashed reports: the counts by seed and hash say more than the numbers of supports.

A report of local hashing supports every category that has its hash. If one of these is frequent, it explains
the report, which then says little about a rare one. The numbers of supports ignore this. Near the true
shares, one step of Fisher's scoring on the counts by seed and hash has the least possible variance.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from ldpbeam.domains import Floats
from ldpbeam.estimators.auto.share_likelihood import (
    Likelihood,
    Part,
    Supports,
    by_name,
    independent_reports,
)
from ldpbeam.estimators.question import Question
from ldpbeam.mechanisms import CategoricalMechanism

#: The most entries of a channel's matrix (64 MB), and the most of them times categories (a second of work).
MOST_ENTRIES, MOST_WORK = 2**23, 2**33


def with_all_counts(question: Question, likelihood: Likelihood, shares: Floats) -> Likelihood | None:
    """The likelihood of the counts by seed and hash; None if no service has such counts.

    Args:
        question: the question of ``likelihood``.
        likelihood: the likelihood of the numbers of supports.
        shares: approximate shares, shape (categories,), with sum 1.
    """
    parts = list(likelihood.parts)
    for position, index in enumerate(question.versions):
        mechanism: CategoricalMechanism = question.mechanism(index)
        part = parts[position]
        if mechanism.seed_family and isinstance(part, Supports) and _is_small(mechanism):
            worth = independent_reports(question, index, shares) / question.reports_of(index)
            counts = np.asarray(worth * question.statistic.histograms[index], dtype=np.float64)
            matrix = mechanism.channel(mechanism.size, 0).dense()
            parts[position] = _scored(question, part, matrix, counts, shares)
    if all(after is before for after, before in zip(parts, likelihood.parts, strict=True)):
        return None
    return dataclasses.replace(likelihood, parts=tuple(parts))


def _is_small(mechanism: CategoricalMechanism) -> bool:
    entries = mechanism.cells(0) * mechanism.size
    return entries <= MOST_ENTRIES and entries * mechanism.size <= MOST_WORK


def _scored(question: Question, part: Supports, matrix: Floats, counts: Floats, shares: Floats) -> Part:
    """Supports that say as much as one step of Fisher's scoring from ``shares``, with sum 1.

    If some categories have the same hashes under all seeds, counts cannot tell them apart, and the supports
    stay as they are.
    """
    chances = matrix @ shares
    information = counts.sum() * (matrix.T @ (matrix / chances[:, None]))
    if np.linalg.matrix_rank(information, hermitian=True) < len(shares):
        return part
    inverse = np.linalg.inv(information)
    across = inverse.sum(axis=1)
    covariance = inverse - np.outer(across, across) / across.sum()
    scored = shares + covariance @ (matrix.T @ (counts / chances))
    # With this number of reports, the mean variance of binomial supports is that of the scored shares.
    supported = part.q + (part.p - part.q) * shares
    noise = float((supported * (1.0 - supported)).sum()) / (part.p - part.q) ** 2
    reports = noise / float(np.trace(covariance))
    supports = reports * (part.q + (part.p - part.q) * by_name(question, scored))
    return Supports(np.clip(supports, 0.0, reports)[:, None], reports, part.p, part.q)
