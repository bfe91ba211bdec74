"""Study files that several tests share."""

# Two services, cheap estimators and no intervals: what most runs of the command need.
SMALL = """\
study: small
attributes:
  x:
    domain: {numeric: [0, 1]}
    buckets: 8
    services:
      a: {mechanism: piecewise, epsilon: 1.0}
      b: {mechanism: laplace, epsilon: 2.0}
    estimates:
      mean: {estimator: ivw}
      both: {estimator: ule}
intervals: false
"""
