"""Estimators: a statistic and its channels to an estimate. One file a method family."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ldpbeam.attributes import Attribute
from ldpbeam.domains import Floats, KeyValues
from ldpbeam.estimators.admm import admm, check_hierarchy
from ldpbeam.estimators.em import FIXED_POINT_TOLERANCE, check_ems, em, ems, ems_is_fixed_point
from ldpbeam.estimators.estimate import Estimate, Estimator, Progress, Question
from ldpbeam.estimators.frequencies import (
    base_cut,
    check_bins,
    check_frequencies,
    check_mle,
    inversion,
    mle,
    norm_cut_estimate,
    norm_mul_estimate,
    norm_sub_estimate,
    threshold,
)
from ldpbeam.estimators.key_values.key_value import check_key_value, key_value
from ldpbeam.estimators.key_values.pckv import check_pckv_em, check_pckv_mr, pckv_em, pckv_mr
from ldpbeam.estimators.key_values.privkv import (
    check_privkv_em,
    check_privkv_mle,
    check_privkvm,
    privkv_em,
    privkv_mle,
    privkvm,
)
from ldpbeam.estimators.means import check_mean, check_uwa, ivw, ua, uwa
from ldpbeam.estimators.mixture_reduction.merging import STRATEGIES
from ldpbeam.estimators.mixture_reduction.mr import check_mr, mr
from ldpbeam.estimators.ule import check_joined, ule
from ldpbeam.estimators.wiener import iiw
from ldpbeam.statistics import Statistic

__all__ = ["ESTIMATORS", "Estimate", "Estimator", "Progress", "Question", "check", "estimate", "starts_warm"]


def _check_em(attribute: Attribute, services: Sequence[str]) -> None:
    """Every channel of one number or category will do."""
    if isinstance(attribute.domain, KeyValues):
        raise ValueError("for keys with values use key_value, privkv_mle, privkv_em or pckv_em")


_ITERATION = {"tolerance": None, "max_iterations": 10_000, "accelerated": None}

ESTIMATORS: Mapping[str, Estimator] = {
    estimator.name: estimator
    for estimator in (
        Estimator("em", "EM: maximum likelihood, stopped early", em, _check_em, _ITERATION),
        Estimator(
            "ems",
            "EMS: EM with smoothing, for numbers",
            ems,
            check_ems,
            _ITERATION,
            fixed_point=ems_is_fixed_point,
        ),
        Estimator(
            "ule",
            "ULE: EMS over the joint likelihood of each user's services",
            ule,
            check_joined,
            {"smooth": True, "tolerance": 1e-3, "max_iterations": 10_000},
            joins=True,
        ),
        Estimator(
            "mr",
            "MR: EM that merges what noise hides",
            mr,
            check_mr,
            {
                "strategy": "halving",
                "pre_merge": False,
                "keep": 0.25,
                "deviations": None,
                "tolerance": None,
                "max_iterations": 10_000,
                "accelerated": None,
            },
        ),
        Estimator("ivw", "mean, services weighted by inverse variance", ivw, check_mean),
        Estimator("ua", "UA: mean of each user's mean unbiased report", ua, check_mean),
        Estimator("uwa", "UWA as published: weights by each user's posterior", uwa, check_uwa, joins=True),
        Estimator(
            "inversion", "unbiased shares; HH and HaarHRR of a hierarchy", inversion, check_frequencies
        ),
        Estimator("norm_sub", "Norm-Sub: the nearest distribution", norm_sub_estimate, check_frequencies),
        Estimator("norm_cut", "Norm-Cut: small shares cut", norm_cut_estimate, check_bins),
        Estimator("norm_mul", "Norm-Mul: positive shares scaled", norm_mul_estimate, check_frequencies),
        Estimator("iiw", "IIW: unbiased shares, Wiener-filtered", iiw, check_bins, {"correction": True}),
        Estimator(
            "admm",
            "HH-ADMM: the nearest distribution to all levels of a hierarchy",
            admm,
            check_hierarchy,
            {"penalty": 1.0, "tolerance": 1e-8, "max_iterations": 10_000},
        ),
        Estimator(
            "base_cut",
            "Base-Cut: shares of two deviations or more",
            base_cut,
            check_bins,
            {"deviations": 2.0},
        ),
        Estimator(
            "threshold", "shares significantly above zero", threshold, check_bins, {"significance": 0.05}
        ),
        Estimator("mle", "maximum likelihood in closed form, for grr, oue, sue", mle, check_mle),
        Estimator("key_value", "keys with values: the mechanism's own estimates", key_value, check_key_value),
        Estimator(
            "privkv_em",
            "PrivKV-EM as published: EM per key, stopped early",
            privkv_em,
            check_privkv_em,
            {"precision": 1e-4, "max_iterations": 10_000},
        ),
        Estimator("privkv_mle", "PrivKV's exact maximum likelihood", privkv_mle, check_privkv_mle),
        Estimator("privkvm", "PrivKVM: means of the last round, frequencies of all", privkvm, check_privkvm),
        Estimator(
            "pckv_em",
            "EM for PCKV-GRR, PCKV-UE and PCKV-PM",
            pckv_em,
            check_pckv_em,
            {"tolerance": 1e-3, "max_iterations": 10_000},
        ),
        Estimator(
            "pckv_mr",
            "PCKV-MR: mixture reduction of each key's values",
            pckv_mr,
            check_pckv_mr,
            {"deviations": 2.0, "keep": 0.25, "tolerance": 1e-3, "max_iterations": 10_000},
        ),
    )
}


def check(name: str, attribute: Attribute, services: Sequence[str], options: Mapping[str, Any]) -> None:
    """Refuse what an estimator cannot answer.

    Raises:
        ValueError: for an unknown estimator or option, or one that does not fit the attribute.
    """
    estimator = _named(name)
    for option in options:
        if option not in estimator.defaults:
            allowed = ", ".join(estimator.defaults) or "none"
            raise ValueError(f"estimator {name!r} has no option {option!r}; it takes: {allowed}")
        if options[option] is None and estimator.defaults[option] is None:
            continue
        problem = _option_problem(option, options[option])
        if problem:
            raise ValueError(f"option {option!r} {problem}, found {options[option]!r}")
    for service in services:
        if service not in attribute.services:
            raise ValueError(f"unknown service {service!r}; there are: {', '.join(attribute.services)}")
    try:
        estimator.check(attribute, services)
    except ValueError as error:
        raise ValueError(f"estimator {name!r} does not fit: {error}") from None


def _named(name: str) -> Estimator:
    if name not in ESTIMATORS:
        near = difflib.get_close_matches(name, ESTIMATORS, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise ValueError(f"unknown estimator {name!r}; {hint}there are: {', '.join(ESTIMATORS)}")
    return ESTIMATORS[name]


def _option_problem(option: str, value: object) -> str:
    """What is wrong with an option's value; empty where nothing is."""
    if option in ("smooth", "accelerated", "pre_merge", "correction"):
        return "" if isinstance(value, bool) else "is true or false"
    if option == "strategy":
        return "" if value in STRATEGIES else f"is one of {', '.join(STRATEGIES)}"
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if option in ("keep", "significance"):
        return "" if number and 0 < float(value) <= 1 else "is a number above 0 and at most 1"  # type: ignore[arg-type]
    if option == "max_iterations":
        return "" if isinstance(value, int) and number and value >= 1 else "is a whole number from 1"
    return "" if number and 0 < float(value) < math.inf else "is a number above 0"  # type: ignore[arg-type]


