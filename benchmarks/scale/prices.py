"""Prices of machines and of what moves between them, in dollars.

Dataflow's are those of us-central1, of cloud.google.com/dataflow/pricing, as Beam 2.77 has them for its own
benchmarks (apache_beam/testing/load_tests/dataflow_cost_consts.py).
"""

#: An hour of a vCPU.
VCPU_HOUR_BATCH, VCPU_HOUR_STREAMING = 0.056, 0.069
#: An hour of a GB of memory.
GB_HOUR_BATCH, GB_HOUR_STREAMING = 0.003557, 0.0035557
#: A GB that is shuffled, or that moves through a stream.
SHUFFLED_GB, STREAMED_GB = 0.011, 0.018
#: An example: an hour of a core with its memory (n1-standard-1, Iowa, Google's calculator of 18 May 2023).
MACHINE_HOUR = 0.0475
