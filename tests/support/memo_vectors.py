"""Reports of clients that remember their noise, with keys and draws that are given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ldpbeam import build_mechanism
from ldpbeam.domains import Numeric, number_of_values
from ldpbeam.memoised import Lifetime, Memo, released_options
from ldpbeam.schemas.reports.stamps import domain_hash
from support.given_draws import Given, domain_of

NUMBERS = ("stochastic_rounding", "square_wave", "piecewise")
NAMES = ("grr", "oue", "sue", "olh", *NUMBERS)
KEYS = ("mechanism", "epsilon", "lifetime_epsilon", "as_published", "memo_buckets", "options", "domain")


def memo_of(vector: Mapping[str, Any]) -> Memo:
    """The memo of a test vector's service."""
    published, epsilons = vector.get("as_published", False), (vector["lifetime_epsilon"], vector["epsilon"])
    domain, name = domain_of(vector), vector["mechanism"]
    released = released_options(name, *epsilons) if published else {}
    named = build_mechanism(name, domain, vector["epsilon"], **{**released, **vector["options"]})
    buckets, values = vector.get("memo_buckets", 0), number_of_values(domain)
    lifetime = Lifetime(named, vector["lifetime_epsilon"], published, buckets, values)
    names = (vector[name] for name in ("study", "attribute", "service", "version"))
    return Memo(*names, domain_hash(domain), lifetime)


def sent(vector: Mapping[str, Any]) -> float | str:
    """What its client sends, as a test vector states it: to twelve digits, or as hexadecimal digits."""
    domain, memo = domain_of(vector), memo_of(vector)
    value = [vector["value"]]
    values = domain.to_unit(value) if isinstance(domain, Numeric) else np.array(value)
    report = memo.perturb([bytes.fromhex(vector["device_key"])], values, Given(vector["draws"]))
    return report.tobytes().hex() if report.dtype.kind == "V" else float(f"{report[0]:.12g}")


def vectors(count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Services of every mechanism, without their reports; every other one sends the memo itself."""
    random = np.random.default_rng(seed)
    for index in range(count):
        name = NAMES[index % len(NAMES)]
        epsilon = float(np.round(random.uniform(0.05, 4.0), 3))
        vector: dict[str, Any] = {
            "study": f"study {index % 5}",
            "attribute": ("x", "été", "値")[index % 3],
            "service": "app",
            "version": ("", "2.0")[index % 2],
            "mechanism": name,
            "epsilon": epsilon,
            "lifetime_epsilon": float(np.round(epsilon * random.uniform(1.05, 4.0), 4)),
            "options": {},
            "device_key": random.bytes(int(random.integers(16, 70))).hex(),
        }
        size = 1
        if name in NUMBERS:
            stepped = index % 3 == 0
            low = float(np.round(random.normal(0.0, 50.0), 0 if stepped else 2))
            vector["domain"] = {"numeric": [low, low + 30.0]} | ({"step": 2.5} if stepped else {})
            vector["memo_buckets"] = int(random.integers(2, 3000))
            vector["value"] = low + 30.0 * random.random()
        else:
            size = int(random.integers(2, 30))
            names = [f"c{k}é" for k in range(size)]
            vector["domain"] = {"categories": size if index % 2 else names}
            vector["value"] = int(random.integers(size))
            if random.random() < 0.4:
                vector["as_published"] = True
        if name == "olh" and not vector.get("as_published"):
            chosen = [{}, {"seeds": "any"}, {"hashed": "text"}, {"seeds": 512, "hashes": 3}]
            vector["options"] = chosen[int(random.integers(4))]
        many = size if name in ("oue", "sue") else 1
        vector["draws"] = [0.0] * many if index % 2 else random.random(many).tolist()
        yield vector