def starts_warm(name: str, options: Mapping[str, Any] | None = None) -> bool:
    """Whether :func:`estimate` takes a ``start`` for an estimator with these options.

    It does where the answer is a fixed point that is the same from every start, to 1e-6 of each share and of
    the mean, in units of the domain's width: ``ems`` with ``accelerated: true`` and a ``tolerance`` of 1e-15
    or less. Where stopping early is part of the estimator, another start would be another answer.

    Raises:
        ValueError: for an unknown estimator.
    """
    fixed_point = _named(name).fixed_point
    return fixed_point is not None and fixed_point(options or {})


def _checked_start(name: str, attribute: Attribute, options: Mapping[str, Any], start: ArrayLike) -> Floats:
    """The shares of a start, where the estimator takes one and it is of this attribute."""
    if not starts_warm(name, options):
        raise ValueError(
            f"estimator {name!r} with options {dict(options)} has no fixed point that is the same from every "
            f"start: give no start, or use ems with accelerated: true and tolerance: {FIXED_POINT_TOLERANCE}"
        )
    shares = np.asarray(start, dtype=np.float64)
    if shares.shape != (attribute.value_buckets,):
        raise ValueError(
            f"the start has the shape {shares.shape}, and attribute {attribute.name!r} has "
            f"{attribute.value_buckets} value buckets: give the distribution of an estimate of this attribute"
        )
    if not np.isfinite(shares).all():
        raise ValueError("the start has shares that are no finite numbers: give no start")
    return shares


def estimate(
    name: str,
    attribute: Attribute,
    statistic: Statistic,
    services: Sequence[str] = (),
    options: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    start: ArrayLike | None = None,
) -> Estimate:
    """The answer of one estimator, from a statistic.

    Args:
        name: the estimator.
        attribute: what was asked.
        statistic: of that attribute's reports.
        services: whose reports to use; all of them by default.
        options: the estimator's own; see ``ESTIMATORS[name].defaults``.
        progress: told of every iteration.
        start: the distribution of a previous estimate, shape (value buckets,), to start from instead of the
            fixed start, where :func:`starts_warm`. The answer is the same to 1e-6 where both have converged.
            Shares of zero or below are raised a little above it.

    Raises:
        ValueError: if the estimator does not fit, the statistic is of other channels, or the start is of
            another length or given to an estimator that does not take one.
    """
    services = tuple(services) or attribute.services
    check(name, attribute, services, options or {})
    if statistic.fingerprint != attribute.fingerprint:
        raise ValueError(
            f"the statistic is of other channels ({statistic.fingerprint}) than attribute "
            f"{attribute.name!r} has now ({attribute.fingerprint})"
        )
    given = dict(options or {})
    if start is not None:
        given["start"] = _checked_start(name, attribute, given, start)
    question = Question(attribute, statistic, services, progress)
    if not question.versions:
        return Estimate(
            name,
            services,
            0,
            question.users,
            converged=False,
            warnings=("no reports from these services",),
        )
    return ESTIMATORS[name].function(question, **given)
