"""The registry that study files name estimators by."""

from __future__ import annotations

from ldpbeam.estimators.admm import admm, check_hierarchy
from ldpbeam.estimators.auto.dispatch import auto, auto_joins, check_auto
from ldpbeam.estimators.em import check_em, check_ems, em, ems
from ldpbeam.estimators.estimator import Estimator
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
from ldpbeam.estimators.mixture_reduction.mr import check_mr, mr
from ldpbeam.estimators.ule import check_joined, ule
from ldpbeam.estimators.wiener import iiw
from ldpbeam.nearest import did_you_mean
from ldpbeam.plugins import Registry

_OURS = (
    Estimator("auto", "chooses the method by the data", auto, check_auto, joins_where=auto_joins),
    Estimator("em", "EM: maximum likelihood, stopped early", em, check_em),
    Estimator("ems", "EMS: EM with smoothing, for numbers", ems, check_ems),
    Estimator(
        "ule", "ULE: EMS over the joint likelihood of each user's services", ule, check_joined, joins=True
    ),
    Estimator("mr", "MR: EM that merges what noise hides", mr, check_mr),
    Estimator("ivw", "mean, services weighted by inverse variance", ivw, check_mean),
    Estimator("ua", "UA: mean of each user's mean unbiased report", ua, check_mean),
    Estimator("uwa", "UWA as published: weights by each user's posterior", uwa, check_uwa, joins=True),
    Estimator("inversion", "unbiased shares; HH and HaarHRR of a hierarchy", inversion, check_frequencies),
    Estimator("norm_sub", "Norm-Sub: the nearest distribution", norm_sub_estimate, check_frequencies),
    Estimator("norm_cut", "Norm-Cut: small shares cut", norm_cut_estimate, check_bins),
    Estimator("norm_mul", "Norm-Mul: positive shares scaled", norm_mul_estimate, check_frequencies),
    Estimator("iiw", "IIW: unbiased shares, Wiener-filtered", iiw, check_bins),
    Estimator(
        "admm", "HH-ADMM: the nearest distribution to all levels of a hierarchy", admm, check_hierarchy
    ),
    Estimator("base_cut", "Base-Cut: shares of two deviations or more", base_cut, check_bins),
    Estimator("threshold", "shares significantly above zero", threshold, check_bins),
    Estimator(
        "mle", "maximum likelihood in closed form, for grr, oue, sue, subset_selection", mle, check_mle
    ),
    Estimator("key_value", "keys with values: the mechanism's own estimates", key_value, check_key_value),
    Estimator("privkv_em", "PrivKV-EM as published: EM per key, stopped early", privkv_em, check_privkv_em),
    Estimator("privkv_mle", "PrivKV's exact maximum likelihood", privkv_mle, check_privkv_mle),
    Estimator("privkvm", "PrivKVM: means of the last round, frequencies of all", privkvm, check_privkvm),
    Estimator("pckv_em", "EM for PCKV-GRR, PCKV-UE and PCKV-PM", pckv_em, check_pckv_em),
    Estimator("pckv_mr", "PCKV-MR: mixture reduction of each key's values", pckv_mr, check_pckv_mr),
)


def _checked(plugin: object) -> tuple[str, Estimator]:
    if not isinstance(plugin, Estimator):
        raise TypeError(f"{plugin!r} is not an Estimator")
    return plugin.name, plugin


_REGISTRY: Registry[Estimator] = Registry("estimator", _checked)


def register(estimator: Estimator) -> Estimator:
    """Let study files use an estimator by its ``name``.

    Raises:
        ValueError: if another estimator has this name.
    """
    _REGISTRY.add(estimator.name, estimator)
    return estimator


for _estimator in _OURS:
    register(_estimator)


def registered_estimators() -> dict[str, Estimator]:
    """Every estimator by name: ours, then those of the entry point group ``ldpbeam.estimators``.

    Raises:
        UserError: if an installed package adds one that cannot be used.
    """
    return _REGISTRY.all()


def estimator_named(name: str) -> Estimator:
    """The estimator of this name.

    Raises:
        ValueError: if no estimator has this name.
    """
    estimators = registered_estimators()
    if name not in estimators:
        meant = did_you_mean(name, estimators, after=" ")
        raise ValueError(f"unknown estimator {name!r}; {meant}there are: {', '.join(estimators)}")
    return estimators[name]
