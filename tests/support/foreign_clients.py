"""Reports of the clients of other projects, estimated by the ldpbeam that is installed.

    python foreign_clients.py

OpenDP perturbs by randomised response, multi-freq-ldpy by subset selection. It prints, by mechanism, the
largest error of a share, in standard errors of an unbiased estimate, and how many reports were used.
Both draw from sources that cannot be seeded.
"""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
from multi_freq_ldpy.pure_frequency_oracles.SS import SS_Client
from opendp import prelude as dp

import ldpbeam as ldp

PEOPLE, CATEGORIES, EPSILON = 8_000, 10, 1.0
E = np.exp(EPSILON)
SHARES = np.array([0.3, 0.2, 0.15, 0.1, 0.08, 0.07, 0.05, 0.03, 0.015, 0.005])


def subset_bits(category: int) -> bytes:
    """A report of subset selection as ldpbeam reads it: the bits of its categories."""
    bits = np.zeros(CATEGORIES, dtype=np.uint8)
    bits[SS_Client(category, CATEGORIES, EPSILON)] = 1
    return np.packbits(bits, bitorder="little").tobytes()


def main() -> None:
    """Perturb, estimate, and print."""
    people = np.repeat(np.arange(CATEGORIES), np.random.default_rng(5).multinomial(PEOPLE, SHARES))
    dp.enable_features("contrib")
    names = [f"c{place}" for place in range(CATEGORIES)]
    respond = dp.m.make_randomized_response(categories=names, prob=E / (E + CATEGORIES - 1))
    subset = max(1, round(CATEGORIES / (E + 1)))
    inside = subset * E / (subset * E + CATEGORIES - subset)
    beside = inside * (subset - 1) / (CATEGORIES - 1) + (1 - inside) * subset / (CATEGORIES - 1)
    # Payloads, and how likely a report supports a category: of one who has it, and of one who has another.
    clients = {
        "grr": (pa.array([names.index(respond(names[one])) for one in people.tolist()]),
                E / (E + CATEGORIES - 1), 1 / (E + CATEGORIES - 1)),
        "subset_selection": (pa.array([subset_bits(one) for one in people.tolist()]), inside, beside),
    }  # fmt: skip
    truth, printed = np.bincount(people) / PEOPLE, {}
    for mechanism, (payloads, p, q) in clients.items():
        service = {"mechanism": mechanism, "epsilon": EPSILON}
        domain = {"categories": names}
        attributes = {"drink": {"domain": domain, "services": {"app": service}}}
        study = ldp.Study.from_dict(study=mechanism, users="none", attributes=attributes)
        reports = pa.table({"payload": payloads})
        estimates = ldp.estimate(study, reports, attribute="drink", service="app")
        (estimate,) = estimates
        error = np.sqrt((truth * p * (1 - p) + (1 - truth) * q * (1 - q)) / PEOPLE) / (p - q)
        worst = (np.abs(np.array(estimate.frequencies) - truth) / error).max()
        printed[mechanism] = {"worst": float(worst), "used": estimate.reports}
    print(json.dumps(printed))


if __name__ == "__main__":
    main()
