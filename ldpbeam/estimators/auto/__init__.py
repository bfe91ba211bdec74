"""The estimator ``auto``: it chooses or averages among methods by the data alone. One file per domain."""

from ldpbeam.estimators.auto.dispatch import auto, auto_joins, check_auto

__all__ = ["auto", "auto_joins", "check_auto"]
