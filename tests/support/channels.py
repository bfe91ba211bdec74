"""What holds for every channel: its products are those of its matrix."""

from __future__ import annotations

import math

import numpy as np

from ldpbeam.channels import Channel


def assert_products_are_the_matrix(channel: Channel) -> None:
    """By random vectors, some of them negative, through both products and the transpose."""
    matrix, rng = channel.dense(), np.random.default_rng(0)
    assert matrix.shape == channel.shape
    for _ in range(2):
        weights, counts = rng.normal(size=channel.shape[1]), rng.normal(size=channel.shape[0])
        # Sums over so many reports carry the rounding of their root.
        atol = 5e-12 * max(1.0, math.sqrt(channel.shape[0] / 1000))
        np.testing.assert_allclose(channel.matvec(weights), matrix @ weights, rtol=0, atol=atol)
        np.testing.assert_allclose(channel.rmatvec(counts), counts @ matrix, rtol=0, atol=atol)
        np.testing.assert_allclose(channel.T @ counts, counts @ matrix, rtol=0, atol=atol)
    shares = rng.dirichlet(np.ones(channel.shape[1]))
    np.testing.assert_allclose(channel.gram(shares), matrix @ shares @ matrix, rtol=1e-9, atol=1e-12)
