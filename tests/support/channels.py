"""What holds for every channel: its products are those of its matrix."""

from __future__ import annotations

import numpy as np

from ldpbeam.channels import Channel


def assert_products_are_the_matrix(channel: Channel) -> None:
    """Every entry by unit vectors, and random vectors through both products and the transpose."""
    matrix = channel.dense()
    assert matrix.shape == channel.shape
    rng = np.random.default_rng(1)
    weights, ratios = rng.dirichlet(np.ones(channel.shape[1])), rng.random(channel.shape[0])
    close = {"rtol": 0.0, "atol": 1e-12}
    np.testing.assert_allclose(channel @ np.eye(channel.shape[1]), matrix, **close)
    np.testing.assert_allclose(channel.matvec(weights), matrix @ weights, **close)
    np.testing.assert_allclose(channel.rmatvec(ratios), ratios @ matrix, **close)
    np.testing.assert_allclose(channel.T @ ratios, ratios @ matrix, **close)
    np.testing.assert_allclose(channel.gram(weights), matrix.T @ matrix @ weights, **close)
