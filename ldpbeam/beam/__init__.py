"""Beam transforms for your own pipeline.

``reports | Estimate(study)`` computes what a study asks for, from a bounded collection or from a stream::

    import apache_beam as beam
    import ldpbeam as ldp

    with beam.Pipeline() as pipeline:
        reports = pipeline | ldp.beam.ReadReports("study.yaml", "reports/*.parquet")
        results = reports | ldp.beam.Estimate("study.yaml")
        results.estimates | beam.io.WriteToParquet("estimates")

``ldpbeam estimate`` on an engine is built from the same transforms, and ``ldpbeam stream`` from the functions
below them, so the estimates are the same, bit for bit. docs/beam.md describes the inputs and outputs.
"""

from ldpbeam.errors import INSTALLS_BEAM

try:
    import apache_beam as _beam  # noqa: F401
except ModuleNotFoundError:
    raise ModuleNotFoundError(
        f"ldpbeam.beam needs Apache Beam: {INSTALLS_BEAM}", name="apache_beam"
    ) from None

from ldpbeam.beam.bigquery import bigquery_schema
from ldpbeam.beam.estimate_transform import Estimate, Estimated, Statistics, Tallied
from ldpbeam.beam.in_yaml import PROVIDERS
from ldpbeam.beam.perturb import Perturb
from ldpbeam.beam.read import ReadReports, ReportsRead
from ldpbeam.beam.rows import CountRow, DeadLetterRow, StatisticRow, as_dict, statistic_of
from ldpbeam.schemas.outputs.rows import EstimateRow, Flag, Frequent, Quantile, RangeShare, ShareRow

__all__ = [
    "PROVIDERS",
    "CountRow",
    "DeadLetterRow",
    "Estimate",
    "EstimateRow",
    "Estimated",
    "Flag",
    "Frequent",
    "Perturb",
    "Quantile",
    "RangeShare",
    "ReadReports",
    "ReportsRead",
    "ShareRow",
    "StatisticRow",
    "Statistics",
    "Tallied",
    "as_dict",
    "bigquery_schema",
    "statistic_of",
]
